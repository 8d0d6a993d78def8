"""One session: counts the frames of both endpoints, and stores the facts from which its row is made.

`add` runs for every batch of frames, so it only looks up and counts each frame; `_ACTIONS` has the functions
for everything else that an operation changes. Subscriptions are always tracked, because a SUB may reuse the
sid of an open one, which is an anomaly of its frame. Requests are tracked only if a requested table shows or
counts them. Rows of subscriptions and requests are made only if their tables are requested.

To count something new per message, change three places: an action here, `SessionDelta` (the sums over many
messages, which Spark's stages pass on instead of messages), and `Session.add_delta`, which applies the sums.
`test_a_sum_is_worth_its_frames` compares whole rows, so it fails if one place is forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from functools import partial

from natsync.protocol import (
    Connect,
    ConnectOptions,
    Err,
    Frame,
    HMsg,
    HPub,
    Info,
    LMsg,
    LSub,
    LUnsub,
    Msg,
    Ok,
    Ping,
    Pong,
    ProtocolError,
    Pub,
    RHMsg,
    RMsg,
    RSub,
    RUnsub,
    ServerInfo,
    Sub,
    Unsub,
    check_subscribe,
)

from ..framing.events import Batch, FramePosition, Note, place_of
from ..schema.anomalies import Anomaly
from ..schema.records import Record, text_of
from ..secrets.redact import NO_SECRETS, NOT_MASKED
from ..types import Direction
from .advisories import ADVISORY, trouble
from .delta import SessionDelta, is_publishable
from .endpoint import Endpoint
from .headers import header_error
from .identity import Identity
from .ping_ack import Acknowledgements
from .quota import EntryQuota
from .requests import RequestRows, Requests
from .subscriptions import Subscription, subscription_row

_ERRORS = 64
_NO_LIMIT = 1 << 62
# Tables that show or count requests, or the anomaly of requests that were dropped because the quota was used
# up.
_WITH_REQUESTS = frozenset({"sessions", "requests", "anomalies"})
_ORIGINATOR = Direction.ORIGINATOR
_OPERATIONS = (Connect, Pub, HPub, Sub, Unsub)  # the server acknowledges them with +OK


class Session:
    """Call `add` for batches and `note` for anomalies, then `finish`. `engine.session_row` makes the row of
    the session from `originator`, `responder`, `requests`, `identity`, `errors` and `anomalies`.

    `rows` has completed rows of `tables` (subscriptions, requests), and `notes` has the anomalies that the
    session itself found; the caller takes them and empties the lists. With `redact`, texts do not repeat
    secrets. With `request_events`, there is an event for each moment of a request instead of its row.
    """

    def __init__(
        self,
        session: str = "",
        tables: Collection[str] = (),
        redact: bool = True,
        quota: EntryQuota | None = None,
        request_events: bool = False,
    ) -> None:
        self.rows: list[Record] = []
        self.notes: list[Note] = []
        self._session = session
        self._wants_subscriptions = "subscriptions" in tables
        quota = quota or EntryQuota()
        self.originator = self._endpoint(Direction.ORIGINATOR, quota)
        self.responder = self._endpoint(Direction.RESPONDER, quota)
        self.originator.other, self.responder.other = self.responder, self.originator
        self._pairs_requests = not _WITH_REQUESTS.isdisjoint(tables)
        wanted = "requests" in tables
        rows = RequestRows(session, self._emit, request_events) if wanted else None
        self.requests = Requests(quota, rows)
        self.identity = Identity()
        self._oks = Acknowledgements()
        self._last: dict[type[Frame], FramePosition] = {}  # +OK and PONG
        self._max_payload = _NO_LIMIT
        self.secrets = NO_SECRETS if redact else NOT_MASKED
        self._errors: list[str] = []
        self.anomalies: Counter[str] = Counter()
        self._has_gaps = False
        self._batch: Batch
        self._is_over = False

    def add(self, batch: Batch) -> None:
        """Adds the frames that one packet completed."""
        sender = self.originator if batch.direction is _ORIGINATOR else self.responder
        self._batch = batch
        ts_ns = batch.ts_ns
        counts = sender.counts
        for frame in batch.frames:
            kind = frame.__class__
            counts[kind] += 1
            action = _ACTIONS.get(kind)
            if action:
                action(self, sender, frame, ts_ns)
        if sender.last_error and not isinstance(frame, Err):
            sender.last_error = None

    def __getstate__(self) -> dict[str, object]:
        """Leaves out the latest batch."""
        return {name: value for name, value in self.__dict__.items() if name != "_batch"}

    def add_delta(self, direction: Direction, delta: SessionDelta) -> bool:
        """Adds the sums over many batches of one sender. Returns False and changes nothing if the order of
        their frames may matter, among themselves or relative to frames that the other endpoint sent in
        between."""
        sender = self.originator if direction is _ORIGINATOR else self.responder
        if delta.largest > self._max_payload or not self.requests.expects_none_of(delta.subjects):
            return False
        if not sender.other.subscriptions.deliver(delta.delivered):
            return False
        for kind, count in delta.counts.items():
            sender.counts[kind] += count
        sender.bytes += delta.bytes
        sender.last_error = None
        if self._wants_subscriptions:
            for (account, subject, queues), (count, size) in delta.carried.items():
                message = RMsg(subject, account, queues=queues)
                sender.other.interest.deliver(message, size, count)
        if delta.ok:
            self._oks.count += delta.counts[Ok]
            self._last[Ok] = delta.ok
        return True

    def note(self, note: Note) -> None:
        """Counts an anomaly that framing found. Frames may be missing, so open PINGs are forgotten."""
        self.anomalies[note.anomaly.value] += 1
        self._has_gaps = True
        self.originator.pings.reset()
        self.responder.pings.reset()

    def recharge(self) -> None:
        """Charges a new quota for the entries of this session."""
        self.requests.recharge()
        for endpoint in (self.originator, self.responder):
            endpoint.subscriptions.recharge()
            endpoint.interest.recharge()

    def finish(self, ended_ns: int | None, handshake: bool) -> None:
        """Ends the session. `ended_ns` is the time when the connection ended, None if that was not captured;
        `handshake` is whether its beginning was captured."""
        if self._is_over:
            return
        self._is_over = True
        if handshake and not self._has_gaps and self.originator.counts and self.responder.counts:
            self._check_answers()
        self.requests.finish()
        for endpoint in (self.originator, self.responder):
            endpoint.subscriptions.finish(ended_ns)
            endpoint.interest.finish(ended_ns)
            del endpoint.other  # a reference cycle would delay the release of both

    @property
    def max_payload(self) -> int:
        """The largest message that the server takes, as far as it is known."""
        return self._max_payload

    @property
    def counts_interest(self) -> bool:
        """Whether messages between servers are counted for the interest that they match."""
        return self._wants_subscriptions

    @property
    def pairs_requests(self) -> bool:
        """Whether requests are paired with their replies."""
        return self._pairs_requests

    @property
    def errors(self) -> list[str]:
        """The texts of -ERR, without secrets."""
        return [self.masked(text) for text in self._errors]

    def masked(self, text: str) -> str:
        """A text of the wire without the secrets that the session has shown."""
        return self.secrets.masked(text)

    def _emit(self, row: Record) -> None:
        self.rows.append(row)

    def _endpoint(self, direction: Direction, quota: EntryQuota) -> Endpoint:
        return Endpoint(
            direction, quota, partial(self._emit_subscription, direction), self._note_forgotten
        )

    def _emit_subscription(self, direction: Direction, sub: Subscription) -> None:
        if self._wants_subscriptions:
            self.rows.append(subscription_row(self._session, direction, sub))

    def _add_note(self, place: FramePosition, anomaly: Anomaly, size: int, text: str) -> None:
        """Adds an anomaly that this session found."""
        direction, ts_ns, number, capture, offset = place
        self.anomalies[anomaly.value] += 1
        self.notes.append(Note(direction, ts_ns, number, capture, anomaly, offset, size, text))

    def _add_frame_note(self, frame: Frame, anomaly: Anomaly, text: str) -> None:
        self._add_note(place_of(self._batch, frame), anomaly, frame.total_bytes, text)

    def _note_forgotten(self, count: int) -> None:
        batch, last = self._batch, self._batch.last
        place = FramePosition(batch.direction, batch.ts_ns, last.number, last.capture, last.offset)
        text = f"{count} subscriptions given up: there were too many"
        self._add_note(place, Anomaly.FORGOTTEN, 0, text)

    def _check_answers(self) -> None:
        """Reports +OKs and PONGs in excess of operations and PINGs. Requires that everything was captured."""
        originator, responder = self.originator, self.responder
        unasked = self._oks.unasked(originator.count(_OPERATIONS))
        if unasked:
            self._add_note(self._last[Ok], Anomaly.UNASKED_OK, 0, f"{unasked} more than operations")
        unasked = -min(originator.pings.unanswered, responder.pings.unanswered)
        if unasked > 0:
            self._add_note(self._last[Pong], Anomaly.UNASKED_PONG, 0, f"{unasked} more than PINGs")

    def _on_info(self, sender: Endpoint, frame: Info, ts_ns: int) -> None:
        try:
            info = ServerInfo.parse(frame.json)
        except ProtocolError as error:
            self._add_frame_note(frame, Anomaly.BAD_JSON, error.reason)
            return
        self.identity.learn_info(sender.direction, info, ts_ns)
        if sender is self.responder:
            self._max_payload = info.max_payload or _NO_LIMIT

    def _on_connect(self, sender: Endpoint, frame: Connect, ts_ns: int) -> None:
        self.secrets = self.secrets.learned(frame.json)
        try:
            options = ConnectOptions.parse(frame.json)
        except ProtocolError as error:
            self._add_frame_note(frame, Anomaly.BAD_JSON, error.reason)
            return
        self.identity.learn_connect(options)
        self._oks.connect(options.verbose, sender.count(_OPERATIONS))

    def _on_error(self, sender: Endpoint, frame: Err, ts_ns: int) -> None:
        sender.last_error = frame
        sender.other.subscriptions.refuse(frame.text, ts_ns)
        if sender is self.responder:
            self.requests.refuse(frame.text)
        if len(self._errors) < _ERRORS:
            self._errors.append(text_of(frame.text))

    def _on_ok(self, sender: Endpoint, frame: Ok, ts_ns: int) -> None:
        self._oks.count += 1
        self._last[Ok] = place_of(self._batch, frame)

    def _on_ping(self, sender: Endpoint, frame: Ping, ts_ns: int) -> None:
        sender.pings.ping(ts_ns)

    def _on_pong(self, sender: Endpoint, frame: Pong, ts_ns: int) -> None:
        sender.other.pings.pong(ts_ns)
        self._last[Pong] = place_of(self._batch, frame)

    def _on_publish(self, sender: Endpoint, frame: Pub | HPub, ts_ns: int) -> None:
        size = frame.payload_bytes
        if frame.__class__ is HPub:
            size += frame.header_bytes
            self._check_headers(frame)
        sender.bytes += size
        if frame.reply and self._pairs_requests:
            self.requests.send(frame.subject, frame.reply, ts_ns, size)
        if size > self._max_payload:
            of_headers = size - frame.payload_bytes
            headers = f", {of_headers} of them headers" if of_headers else ""
            text = f"{size} bytes{headers}, where the server takes {self._max_payload}"
            self._add_frame_note(frame, Anomaly.MAX_PAYLOAD_EXCEEDED, text)
        if not is_publishable(frame.subject):
            text = "published to a wildcard or an empty token"
            self._add_frame_note(frame, Anomaly.INVALID_SUBJECT, text)

    def _check_headers(self, frame: HPub | HMsg | RHMsg | LMsg) -> None:
        reason = header_error(frame.headers) if frame.headers else ""
        if reason:
            self._add_frame_note(frame, Anomaly.BAD_HEADERS, reason)

    def _note_trouble(self, frame: Msg | HMsg | RMsg | RHMsg | LMsg) -> None:
        text = trouble(frame.subject)
        if text:
            self._add_frame_note(frame, Anomaly.JETSTREAM_TROUBLE, text)

    def _on_delivery(self, sender: Endpoint, frame: Msg | HMsg, ts_ns: int) -> None:
        size = frame.payload_bytes
        if frame.__class__ is HMsg:
            size += frame.header_bytes
            self._check_headers(frame)
        sender.bytes += size
        if frame.subject.startswith(ADVISORY):
            self._note_trouble(frame)
        subs = sender.other.subscriptions
        sub = subs.by_sid.get(frame.sid) or subs.unknown(frame.sid)
        sub.delivered += 1
        sub.bytes += size
        if sub.delivered == sub.max_msgs:
            subs.ended(sub, "auto", ts_ns)
        if self.requests.sent:
            headers = frame.headers if isinstance(frame, HMsg) else b""
            self.requests.receive(
                frame.subject,
                frame.reply,
                ts_ns,
                size,
                sub,
                frame.header_bytes,
                headers,
                frame.payload,
            )

    def _on_message(self, sender: Endpoint, frame: RMsg | RHMsg | LMsg, ts_ns: int) -> None:
        size = frame.payload_bytes + frame.header_bytes
        sender.bytes += size
        if frame.header_bytes and not isinstance(frame, RMsg):
            self._check_headers(frame)
        if frame.subject.startswith(ADVISORY):
            self._note_trouble(frame)
        if self._wants_subscriptions:
            sender.other.interest.deliver(frame, size)

    def _on_sub(self, sender: Endpoint, frame: Sub, ts_ns: int) -> None:
        if not sender.subscriptions.open(frame, ts_ns):
            self._add_frame_note(frame, Anomaly.SID_IN_USE, "the subscription that has it goes on")
        try:
            check_subscribe(frame.subject)
        except ProtocolError as error:
            self._add_frame_note(frame, Anomaly.INVALID_SUBJECT, error.reason)

    def _on_unsub(self, sender: Endpoint, frame: Unsub, ts_ns: int) -> None:
        sender.subscriptions.unsub(frame, ts_ns)

    def _on_interest(self, sender: Endpoint, frame: RSub | LSub, ts_ns: int) -> None:
        sender.interest.open(frame, ts_ns)

    def _on_no_interest(self, sender: Endpoint, frame: RUnsub | LUnsub, ts_ns: int) -> None:
        sender.interest.close(frame, ts_ns)


_ACTIONS: dict[type[Frame], Callable[..., None]] = {
    Info: Session._on_info,
    Connect: Session._on_connect,
    Err: Session._on_error,
    Ok: Session._on_ok,
    Ping: Session._on_ping,
    Pong: Session._on_pong,
    Pub: Session._on_publish,
    HPub: Session._on_publish,
    Msg: Session._on_delivery,
    HMsg: Session._on_delivery,
    RMsg: Session._on_message,
    RHMsg: Session._on_message,
    LMsg: Session._on_message,
    Sub: Session._on_sub,
    Unsub: Session._on_unsub,
    RSub: Session._on_interest,
    LSub: Session._on_interest,
    RUnsub: Session._on_no_interest,
    LUnsub: Session._on_no_interest,
}
