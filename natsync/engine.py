"""The conversation with a NATS server, without I/O: bytes and clock readings in, events and bytes out.

It knows what may follow what: INFO, CONNECT and PING, PONG; then messages, PINGs either way, INFO and
-ERR at any time (https://docs.nats.io/reference/reference-protocols/nats-protocol). It answers PINGs by
itself, sends keep-alive PINGs, matches PONGs to PINGs in order, and refuses a server that breaks the
protocol. One thread at a time; the clock is the caller's.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from .errors import (
    AuthorizationError,
    Error,
    PermissionsViolationError,
    SecureConnRequiredError,
    ServerError,
    StaleConnectionError,
)
from .protocol import (
    Connect,
    ConnectOptions,
    Decoder,
    Err,
    Frame,
    HMsg,
    Info,
    Msg,
    Ok,
    Ping,
    Pong,
    ProtocolError,
    Role,
    ServerInfo,
    Sub,
    Unsub,
    encode,
)

__all__ = [
    "Delivery",
    "Engine",
    "Event",
    "Exhausted",
    "InfoChanged",
    "Lost",
    "Opened",
    "Phase",
    "Ponged",
    "Reported",
    "read_error",
]


class Phase(Enum):
    """How far the conversation is; the value is the step that `ConnectError` names.

    In every phase the server may send PING, +OK and -ERR, and what it sends is decoded as it comes.
    What each makes of INFO, PONG and messages is in `Engine._next`.
    """

    GREETING = "info"
    JOINING = "connect"
    OPEN = "open"
    OVER = "over"


@dataclass(slots=True)
class Delivery:
    """Messages in a row for one subscription."""

    sid: bytes
    frames: list[Msg | HMsg]


@dataclass(slots=True)
class Opened:
    """The handshake is done."""

    info: ServerInfo


@dataclass(slots=True)
class InfoChanged:
    """The server described itself anew; this replaces what it said before."""

    info: ServerInfo


@dataclass(slots=True)
class Ponged:
    """The server has dealt with everything sent before the `ping` with this token."""

    token: object


@dataclass(slots=True)
class Exhausted:
    """The subscription has had the last message it was limited to."""

    sid: bytes


@dataclass(slots=True)
class Reported:
    """-ERR in an open conversation. If the server hangs up next, this is why."""

    error: Error


@dataclass(slots=True)
class Lost:
    """The conversation is over: nothing more can be said or understood."""

    error: Error


Event = Delivery | Opened | InfoChanged | Ponged | Exhausted | Reported | Lost

_KEEP_ALIVE = object()
_NEVER = float("inf")


class Engine:
    """One conversation. Feed it with `receive`, call `tick` at `deadline`, send what `take` gives."""

    def __init__(
        self,
        server: str,
        connect: Callable[[ServerInfo], ConnectOptions],
        ping_interval: float,
        max_pings_out: int,
    ) -> None:
        self._server = server
        self._connect = connect
        self._ping_interval = ping_interval
        self._max_pings_out = max_pings_out
        self._decoder = Decoder(Role.SERVER)
        self._out: list[bytes] = []
        self._pings: deque[object] = deque()  # a token for every PING that has no PONG yet
        self._unanswered = 0  # keep-alive PINGs since the last PONG
        self._left: dict[bytes, int] = {}  # messages still to come, of the limited subscriptions
        self.phase = Phase.GREETING
        self.deadline = _NEVER
        self.reason: Error | None = None
        """The last -ERR that announces the end, if there was one."""

    def receive(self, data: bytes, now: float) -> list[Event]:
        """What `data` means. After `Lost`, which comes last, there is nothing more."""
        events: list[Event] = []
        try:
            self._decoder.feed(data)
            while self.phase is not Phase.OVER and (frames := self._decoder.read()):
                self._read(frames, now, events)
        except ProtocolError as error:
            self._lose(error, events)
        return events

    def take(self) -> bytes:
        """What is to be sent now."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def tick(self, now: float) -> list[Event]:
        """Sends the keep-alive PING that is due; ends the conversation when too many are unanswered."""
        events: list[Event] = []
        if now < self.deadline:
            return events
        if self._unanswered >= self._max_pings_out:
            self._lose(StaleConnectionError(), events)
            return events
        self._unanswered += 1
        self.deadline = now + self._ping_interval
        self.ping(_KEEP_ALIVE)
        return events

    def ping(self, token: object) -> None:
        """Asks for a PONG, which will be reported with `token`."""
        self._pings.append(token)
        self._out.append(encode(Ping()))

    def subscribe(self, sid: bytes, subject: bytes, queue: bytes) -> None:
        self._out.append(encode(Sub(subject, sid, queue)))

    def unsubscribe(self, sid: bytes, left: int = 0, in_all: int = 0) -> None:
        """Ends a subscription; now, or after `left` more messages, which makes `in_all` since it began."""
        if left > 0:
            self._left[sid] = left
            self._out.append(encode(Unsub(sid, in_all)))
        else:
            self._left.pop(sid, None)
            self._out.append(encode(Unsub(sid)))

    def abandon(self) -> list[object]:
        """Ends the conversation; returns the tokens of the PINGs that will have no answer."""
        tokens = [token for token in self._pings if token is not _KEEP_ALIVE]
        self._pings.clear()
        self.phase = Phase.OVER
        self.deadline = _NEVER
        return tokens

    def _read(self, frames: list[Frame], now: float, events: list[Event]) -> None:
        sid: bytes | None = None
        run: list[Msg | HMsg] = []
        for frame in frames:
            if isinstance(frame, (Msg, HMsg)):
                if frame.sid != sid:
                    sid = frame.sid
                    run = []
                    events.append(Delivery(sid, run))
                run.append(frame)
                if self._left and sid in self._left:
                    self._count(sid, events)
                    sid = None
            else:
                sid = None
                self._next(frame, now, events)
                if self.phase is Phase.OVER:
                    return

    def _next(self, frame: Frame, now: float, events: list[Event]) -> None:
        """Everything that is no message. A PONG nobody asked for would put all later ones out of step."""
        match self.phase, frame:
            case _, Ping():
                self._out.append(encode(Pong()))
            case _, Ok():
                pass
            case Phase.OPEN, Err(text):
                error, closes = read_error(text)
                self.reason = error if closes else self.reason
                events.append(Reported(error))
            case _, Err(text):
                self._lose(read_error(text)[0], events)
            case Phase.GREETING, Info(json):
                self._join(ServerInfo.parse(json), events)
            case Phase.JOINING, Info(json):
                self._info = ServerInfo.parse(json)
            case Phase.JOINING, Pong() if self._pings:
                self._pings.popleft()
                self.phase = Phase.OPEN
                self.deadline = now + self._ping_interval
                events.append(Opened(self._info))
            case Phase.OPEN, Info(json):
                events.append(InfoChanged(ServerInfo.parse(json)))
            case Phase.OPEN, Pong() if self._pings:
                self._unanswered = 0
                token = self._pings.popleft()
                if token is not _KEEP_ALIVE:
                    events.append(Ponged(token))
            case _:
                raise ProtocolError(f"{frame.op} out of turn", frame.offset)

    def _join(self, info: ServerInfo, events: list[Event]) -> None:
        if info.tls_required:
            self._lose(SecureConnRequiredError(self._server), events)
            return
        self._info = info
        self.phase = Phase.JOINING
        self._out.append(encode(Connect(self._connect(info).to_json())))
        self.ping(_KEEP_ALIVE)

    def _count(self, sid: bytes, events: list[Event]) -> None:
        self._left[sid] -= 1
        if not self._left[sid]:
            del self._left[sid]
            events.append(Exhausted(sid))

    def _lose(self, error: Error, events: list[Event]) -> None:
        self.phase = Phase.OVER
        self.deadline = _NEVER
        events.append(Lost(error))


