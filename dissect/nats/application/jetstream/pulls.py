"""Pull requests: the messages that each one received, and how it ended.

A pull asks for a batch. Its messages arrive under their own subjects at the subscription on its inbox;
statuses arrive on the inbox itself (ADR-13, ADR-37; server/consumer.go). A full batch ends without a status,
unless the pull has `max_bytes`. Servers serve the pulls of a consumer in order, so if several share an inbox,
messages and statuses belong to the oldest open one. There are three exceptions: a pull is refused at once, so
a refusal belongs to the latest one; only a pull with `no_wait` ends because there are no messages (404); and
the first pull to expire is the first that times out (408). Several consumers may share an inbox, too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import Annotated

from natsync.protocol import matches

from ...number_formats import duration_text
from ...outcomes import (
    IDLE_HEARTBEAT_STATUS,
    NO_MESSAGES_STATUS,
    NO_RESPONDERS_STATUS,
    NO_RESPONDERS_TEXT,
    TIMEOUT_STATUS,
    refuses_pull,
)
from ...schema.anomalies import Anomaly
from ...schema.declaration import LayerFrame, TextColumn
from ...schema.records import Record
from ..json_bodies import (
    Member,
    decimal,
    fill,
    header,
    number,
    read_object,
    status_text,
    why_unread,
)
from ..rows import CONSUMER, ODD, STREAM, TIME, SessionRow, counted, head, lasting, mark
from .subjects import AckSubject, ApiSubject, ConsumerKey

# By default, a consumer lets 512 pulls wait (max_waiting).
_OPEN = 8192
_SIDS = 65_536
# Open inboxes that are compared with a wildcard subscription, and open pulls of an inbox that are compared
# with a status.
_COMPARED = 64
_MOST_DIGITS = 9


def _end(row: PullRecord) -> str:
    text = NO_RESPONDERS_TEXT if row.end == str(NO_RESPONDERS_STATUS) else ""
    return f"{row.end} {row.end_text or text}".rstrip()


def _lasted(row: PullRecord) -> str:
    return duration_text(row.end_ns - row.ts_ns) if row.end_ns else ""


_LASTED = TextColumn("lasted", 8, _lasted, right=True, rank=2)


@dataclass(slots=True, kw_only=True)
class PullRecord(SessionRow):
    """One pull request."""

    number: Annotated[int, "number of the frame of the pull request"]
    ts_ns: Annotated[int, "time of the frame of the pull request", TIME]
    stream: Annotated[str, "name of the stream", STREAM]
    consumer: Annotated[str, "name of the consumer", CONSUMER]
    domain: Annotated[str | None, "JetStream domain that the subject names"] = None
    batch: Annotated[
        int, "number of messages that the request asks for", Member("batch"), counted("batch", 6)
    ] = 1
    max_bytes: Annotated[
        int | None, "number of bytes that the request asks for at most", Member("max_bytes")
    ] = None
    expires_ns: Annotated[
        int | None,
        "time after which the server drops the request",
        Member("expires"),
        lasting("expires", 3),
    ] = None
    no_wait: Annotated[
        bool | None,
        "true if the request asks only for messages that are available now",
        Member("no_wait"),
    ] = None
    idle_heartbeat_ns: Annotated[
        int | None,
        "time between signs of life of the server while there are no messages",
        Member("idle_heartbeat"),
    ] = None
    group: Annotated[
        str | None, "priority group", Member("group"), TextColumn("group", 8, may_cut=True, rank=4)
    ] = None
    min_pending: Annotated[
        int | None,
        "the server answers only if at least this many messages wait",
        Member("min_pending"),
    ] = None
    min_ack_pending: Annotated[
        int | None,
        "the server answers only if at least this many deliveries have no ack",
        Member("min_ack_pending"),
    ] = None
    priority: Annotated[
        int | None, "priority of the request, 0 to 9; the lowest number is served first"
    ] = None
    delivered: Annotated[
        int, "messages that were delivered for the request", TextColumn("delivered", 9, short="got")
    ] = 0
    delivered_bytes: Annotated[int, "bytes of payload in these messages"] = 0
    first_ns: Annotated[int | None, "time of the first delivery"] = None
    heartbeats: Annotated[int, "number of idle heartbeats"] = 0
    end: Annotated[
        str,
        "how the request ended: filled (all messages were delivered), the status that ended "
        "it (404, 409 ...), unsubscribed, or open",
        TextColumn("end", 20, _end, may_cut=True),
    ] = "open"
    end_text: Annotated[str | None, "text of the status that ended the request"] = None
    pending_messages: Annotated[int | None, "number of undelivered messages, by that status"] = None
    pending_bytes: Annotated[int | None, "number of undelivered bytes, by that status"] = None
    end_ns: Annotated[int | None, "when the request ended", _LASTED] = None
    anomalies: Annotated[list[str] | None, "anomalies of the request", ODD] = None


_OpenPulls = dict[int, PullRecord]  # by number, in order


class Pulls:
    """The open pulls of one session, and the subjects of its subscriptions."""

    def __init__(self) -> None:
        self._subjects: dict[str, str] = {}  # sid -> subject of its subscription
        self._inboxes: dict[ConsumerKey, dict[str, _OpenPulls]] = {}
        self._shared: dict[tuple[str | None, str], _OpenPulls] = {}  # by account and inbox
        self._open: OrderedDict[int, tuple[ConsumerKey, str, PullRecord]] = OrderedDict()
        self._matched = ("", "")  # latest subscription and its inbox: a batch has many messages

    def subscribe(self, frame: LayerFrame) -> None:
        """Notes a SUB."""
        if len(self._subjects) >= _SIDS:
            del self._subjects[next(iter(self._subjects))]
        self._subjects[frame.sid or ""] = frame.subject or ""

    def unsubscribe(self, frame: LayerFrame) -> Iterator[Record]:
        """Ends the pulls of an inbox whose subscription ends."""
        if frame.max_msgs:
            return
        subject = self._subjects.pop(frame.sid or "", "")
        for place in self._covered(frame.account, subject):
            for row in list(self._shared[place].values()):
                row.end, row.end_ns = "unsubscribed", frame.ts_ns
                yield self._close(row)

    def _covered(self, account: str | None, subject: str) -> list[tuple[str | None, str]]:
        """The open inboxes to which a subscription has subscribed."""
        if (account, subject) in self._shared:
            return [(account, subject)]
        if not _has_wildcards(subject):
            return []
        pattern = subject.encode()
        return [
            place
            for place in islice(self._shared, _COMPARED)
            if place[0] == account and matches(pattern, place[1].encode())
        ]

    def pull(self, frame: LayerFrame, asked: ApiSubject) -> tuple[PullRecord, list[Record]]:
        """Adds a pull request, or an ack that asks for the next message; returns its row and the rows of
        pulls that end."""
        row = PullRecord(
            **head(frame), stream=asked.stream, consumer=asked.consumer, domain=asked.domain or None
        )
        _read(row, frame, frame.content.removeprefix(b"+NXT").strip())
        if not frame.reply:
            return row, [row]
        ended: list[Record] = []
        if len(self._open) >= _OPEN:
            _, _, oldest = next(iter(self._open.values()))
            mark(oldest, Anomaly.FORGOTTEN.value)
            ended.append(self._close(oldest))
        key = frame.account, asked.stream, asked.consumer
        self._inboxes.setdefault(key, {}).setdefault(frame.reply, {})[row.number] = row
        self._shared.setdefault((frame.account, frame.reply), {})[row.number] = row
        self._open[row.number] = key, frame.reply, row
        return row, ended

    def deliver(self, frame: LayerFrame, ack_reply: AckSubject) -> Iterable[Record]:
        """Adds a message from a consumer; returns the pull that it fills."""
        key = frame.account, ack_reply.stream, ack_reply.consumer
        inboxes = self._inboxes.get(key)
        if not inboxes:
            return ()
        inbox = self._inbox(inboxes, frame)
        if inbox is None:
            return ()
        row = next(iter(inboxes[inbox].values()))
        row.delivered += 1
        row.delivered_bytes += frame.payload_bytes or 0
        if row.first_ns is None:
            row.first_ns = frame.ts_ns
        if row.delivered >= row.batch and row.max_bytes is None:
            row.end, row.end_ns = "filled", frame.ts_ns
            return (self._close(row),)
        return ()

    def status(self, frame: LayerFrame) -> Iterator[Record]:
        """Adds a status on an inbox; yields the pull that it ends."""
        pulls = self._shared.get((frame.account, frame.subject or ""))
        if pulls is None or frame.status is None:
            return
        row = _concerned(pulls, frame)
        if frame.status == IDLE_HEARTBEAT_STATUS:
            row.heartbeats += 1
            return
        row.end, row.end_ns = str(frame.status), frame.ts_ns
        row.end_text = status_text(frame)
        row.pending_messages = decimal(header(frame, "Nats-Pending-Messages"))
        row.pending_bytes = decimal(header(frame, "Nats-Pending-Bytes"))
        yield self._close(row)

    def finish(self) -> Iterator[Record]:
        """Ends the session; yields the open pulls."""
        for _, _, row in self._open.values():
            if row.delivered >= row.batch:
                row.end = "filled"  # it had max_bytes, and its status is missing
            yield row
        self._open, self._inboxes, self._shared = OrderedDict(), {}, {}

    def _inbox(self, inboxes: dict[str, _OpenPulls], frame: LayerFrame) -> str | None:
        """The inbox of the pull that a message from its consumer answers; None if it answers none."""
        if frame.sid is None:  # on server links the message's subject is the inbox
            subject = frame.subject or ""
            return subject if subject in inboxes else None
        subject = self._subjects.get(frame.sid, "")
        if subject in inboxes:
            return subject
        if not subject:
            return next(iter(inboxes))  # the SUB was not captured
        first = next(iter(inboxes))
        if self._matched == (subject, first):
            return first
        pattern = subject.encode()
        for inbox in islice(inboxes, _COMPARED if _has_wildcards(subject) else 0):
            if matches(pattern, inbox.encode()):
                self._matched = subject, inbox
                return inbox
        return None

    def _close(self, row: PullRecord) -> PullRecord:
        """Ends an open pull."""
        key, inbox, _ = self._open.pop(row.number)
        inboxes, place = self._inboxes[key], (row.account, inbox)
        for pulls in (inboxes[inbox], self._shared[place]):
            del pulls[row.number]
        if not inboxes[inbox]:
            del inboxes[inbox]
            if not inboxes:
                del self._inboxes[key]
        if not self._shared[place]:
            del self._shared[place]
        return row


def _concerned(pulls: _OpenPulls, frame: LayerFrame) -> PullRecord:
    """The pull of an inbox that a status concerns."""
    if refuses_pull(frame.status, frame.status_text):
        return next(reversed(pulls.values()))
    oldest = [*islice(pulls.values(), _COMPARED)]
    if frame.status == NO_MESSAGES_STATUS:
        return next((row for row in oldest if row.no_wait), oldest[0])
    return min(oldest, key=_due_ns) if frame.status == TIMEOUT_STATUS else oldest[0]


def _due_ns(row: PullRecord) -> float:
    """When the server ends a pull that has not all its messages. One with `no_wait` does not wait for more
    messages once it has some."""
    if row.no_wait and (row.delivered or row.expires_ns is None):
        return row.ts_ns
    return inf if row.expires_ns is None else row.ts_ns + row.expires_ns


def _has_wildcards(subject: str) -> bool:
    return "*" in subject or ">" in subject


def _read(row: PullRecord, frame: LayerFrame, body: bytes) -> None:
    """Reads the body: JSON, the size of the batch alone, or nothing."""
    if not body:
        return
    if body.isdigit() and len(body) <= _MOST_DIGITS:
        row.batch = int(body) or 1
        return
    read = read_object(body)
    if read is None:
        row.anomalies = [why_unread(frame)]
        return
    fill(row, {name: each for name, each in read.items() if type(each) is not int or each > 0})
    row.batch = row.batch or 1
    row.no_wait = row.no_wait or None
    row.priority = number(read, "priority")
