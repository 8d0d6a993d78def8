"""One session: counts what both sides send, and remembers what tells how it went.

`add` is called for every batch of frames, so it costs a look-up and a count a frame; what an operation
means beyond that is in `_ACTIONS`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence

from natsync.protocol import (
    Connect,
    ConnectOptions,
    Err,
    Frame,
    HMsg,
    HPub,
    Info,
    Kind,
    LMsg,
    LSub,
    LUnsub,
    Message,
    Msg,
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
)

from ..anomalies import Anomaly
from ..records import Counts, SessionRecord
from ..redact import masked_text, secrets_of
from ..wire import Direction
from .identity import Identity
from .requests import Requests

_ERRORS = 64
_PINGS = 64

# After these the connection stays open (the project's list of -ERR texts); every other one closes it.
_HARMLESS = (
    "invalid subject",
    "invalid publish subject",
    "invalid subscription",
    "permissions violation",
    "maximum subscriptions exceeded",
    "failed account registration",
)

# What peers call themselves: any text, so also a URL with a password.
_SAID = ("client_name", "client_lang", "server_name", "cluster", "remote_name", "account", "user")


class _Side:
    """What one sender sent."""

    __slots__ = ("direction", "counts", "bytes", "pings", "interest", "subscriptions", "fatal")

    def __init__(self, direction: Direction) -> None:
        self.direction = direction
        self.counts: dict[type[Frame], int] = {}
        self.bytes = 0
        self.pings: deque[int] = deque(maxlen=_PINGS)
        self.interest: set[int] = set()  # hashes of account, subject and queue
        self.subscriptions = 0
        self.fatal = False  # its last frame was an -ERR that announces the end

    def op_counts(self) -> Counts | None:
        """Operations and how many there were."""
        counts: Counts = {}
        for kind, count in self.counts.items():
            counts[kind.op] = counts.get(kind.op, 0) + count
        return counts or None

    @property
    def messages(self) -> int:
        return sum(count for kind, count in self.counts.items() if issubclass(kind, Message))


class Session:
    """Takes frames with `add` and oddities with `note`; `fill` writes what they amount to.

    With `redact` the texts of errors do not repeat secrets of the CONNECT.
    """

    def __init__(self, redact: bool = True) -> None:
        self._originator = _Side(Direction.ORIGINATOR)
        self._responder = _Side(Direction.RESPONDER)
        self._identity = Identity()
        self._requests = Requests()
        self._redact = redact
        self._secrets: frozenset[str] = frozenset()
        self._errors: list[str] = []
        self._rtt_ns: int | None = None
        self._anomalies: Counter[str] = Counter()

    def add(self, sender: Direction, ts_ns: int, frames: Sequence[Frame]) -> None:
        """Takes frames that one packet completed."""
        side = self._originator if sender is Direction.ORIGINATOR else self._responder
        counts = side.counts
        for frame in frames:
            kind = frame.__class__
            counts[kind] = counts.get(kind, 0) + 1
            action = _ACTIONS.get(kind)
            if action:
                action(self, side, frame, ts_ns)
        if side.fatal and not isinstance(frames[-1], Err):
            side.fatal = False

    def note(self, sender: Direction, anomaly: Anomaly) -> None:
        """Takes an oddity. Where frames are missing, PINGs and PONGs no longer pair."""
        self._anomalies[anomaly.value] += 1
        for side in (self._originator, self._responder):
            side.pings.clear()

    def fill(self, record: SessionRecord, kind: Kind | None) -> None:
        """Sets the columns that come from frames."""
        originator, responder = self._originator, self._responder
        self._identity.fill(record, kind)
        if self._redact:
            for name in _SAID:
                value = getattr(record, name)
                if value:
                    setattr(record, name, masked_text(value))
        record.frames_originator = originator.op_counts()
        record.frames_responder = responder.op_counts()
        record.messages_originator = originator.messages
        record.messages_responder = responder.messages
        record.bytes_originator = originator.bytes
        record.bytes_responder = responder.bytes
        record.subscriptions = originator.subscriptions + responder.subscriptions
        if kind is Kind.CLIENT:
            record.requests = self._requests.sent
            record.replies = self._requests.replies
            record.no_responders = self._requests.no_responders
        record.rtt_ns = self._rtt_ns
        record.errors = [self._masked(text) for text in self._errors] or None
        record.anomalies = dict(sorted(self._anomalies.items())) or None
        for side in (responder, originator):
            if side.fatal and record.end != "open":
                record.end, record.ended_by = "error", side.direction.value

    def _masked(self, text: str) -> str:
        return masked_text(text, self._secrets) if self._redact else text

    def _take_info(self, side: _Side, frame: Info, ts_ns: int) -> None:
        try:
            self._identity.learn_info(side.direction, ServerInfo.parse(frame.json))
        except ProtocolError:
            self._anomalies[Anomaly.BAD_JSON.value] += 1

    def _take_connect(self, side: _Side, frame: Connect, ts_ns: int) -> None:
        self._secrets |= secrets_of(frame.json)
        try:
            self._identity.learn_connect(ConnectOptions.parse(frame.json))
        except ProtocolError:
            self._anomalies[Anomaly.BAD_JSON.value] += 1

    def _take_error(self, side: _Side, frame: Err, ts_ns: int) -> None:
        text = frame.text.decode("utf-8", "backslashreplace")
        side.fatal = not text.lower().startswith(_HARMLESS)
        if len(self._errors) < _ERRORS:
            self._errors.append(text)

    def _take_ping(self, side: _Side, frame: Ping, ts_ns: int) -> None:
        side.pings.append(ts_ns)

    def _take_pong(self, side: _Side, frame: Pong, ts_ns: int) -> None:
        other = self._responder if side is self._originator else self._originator
        pings = other.pings
        if pings:
            rtt_ns = max(0, ts_ns - pings.popleft())
            self._rtt_ns = rtt_ns if self._rtt_ns is None else min(self._rtt_ns, rtt_ns)

    def _take_publish(self, side: _Side, frame: Pub | HPub, ts_ns: int) -> None:
        side.bytes += frame.payload_bytes + frame.header_bytes
        if frame.reply:
            self._requests.send(frame)

    def _take_delivery(self, side: _Side, frame: Msg | HMsg, ts_ns: int) -> None:
        side.bytes += frame.payload_bytes + frame.header_bytes
        self._requests.receive(frame)

    def _take_message(self, side: _Side, frame: Message, ts_ns: int) -> None:
        side.bytes += frame.payload_bytes + frame.header_bytes

    def _take_subscription(self, side: _Side, frame: Sub, ts_ns: int) -> None:
        side.subscriptions += 1

    def _take_interest(self, side: _Side, frame: RSub | LSub, ts_ns: int) -> None:
        """Interest is one subscription however often its weight changes."""
        interest = hash((frame.account, frame.subject, frame.queue))
        if interest not in side.interest:
            side.interest.add(interest)
            side.subscriptions += 1

    def _take_no_interest(self, side: _Side, frame: RUnsub | LUnsub, ts_ns: int) -> None:
        side.interest.discard(hash((frame.account, frame.subject, frame.queue)))


_ACTIONS: dict[type[Frame], Callable[..., None]] = {
    Info: Session._take_info,
    Connect: Session._take_connect,
    Err: Session._take_error,
    Ping: Session._take_ping,
    Pong: Session._take_pong,
    Pub: Session._take_publish,
    HPub: Session._take_publish,
    Msg: Session._take_delivery,
    HMsg: Session._take_delivery,
    RMsg: Session._take_message,
    RHMsg: Session._take_message,
    LMsg: Session._take_message,
    Sub: Session._take_subscription,
    RSub: Session._take_interest,
    LSub: Session._take_interest,
    RUnsub: Session._take_no_interest,
    LUnsub: Session._take_no_interest,
}