_AUTHORIZATION = {
    "authorization violation",
    "user authentication expired",
    "user authentication revoked",
    "account authentication expired",
}
# After any other text the server hangs up (server/client.go, errors.go; seen with 2.9.10 and 2.15.1).
_KEEPS_CONNECTION = ("invalid subject", "invalid publish subject", "maximum subscriptions exceeded")
_QUOTED = rb'"((?:[^"\\]|\\.)*)"'
_VIOLATION = re.compile(
    rb"permissions violation for (publish|subscription)(?: with reply of| to) "
    + _QUOTED
    + rb"(?: using queue "
    + _QUOTED
    + rb")?",
    re.IGNORECASE,
)
_ESCAPE = re.compile(rb"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))", re.DOTALL)
_ESCAPED = dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v"))


def read_error(text: bytes) -> tuple[Error, bool]:
    """What an -ERR means, and whether the server closes the connection after it."""
    told = text.decode("utf-8", "replace")
    lower = told.lower()
    if lower.startswith("permissions violation"):
        return _violation(text, told), False
    if lower in _AUTHORIZATION:
        return AuthorizationError(told), True
    if lower == "stale connection":
        return StaleConnectionError(told), True
    return ServerError(told), lower not in _KEEPS_CONNECTION


def _violation(text: bytes, told: str) -> Error:
    found = _VIOLATION.match(text)
    if not found:
        return ServerError(told)
    operation, subject, queue = (_unquote(group or b"") for group in found.groups())
    return PermissionsViolationError(told, operation.lower(), subject, queue)


def _unquote(quoted: bytes) -> str:
    """The text that Go's %q has quoted (strconv.Quote)."""
    return _ESCAPE.sub(_unescape, quoted).decode("utf-8", "surrogateescape")


def _unescape(found: re.Match[bytes]) -> bytes:
    byte, short, long, other = found.groups()
    if byte:
        return bytes([int(byte, 16)])
    if short or long:
        return chr(int(short or long, 16)).encode("utf-8", "surrogatepass")
    return bytes([_ESCAPED.get(other[0], other[0])])
