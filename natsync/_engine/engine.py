"""The conversation with a NATS server, without I/O: bytes and clock readings in, events and bytes out.

The engine knows which frame may follow which: INFO, CONNECT and PING, PONG; then messages, PINGs in
both directions, INFO and -ERR at any time
(https://docs.nats.io/reference/reference-protocols/nats-protocol). It answers PINGs, sends keep-alive
PINGs, matches PONGs to PINGs in order, and refuses a server that violates the protocol. One thread at a
time may use an engine; the caller passes the time.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from io import BytesIO
from typing import cast

from ..errors import (
    AuthorizationError,
    Error,
    PermissionsViolationError,
    SecureConnWantedError,
    ServerError,
    StaleConnectionError,
)
from ..protocol import (
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
    Violation,
    closes,
    encode,
    read_violation,
)
from ..protocol.structs import Struct

__all__ = [
    "Delivery",
    "Engine",
    "EngineEvent",
    "InfoChanged",
    "Lost",
    "OPEN",
    "Opened",
    "Phase",
    "Ponged",
    "Reported",
    "Secure",
    "read_error",
]


class Phase(Enum):
    """The phase of the conversation; the value is the step that `ConnectError` names.

    In every phase the server may send PING, +OK and -ERR. `Engine._next` shows how each phase handles
    INFO, PONG and messages.
    """

    GREETING = "info"
    SECURING = "tls"
    JOINING = "connect"
    OPEN = "open"
    OVER = "over"


# CPython 3.10 and 3.11 take 0.1 us to look up a member in its class.
OPEN, _SECURING, _OVER = Phase.OPEN, Phase.SECURING, Phase.OVER


class Delivery(Struct):
    """Consecutive messages for one subscription."""

    sid: bytes
    frames: list[Msg | HMsg]


class Secure(Struct):
    """TLS has to begin now: nothing has been sent, and nothing more may be read before it begins. Then
    `Engine.secured` continues the handshake."""

    info: ServerInfo


class Opened(Struct):
    """The handshake is done."""

    info: ServerInfo


class InfoChanged(Struct):
    """The server sent another INFO, which replaces the last one."""

    info: ServerInfo


class Ponged(Struct):
    """The server has processed everything that was sent before the `ping` with this token."""

    token: object


class Reported(Struct):
    """The server sent -ERR in an open conversation. If it closes the connection next, this is the
    reason. `violation` says which operation was not permitted, if it was that."""

    error: Error
    violation: Violation | None = None


class Lost(Struct):
    """The conversation is over."""

    error: Error


EngineEvent = Delivery | Secure | Opened | InfoChanged | Ponged | Reported | Lost

_MESSAGES = {Msg, HMsg}
PING, _PONG = encode(Ping()), encode(Pong())
KEEP_ALIVE = object()
"""The token of PINGs that no caller waits for."""
_NEVER = float("inf")
# A peer that sends more PINGs than this and reads no PONG is not a NATS server.
_MAX_PONGS = 10_000


class Engine:
    """One conversation. Pass bytes to `receive`, call `tick` at `deadline`, send the bytes in `out`.

    `tls` says whether the caller wants TLS after INFO, `secured` whether TLS has begun before. The
    caller counts the messages that it sends in `sent`; `confirmed` counts those that the server has
    processed, as a PONG has shown.
    """

    def __init__(
        self,
        server: str,
        connect: Callable[[ServerInfo], ConnectOptions],
        ping_interval: float,
        max_pings_out: int,
        tls: bool = False,
        secured: bool = False,
    ) -> None:
        self._server = server
        self._connect = connect
        self._tls = tls
        self._secured = secured
        self.sent = 0
        self.confirmed = 0
        self._ping_interval = ping_interval
        self._max_pings_out = max_pings_out
        self._decoder = Decoder(Role.SERVER)
        self.offset = 0
        """The number of bytes of the stream up to the end of the last frame that was received completely."""

        self.out: list[bytes] = []
        """The bytes to send; the caller removes them when it sends them."""

        self.pings: list[tuple[object, int]] = []
        """For each PING that has no PONG yet: its token, and the number of messages sent before it."""
        self.pongs = 0
        """The number of PONGs in `out`; the caller sets it to 0 when it sends them."""
        self.is_changing = False
        """Set by changes that `rewind` cannot undo; the caller clears it after handling the events."""
        self.answered = 0
        """How many of the first `pings` are answered; the caller removes them after handling the events."""
        self._unanswered = 0  # keep-alive PINGs since the last PONG
        self.phase = Phase.GREETING
        self.deadline = _NEVER
        self.reason: Error | None = None
        """The last -ERR that announces the end, if there was one."""

    def rewind(self, offset: int) -> None:
        """Undoes an interrupted `receive`; not allowed while `is_changing`. `offset` is the offset at which
        it began, which must be between frames."""
        self._decoder = Decoder(Role.SERVER, offset=offset)
        self.offset = offset
        self.answered = 0

    def receive_from(self, buffer: BytesIO, size: int, now: float) -> list[EngineEvent]:
        """Like `receive`, for the first `size` bytes of `buffer`; see `Decoder.receive_from`."""
        buffer.seek(0)
        if buffer.read(1) == b"P":  # a PING or PONG
            buffer.seek(0)
            return self.receive(buffer.read(size), now)
        events: list[EngineEvent] = []
        try:
            self._take(self._decoder.receive_from(buffer, size), now, events)
        except ProtocolError as error:
            self._lose(error, events)
        return events

    def receive(self, data: bytes, now: float) -> list[EngineEvent]:
        """Returns the events of `data`. `Lost` is the last event of a conversation."""
        events: list[EngineEvent] = []
        if data.startswith(_PONG) and self._are_pongs(data):
            # Answers to flushes, for which callers wait: the decoder takes 10 us for each (CPython 3.11).
            self._decoder.pass_over(len(data))
            self.offset += len(data)
            self.answered = len(data) // len(_PONG)
            for ping in self.pings[: self.answered]:
                self._pong(ping, events)
            return events
        try:
            self._take(self._decoder.receive(data), now, events)
        except ProtocolError as error:
            self._lose(error, events)
        return events

    def tick(self, now: float) -> list[EngineEvent]:
        """Sends the keep-alive PING that is due; ends the conversation if too many are unanswered."""
        events: list[EngineEvent] = []
        if now < self.deadline:
            return events
        if self._unanswered >= self._max_pings_out:
            self._lose(StaleConnectionError(), events)
            return events
        self._unanswered += 1
        self.deadline = now + self._ping_interval
        self.ping(KEEP_ALIVE)
        return events

    def ping(self, token: object) -> None:
        """Sends a PING, whose PONG is reported with `token`."""
        self.pings.append((token, self.sent))
        self.out.append(PING)

    def send(self, data: bytes) -> None:
        """Adds `data` to the bytes to send."""
        self.out.append(data)

    def secured(self, info: ServerInfo) -> None:
        """Continues the handshake after TLS has begun; `info` is the INFO of `Secure`."""
        self._secured = True
        self._join(info)

    def abandon(self) -> list[object]:
        """Ends the conversation; returns the tokens of the PINGs that will have no answer."""
        tokens = [token for token, _ in self.pings if token is not KEEP_ALIVE]
        self.pings.clear()
        self.phase = Phase.OVER
        self.deadline = _NEVER
        return tokens

    def _take(self, frames: list[Frame], now: float, events: list[EngineEvent]) -> None:
        """Handles `frames`, and those that the decoder still has."""
        decoder = self._decoder
        while frames and self.phase is not _OVER:
            self._read(frames, now, events)
            frames = decoder.read() if decoder.has_more else []
        if self.phase is _SECURING:
            if not decoder.idle:
                raise ProtocolError("bytes after an INFO that demands TLS", 0)
            events.append(Secure(self._info))

    def _read(self, frames: list[Frame], now: float, events: list[EngineEvent]) -> None:
        self.offset = frames[-1].offset + frames[-1].total_bytes
        # The hot paths: one message, as for a reply; and many, often all for one subscription.
        if len(frames) == 1:
            frame = frames[0]
            if isinstance(frame, (Msg, HMsg)):
                events.append(Delivery(frame.sid, [frame]))
            else:
                self._next(frame, now, events)
            return
        if set(map(type, frames)) <= _MESSAGES:
            messages = cast("list[Msg | HMsg]", frames)
            if len({frame.sid for frame in messages}) == 1:
                events.append(Delivery(messages[0].sid, messages))
                return
        sid: bytes | None = None
        run: list[Msg | HMsg] = []
        for frame in frames:
            if isinstance(frame, (Msg, HMsg)):
                if frame.sid != sid:
                    sid = frame.sid
                    run = []
                    events.append(Delivery(sid, run))
                run.append(frame)
            else:
                sid = None
                self._next(frame, now, events)
                if self.phase is _OVER:
                    return

    def _next(self, frame: Frame, now: float, events: list[EngineEvent]) -> None:
        """Handles a frame that is not a message. An unexpected PONG is an error, since it would shift all
        later ones."""
        self.is_changing = True
        match self.phase, frame:
            case Phase.SECURING, Frame() if not isinstance(frame, Err):
                raise ProtocolError(f"{frame.op} after an INFO that demands TLS", frame.offset)
            case _, Ping():
                self._answer(events)
            case _, Ok():
                pass
            case Phase.OPEN, Err(text):
                error, closes = read_error(text, self._server)
                self.reason = error if closes else self.reason
                events.append(Reported(error, read_violation(text)))
            case _, Err(text):
                self._lose(read_error(text, self._server)[0], events)
            case Phase.GREETING, Info(json):
                self._greet(ServerInfo.parse(json), events)
            case Phase.JOINING, Info(json):
                self._info = ServerInfo.parse(json)
            case Phase.JOINING, Pong() if self.pings:
                self.pings.pop(0)
                self.phase = Phase.OPEN
                self.deadline = now + self._ping_interval
                events.append(Opened(self._info))
            case Phase.OPEN, Info(json):
                events.append(InfoChanged(ServerInfo.parse(json)))
            case Phase.OPEN, Pong() if self.pings:
                self._pong(self.pings.pop(0), events)
            case _:
                raise ProtocolError(f"{frame.op} out of turn", frame.offset)

    def _greet(self, info: ServerInfo, events: list[EngineEvent]) -> None:
        """Handles the first INFO. TLS is next, if the server demands it or the caller wants it."""
        if self._tls and not self._secured and not (info.tls_required or info.tls_available):
            self._lose(SecureConnWantedError(self._server), events)
        elif (self._tls or info.tls_required) and not self._secured:
            self.phase = Phase.SECURING
            self._info = info
        else:
            self._join(info)

    def _join(self, info: ServerInfo) -> None:
        self._info = info
        self.phase = Phase.JOINING
        self.out.append(encode(Connect(self._connect(info).to_json())))
        self.ping(KEEP_ALIVE)

    def _are_pongs(self, data: bytes) -> bool:
        """Returns whether `data` contains only PONGs, for PINGs that wait."""
        count = len(data) // len(_PONG)
        waits = self.phase is OPEN and count <= len(self.pings) and self._decoder.idle
        return waits and data == _PONG * count

    def _pong(self, ping: tuple[object, int], events: list[EngineEvent]) -> None:
        """Handles the PONG for `ping`."""
        self._unanswered = 0
        token, self.confirmed = ping
        if token is not KEEP_ALIVE:
            events.append(Ponged(token))

    def _answer(self, events: list[EngineEvent]) -> None:
        """Answers a PING."""
        self.pongs += 1
        if self.pongs > _MAX_PONGS:
            self._lose(StaleConnectionError("the server sends PINGs and takes no PONG"), events)
            return
        self.out.append(_PONG)

    def _lose(self, error: Error, events: list[EngineEvent]) -> None:
        self.phase = Phase.OVER
        self.deadline = _NEVER
        events.append(Lost(error))


_AUTHORIZATION = {
    "authorization violation",
    "user authentication expired",
    "user authentication revoked",
    "account authentication expired",
}


def read_error(text: bytes, server: str) -> tuple[Error, bool]:
    """Returns the error of an -ERR of `server`, and whether the server closes the connection after it."""
    message = text.decode("utf-8", "replace")
    lower = message.lower()
    if lower in _AUTHORIZATION:
        return AuthorizationError(message, server), closes(text)
    if lower == "stale connection":
        return StaleConnectionError(message), closes(text)
    violation = read_violation(text)
    if violation:
        subject, queue = (
            name.decode("utf-8", "surrogateescape") for name in (violation.subject, violation.queue)
        )
        return PermissionsViolationError(message, violation.operation, subject, queue), closes(text)
    return ServerError(message), closes(text)
