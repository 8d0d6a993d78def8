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

import json
from collections.abc import Callable, Collection

from natsync.protocol import (
    HMsg,
    HPub,
    Msg,
    ProtocolError,
    Pub,
    matches,
    parse_headers,
    read_violation,
)

from ..schema.records import RequestRecord, text_of
from .headers import status_of
from .quota import EntryQuota
from .subscriptions import Subscription

# At least this many of the latest requests may still get replies, and at most twice as many.
_OPEN = 4096
_STEP = 256
_PULLS = 1024
_NO_RESPONDERS = 503
_NEXT = b".CONSUMER.MSG.NEXT."
ACK = b"$JS.ACK."


# JetStream's error responses have a few hundred bytes. A larger payload is not an error.
_ERROR_BYTES = 16 << 10
_ERROR_HEAD = 512
_API_TYPE = "io.nats.jetstream.api."
# An inline status of 400 or more is a refusal by JetStream. Only 404 (no messages) and 408 (expired) are
# ordinary ends of a pull.
_REFUSED_STATUS = 400
_PULL_ENDS = (404, 408)


def may_be_api_error(payload: bytes) -> bool:
    """Whether a payload may be an error of the JetStream API; `reply_outcome` needs only such payloads."""
    return (
        payload[:1] == b"{" and len(payload) <= _ERROR_BYTES and b'"error"' in payload[:_ERROR_HEAD]
    )


def reply_outcome(message: Msg | HMsg, status: int) -> tuple[str, int | None]:
    """`ok`, `service_error` or `api_error`, and the error code.

    Services report errors in headers (ADR-32: Nats-Service-Error, Nats-Service-Error-Code), the JetStream API
    in the field `error` of its JSON (ADR-1), and pulls by an inline status (ADR-13).
    """
    if isinstance(message, HMsg) and b"nats-service-error" in message.headers.lower():
        try:
            fields = {name.lower(): value for name, value in parse_headers(message.headers).fields}
        except ProtocolError:
            fields = {}
        code = fields.get(b"nats-service-error-code", b"").strip()
        if b"nats-service-error" in fields or code:
            return "service_error", int(code) if code.isdigit() and len(code) < 10 else None
    if status >= _REFUSED_STATUS and status not in _PULL_ENDS:
        return "api_error", status
    return _api_outcome(message.payload) if may_be_api_error(message.payload) else ("ok", None)


def _api_outcome(payload: bytes) -> tuple[str, int | None]:
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        return "ok", None
    error = value.get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict):
        return "ok", None
    code, specific = (
        number if type(number) is int and 0 < number < 1 << 31 else None
        for number in (error.get("code"), error.get("err_code"))
    )
    if specific is None and not str(value.get("type", "")).startswith(_API_TYPE):
        return "ok", None  # JSON of an application
    return "api_error", specific or code


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

    def send(self, message: Pub | HPub, ts_ns: int, size: int) -> None:
        """Adds a request that the client sent."""
        self.sent += 1
        newer = self._newer
        if len(newer) >= self._room:
            newer = self._more_room()
        newer[message.reply] = b""
        if message.subject[:1] == b"$" and _NEXT in message.subject:
            self._note_pull(message)
        if self._rows:
            self._rows.sent(message, ts_ns, size)

    def expects_none_of(self, subjects: Collection[bytes]) -> bool:
        """Whether no request expects a reply under these subjects. This is no test of JetStream deliveries,
        which can be replies under other subjects."""
        if not self.sent:
            return True
        return self._newer.keys().isdisjoint(subjects) and self._older.keys().isdisjoint(subjects)

    def receive(self, message: Msg | HMsg, ts_ns: int, size: int, sub: Subscription) -> None:
        """Adds a message that the client received through `sub`. It may be a reply."""
        asked = message.subject
        generation = self._newer
        sid = generation.get(asked)
        if sid is None:
            generation = self._older
            sid = generation.get(asked)
        if sid is None:
            if not message.reply.startswith(ACK):
                return
            asked = self._pulled_by(message, sub)
            generation = self._newer if asked in self._newer else self._older
            sid = generation.get(asked)
            if sid is None:
                return
        if not sid:
            generation[asked] = message.sid
        elif sid != message.sid:
            return
        status = status_of(message) if isinstance(message, HMsg) else 0
        nobody = status == _NO_RESPONDERS and not message.payload_bytes
        if nobody:
            self.no_responders += 1
        else:
            self.replies += 1
        if self._rows:
            outcome = ("no_responders", None) if nobody else reply_outcome(message, status)
            self._rows.answered(asked, ts_ns, size, status, 0 if nobody else 1, outcome)

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

    def _note_pull(self, message: Pub | HPub) -> None:
        if len(self._pulls) >= _PULLS:
            self._pulls.clear()
        self._pulls[message.subject.partition(_NEXT)[2]] = message.reply

    def _pulled_by(self, message: Msg | HMsg, sub: Subscription) -> bytes:
        """The reply subject of the pull to which a delivered message belongs; empty if there is none."""
        if sub.subject in self._newer or sub.subject in self._older:
            return sub.subject
        if not self._pulls:  # acknowledged deliveries of a push consumer
            return b""
        tokens = message.reply.split(b".", 7)
        # The second form of ack subjects has domain and account hash before stream and consumer (ADR-15).
        first = 4 if message.reply.count(b".") >= 10 else 2
        asked = self._pulls.get(b".".join(tokens[first : first + 2]), b"")
        return asked if asked and sub.subject and matches(sub.subject, asked) else b""


class RequestRows:
    """The records of open requests. `emit` is called with each record when it is settled. Records are settled
    in the order in which the requests were sent, except for requests whose reply subject is reused.
    """

    def __init__(self, session: str, emit: Callable[[RequestRecord], None]) -> None:
        self._session = session
        self._emit = emit
        self._open: dict[bytes, RequestRecord] = {}
        self._latest: dict[str, bytes] = {}  # subject -> reply subject of its latest request

    def sent(self, message: Pub | HPub, ts_ns: int, size: int) -> None:
        """Opens the record of a request."""
        if message.reply in self._open:
            self._close(message.reply)
        subject = text_of(message.subject)
        self._latest[subject] = message.reply
        self._open[message.reply] = RequestRecord(
            session=self._session,
            subject=subject,
            reply=text_of(message.reply),
            sent_ns=ts_ns,
            request_bytes=size,
        )

    def answered(
        self,
        reply: bytes,
        ts_ns: int,
        size: int,
        status: int,
        responses: int,
        outcome: tuple[str, int | None],
    ) -> None:
        """Adds a reply; `responses` is 0 if the message reports that there are no responders."""
        row = self._open[reply]
        if row.replied_ns is None:
            row.replied_ns = ts_ns
            row.latency_ns = max(0, ts_ns - row.sent_ns)
            row.status = status or None
            row.outcome, row.error_code = outcome
        row.responses += responses
        row.reply_bytes += size if responses else 0

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
            row.outcome = "refused"

    def _close(self, reply: bytes) -> None:
        row = self._open.pop(reply)
        if self._latest.get(row.subject) == reply:
            del self._latest[row.subject]
        self._emit(row)
