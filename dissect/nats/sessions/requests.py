"""A client's requests and their replies, paired by reply subject.

A message is a reply if its subject is the reply subject of an earlier request. This holds on the client's
own connection, for an inbox per request as well as for a wildcard subscription that many requests share.
JetStream delivers the messages of a pull under the subjects of the stream: such a message has a `$JS.ACK.`
reply, and belongs to the request to whose reply subject its sid is subscribed. When a reply subject is
reused, the earlier request gets no more replies. If a client has subscribed twice, copies under the second
sid do not count.

A message with status 503 and without a payload comes from the server, and reports that there are no
responders.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import chain

from natsync.protocol import matches, read_violation

from .. import outcomes
from ..durations import elapsed
from ..schema.records import Record, RequestRecord, text_of
from .headers import status_of
from .quota import EntryQuota
from .subscriptions import Subscription

# At least this many of the latest requests may still get replies, and at most twice as many.
_OPEN = 4096
_STEP = 256
_PULLS = 1024
_NEXT = b".CONSUMER.MSG.NEXT."
ACK = b"$JS.ACK."


class Requests:
    """Counts requests and replies, and makes a record of each request if `rows` is given."""

    def __init__(self, quota: EntryQuota, rows: RequestRows | None = None) -> None:
        self.sent = 0
        self.replies = 0
        self.no_responders = 0
        self._quota = quota
        self._rows = rows
        self._room = 0
        # Reply subject -> sid of its replies; empty before the first reply.
        self._newer: dict[bytes, bytes] = {}
        self._older: dict[bytes, bytes] = {}
        self._pulls: dict[bytes, bytes] = {}  # stream and consumer -> reply subject

    def send(self, subject: bytes, reply: bytes, ts_ns: int, size: int) -> None:
        """Adds a request that the client sent."""
        self.sent += 1
        newer = self._newer
        if len(newer) >= self._room:
            newer = self._more_room()
        newer[reply] = b""
        if subject[:1] == b"$" and _NEXT in subject:
            self._note_pull(subject, reply)
        if self._rows:
            self._rows.sent(subject, reply, ts_ns, size)

    def expects_none_of(self, subjects: Collection[bytes]) -> bool:
        """Whether no request expects a reply under these subjects. This is no test of JetStream deliveries,
        which can be replies under other subjects."""
        if not self.sent:
            return True
        return self._newer.keys().isdisjoint(subjects) and self._older.keys().isdisjoint(subjects)

    def expected(self) -> Iterator[bytes]:
        """The reply subjects under which replies may come."""
        return chain(self._newer, self._older)

    def receive(
        self,
        subject: bytes,
        reply: bytes,
        ts_ns: int,
        size: int,
        sub: Subscription,
        header_bytes: int = 0,
        headers: bytes = b"",
        payload: bytes = b"",
    ) -> None:
        """Adds a message that the client received through `sub`. It may be a reply. `size` is that of headers
        and payload; both may be incomplete."""
        asked = subject
        generation = self._newer
        sid = generation.get(asked)
        if sid is None:
            generation = self._older
            sid = generation.get(asked)
        if sid is None:
            if not reply.startswith(ACK):
                return
            asked = self._pulled_by(reply, sub)
            generation = self._newer if asked in self._newer else self._older
            sid = generation.get(asked)
            if sid is None:
                return
        if not sid:
            generation[asked] = sub.sid
        elif sid != sub.sid:
            return
        status = status_of(headers) if headers else 0
        payload_bytes = size - header_bytes
        if outcomes.is_no_responders(status, payload_bytes):
            self.no_responders += 1
        else:
            self.replies += 1
        if self._rows:
            self._rows.answered(asked, ts_ns, size, status, headers, payload, payload_bytes)

    def refuse(self, text: bytes) -> None:
        """Adds an -ERR of the server, which may refuse a request."""
        violation = read_violation(text) if self._rows else None
        if self._rows and violation and violation.operation == "publish":
            self._rows.refuse(text_of(violation.subject))

    def recharge(self) -> None:
        """Charges a new quota for the open requests."""
        self._quota.charge(2 * self._room)

    def finish(self) -> None:
        """Ends all open requests."""
        if self._rows:
            self._rows.settle(self._older, self._newer)
            self._rows.settle(self._newer, ())
            # The rows refer to the session, and a reference cycle would delay its release.
            self._rows = None
        self._quota.release(2 * self._room)
        self._room = 0
        self._newer, self._older = {}, {}

    def _more_room(self) -> dict[bytes, bytes]:
        """The newer requests, with room for one more. If the room cannot grow, the older requests are
        settled, and the newer ones become the older ones."""
        if self._room < _OPEN and self._quota.acquire(2 * _STEP):
            self._room += _STEP
        else:
            if self._rows:
                self._rows.settle(self._older, self._newer)
            self._older = self._newer
            self._newer = {}
        return self._newer

    def _note_pull(self, subject: bytes, reply: bytes) -> None:
        if len(self._pulls) >= _PULLS:
            self._pulls.clear()
        self._pulls[subject.partition(_NEXT)[2]] = reply

    def _pulled_by(self, reply: bytes, sub: Subscription) -> bytes:
        """The reply subject of the pull to which a delivery with this reply subject belongs, or nothing."""
        if sub.subject in self._newer or sub.subject in self._older:
            return sub.subject
        if not self._pulls:  # acknowledged deliveries of a push consumer
            return b""
        tokens = reply.split(b".", 7)
        # The second form of ack subjects has domain and account hash before stream and consumer (ADR-15).
        first = 4 if reply.count(b".") >= 10 else 2
        asked = self._pulls.get(b".".join(tokens[first : first + 2]), b"")
        return asked if asked and sub.subject and matches(sub.subject, asked) else b""


class Moment(Enum):
    """What has just become known of a request."""

    SENT = "sent"
    ANSWERED = "answered"
    """Its first reply, or the answer that nobody listens: outcome and latency do not change any more."""
    OVER = "over"
    """No more replies count: the row is complete."""


@dataclass(slots=True)
class RequestEvent(Record):
    """A moment of a request, for readers that cannot wait for the end of the exchange."""

    moment: Moment
    request: RequestRecord


class RequestRows:
    """The records of open requests. `emit` is called with each record when it is settled or, with `events`,
    with an event at each moment of each request. Records are settled in the order in which the requests were
    sent, except for requests whose reply subject is reused.
    """

    def __init__(self, session: str, emit: Callable[[Record], None], events: bool = False) -> None:
        self._session = session
        self._emit = emit
        self._events = events
        self._open: dict[bytes, RequestRecord] = {}
        self._latest: dict[str, bytes] = {}  # subject -> reply subject of its latest request

    def sent(self, subject: bytes, reply: bytes, ts_ns: int, size: int) -> None:
        """Opens the record of a request."""
        if reply in self._open:
            self._close(reply)
        text = text_of(subject)
        self._latest[text] = reply
        self._open[reply] = row = RequestRecord(
            session=self._session,
            subject=text,
            reply=text_of(reply),
            sent_ns=ts_ns,
            request_bytes=size,
        )
        if self._events:
            self._emit(RequestEvent(Moment.SENT, row))

    def answered(
        self,
        reply: bytes,
        ts_ns: int,
        size: int,
        status: int,
        headers: bytes,
        payload: bytes,
        payload_bytes: int,
    ) -> None:
        """Adds a reply, or the answer that nobody listens."""
        row = self._open[reply]
        nobody = outcomes.is_no_responders(status, payload_bytes)
        if row.replied_ns is None:
            row.replied_ns = ts_ns
            if not nobody:
                row.latency_ns = elapsed(ts_ns - row.sent_ns)
            row.status = status or None
            row.outcome, row.error_code = outcomes.reply_outcome(
                status, headers, payload, payload_bytes
            )
            if self._events:
                self._emit(RequestEvent(Moment.ANSWERED, row))
        if not nobody:
            row.responses += 1
            row.reply_bytes += size

    def settle(self, replies: Collection[bytes], asked_again: Collection[bytes]) -> None:
        """Closes the records with these reply subjects, except for those that were reused."""
        for reply in replies:
            if reply not in asked_again:
                self._close(reply)

    def refuse(self, subject: str) -> None:
        """Marks the latest request with this subject or reply subject as refused, if it has no reply."""
        reply = self._latest.get(subject, subject.encode())
        row = self._open.get(reply)
        if row and row.replied_ns is None:
            row.outcome = outcomes.REFUSED

    def _close(self, reply: bytes) -> None:
        row = self._open.pop(reply)
        if self._latest.get(row.subject) == reply:
            del self._latest[row.subject]
        self._emit(RequestEvent(Moment.OVER, row) if self._events else row)
