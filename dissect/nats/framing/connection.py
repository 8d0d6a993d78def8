"""Both directions of one TCP connection: is it NATS, of which kind, and what was said.

The verdict comes from the first bytes or, in a capture that began later, from frames that prove themselves
in either direction. The kind comes from INFO and CONNECT, or else from the operations, until later proof
corrects it. What one direction reveals holds for the other.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from natsync.protocol import (
    Connect,
    ConnectOptions,
    Context,
    Info,
    Kind,
    ProtocolError,
    Role,
    ServerInfo,
    kind_of_connect,
    kind_of_info,
)

from ..transport.detect import (
    HEAD_BYTES,
    Detection,
    Verdict,
    detect,
    greets,
    is_http,
    is_s2,
    may_open,
    protocol_of,
    websocket_kind,
)
from ..types import Chunk, Direction, Item
from .byte_counts import ByteCounts
from .contexts import ALL, mirrored
from .events import Batch, Event
from .frame_stream import FrameStream
from .kind_inference import Evidence, kind_of_news, sends_messages
from .resync import Budget, Chain, Resynchronizer

# How much may go by before a connection that does not prove to be NATS is taken for something else.
_FRESH_BYTES = 64 << 10
_MIDSTREAM_BYTES = 4 << 20
_ITEM_BYTES = 400  # that each packet or gap counts besides: what is kept of it until then

_NATS, _OTHER = Verdict.NATS, Verdict.OTHER


class ConnectionFraming:
    """Takes the items of both directions with `take`, then `finish`.

    `midstream`: who opened the connection is not known for sure. When the conversation finds out that it
    was the other side, `turned` becomes true: the caller then says so to its source of items, and sets it
    back. `hint` is what the user says the kind is.
    """

    def __init__(
        self, midstream: bool, payloads: bool, budget: Budget, hint: Kind | None = None
    ) -> None:
        self.verdict = Verdict.OPEN
        self.kind = hint
        self.account = ""  # that a route is dedicated to
        self.handshake = False  # whether the beginning of the conversation was seen
        self.turned = False
        self._midstream = midstream
        self._budget = budget
        self._hinted = hint is not None
        self._certain = self._hinted  # of the kind
        self._formed = False  # whether it is known how this route's lines look
        self._lnocu: dict[Direction, bool] = {}
        self._seen_bytes = 0
        self._early: list[Event] = []  # before the verdict
        self._out: list[Event] = []  # in the making
        self._named = False  # whether any were handed on
        self._heads = {Direction.ORIGINATOR: b"", Direction.RESPONDER: b""}
        self._headless: set[FrameStream] = set()
        self._connected = False  # whether a CONNECT was seen
        self._other = "other"  # what it is, if it is not NATS
        self._streams = [
            FrameStream(way, self._learn, self._prove, self._seeker_for, payloads)
            for way in Direction
        ]
        self._evidence = {stream: Evidence() for stream in self._streams}
        if hint:
            self._decide()
            self._adopt(hint, False, False)

    @property
    def transport(self) -> str:
        """What carries the NATS bytes."""
        names = {stream.opaque for stream in self._streams}
        return next((name for name in ("tls", "websocket") if name in names), "tcp")

    @property
    def compression(self) -> str | None:
        """How they are compressed, if they are."""
        return "s2" if any(stream.opaque == "s2" for stream in self._streams) else None

    @property
    def protocol(self) -> str:
        """What the connection carries, to its first layer: nats, tls, websocket or other."""
        if self.verdict is Verdict.NATS:
            return "nats" if self.transport == "tcp" else self.transport
        return self._other

    @property
    def proxied_for(self) -> str | None:
        """The `ip:port` for which a proxy opened the connection, by its PROXY header."""
        return next((stream.proxied_for for stream in self._streams if stream.proxied_for), None)

    @property
    def waiting(self) -> bool:
        """Whether frames may still come whose time lies before those handed on last."""
        for stream in self._streams:  # a plain loop: asked for every packet
            if stream.seeker and stream.seeker.window.items:
                return True
        return False

    def charge_anew(self, times: int = 1) -> None:
        """The budget is another one, which knows nothing of what is held here; -1 gives it back."""
        for stream in self._streams:
            if stream.seeker:
                stream.seeker.charge_anew(times)

    def __getstate__(self) -> dict[str, object]:
        """What was handed on is no part of it."""
        return {**self.__dict__, "_out": []}

    def stream(self, direction: Direction) -> FrameStream:
        """One direction, where this may be NATS."""
        return next(stream for stream in self._streams if stream.direction is direction)

    def ledger(self, direction: Direction) -> ByteCounts:
        """Where the bytes of one direction went."""
        return self.stream(direction).ledger

    @property
    def is_steady(self) -> bool:
        """Whether this is NATS, and what comes is handed on at once."""
        return self.verdict is _NATS and self._named and not (self._early or self.turned)

    def hears_nothing_new(self, stream: FrameStream, ops: Set[str]) -> bool:
        """Whether these operations say no more of the kind than is known."""
        return self._certain or ops <= self._evidence[stream].ops

    def take(self, direction: Direction, items: Sequence[Item]) -> list[Event]:
        """What the next items of one direction complete."""
        verdict = self.verdict
        if verdict is _OTHER:
            return []
        first, second = self._streams
        # Until the caller knows that they are turned, what it calls one is the other.
        stream = first if (first.direction is direction) is not self.turned else second
        out = self._out = []
        if stream.seeker or verdict is not _NATS or self._early:
            return self._take_unsure(stream, items, out)
        for item in items:
            stream.take(item, out)
        self._named = True
        if not self._certain and out:
            self._hear(stream, out)
        return out

    def _take_unsure(
        self, stream: FrameStream, items: Sequence[Item], out: list[Event]
    ) -> list[Event]:
        """As `take`, while something is not known yet."""
        for item in items:
            if self.verdict is Verdict.OPEN:
                self._look(stream, item, out)
            elif stream.seeker and not stream.begun and (self.compression or is_s2(item)):
                stream.hide("s2", out)
            if self.verdict is not Verdict.OTHER:
                stream.take(item, out)
        return self._given(out)

    def finish(self) -> list[Event]:
        """Nothing more comes."""
        out = self._out = []
        if self.verdict is Verdict.OPEN:
            if self._only_pings():
                self._decide()
            else:
                self._other = protocol_of(*self._both_heads())
        if self.verdict is not Verdict.OTHER:
            for stream in self._streams:
                stream.finish(out)
        return self._given(out)

    def _given(self, out: list[Event]) -> list[Event]:
        """Holds back what is not known to be NATS."""
        if self.verdict is Verdict.NATS:
            out, self._early = self._early + out, []
            self._named = self._named or bool(out)
            return out
        if self.verdict is Verdict.OPEN:
            self._early += out
        return []

    def _look(self, stream: FrameStream, item: Item, out: list[Event]) -> None:
        """Forms a verdict from the first bytes, as far as they go."""
        self._seen_bytes += _ITEM_BYTES
        if not isinstance(item, Chunk):
            self._headless.add(stream)
            self._limit_doubt()
            return
        self._seen_bytes += len(item.data)
        joined_late = self._midstream or stream in self._headless
        if joined_late and stream.seeker:
            if is_s2(item):
                self._decide()
                stream.hide("s2", out)
                return
            chain = stream.seeker.chain
            if is_http(item.data) and not (chain and chain.stop > item.offset):
                self._reject()
                return
        head = self._heads[stream.direction]
        if len(head) < HEAD_BYTES and stream not in self._headless:
            head = self._heads[stream.direction] = head + item.data[:HEAD_BYTES]
            if stream.seeker and not joined_late:
                stream.seeker.muted = not may_open(head)
            self._act(detect(*self._both_heads(), self._midstream), out)
        self._limit_doubt()

    def _limit_doubt(self) -> None:
        limit = _MIDSTREAM_BYTES if self._midstream or self._headless else _FRESH_BYTES
        if self.verdict is Verdict.OPEN and self._seen_bytes > limit:
            self._reject()

    def _both_heads(self) -> tuple[bytes, bytes]:
        return self._heads[Direction.ORIGINATOR], self._heads[Direction.RESPONDER]

    def _act(self, found: Detection, out: list[Event]) -> None:
        if found is Detection.OTHER:
            self._reject()
            return
        if found is Detection.WAIT:
            return
        if found is Detection.TURNED:
            self._turn()
        self._decide()
        self.handshake = not self._midstream or found is Detection.WEBSOCKET
        for stream in self._streams:
            if found is Detection.WEBSOCKET:
                stream.hide("websocket", out)
            elif not self._midstream or greets(self._heads[stream.direction]):
                stream.begin(out)
        if found is Detection.WEBSOCKET:
            self.kind = websocket_kind(self._heads[Direction.ORIGINATOR])

    def _decide(self) -> None:
        self.verdict = Verdict.NATS
        for stream in self._streams:
            if stream.seeker:
                stream.seeker.trust()

    def _reject(self) -> None:
        self.verdict = Verdict.OTHER
        self._other = protocol_of(*self._both_heads())
        for stream in self._streams:
            if stream.seeker:
                stream.seeker.release(stream.end)
        for kept in (self._streams, self._evidence, self._headless, self._early, self._heads):
            kept.clear()

    def _turn(self) -> None:
        """Exchanges originator and responder. Once frames were handed on, their names stay."""
        named = self._named
        for stream in self._streams:
            stream.turn(named)
        if named:
            return
        self.turned = not self.turned
        self._heads = {way.other: head for way, head in self._heads.items()}
        for event in (*self._early, *self._out):
            event.direction = event.direction.other

    @property
    def _is_settled(self) -> bool:
        """Whether nothing but the handshake may say how to read control lines."""
        return self._certain and (self._formed or self.kind is not Kind.ROUTE)

    def _seeker_for(self, stream: FrameStream) -> Resynchronizer:
        return Resynchronizer(self._budget, self._contexts(stream), self.verdict is Verdict.NATS)

    def _contexts(self, stream: FrameStream) -> tuple[Context, ...]:
        """The ways in which a stream may be read, by what is known now."""
        either = self._hinted and self._midstream  # nobody knows who is who
        if self._is_settled and not either:
            return (stream.context,)
        if self._midstream and not self._certain:
            return ALL
        some = ALL if either else (c for c in ALL if c.sender is stream.context.sender)
        return tuple(c for c in some if not self._certain or c.kind is self.kind)

    def _prove(self, stream: FrameStream, chain: Chain) -> None:
        """Frames were found in the middle of a stream: what do they say about the connection?"""
        sender, likeliest = stream.context.sender, chain.contexts[0]
        told = {likeliest, mirrored(likeliest)}.intersection(chain.contexts)
        if self._midstream and all(context.sender is not sender for context in told):
            self._turn()
        if self.verdict is Verdict.OPEN:
            self._decide()
        if self._is_settled:
            return
        testimony = self._evidence[stream]
        testimony.add(chain)
        if testimony.tells:
            context = self._gateway_context(stream) or self._likeliest(stream)
            self._adopt(context.kind, context.dedicated, context.lnocu)

    def _likeliest(self, stream: FrameStream) -> Context:
        """How to read a stream by the evidence of both."""
        first, second = self._streams
        other = second if stream is first else first
        return self._evidence[stream].likeliest(stream.context.sender, self._evidence[other])

    def _gateway_context(self, stream: FrameStream) -> Context | None:
        """How to read a stream of a gateway, if this looks like one."""
        first, second = self._streams
        found = sends_messages(self._evidence[first], self._evidence[second])
        if not found:
            return None
        one = first if self._evidence[first] is found else second
        turned = one.context.sender is Role.SERVER
        context = Context(Role.CLIENT if stream is one else Role.SERVER, Kind.GATEWAY)
        if turned and not self._midstream or context not in self._evidence[stream].contexts:
            return None
        if turned:
            self._turn()
        return context

    def _hear(self, stream: FrameStream, out: list[Event]) -> None:
        """Later frames may say more of the kind than those that were the proof of it."""
        news = [frame.op for event in out if isinstance(event, Batch) for frame in event.frames]
        if self._evidence[stream].hear(news) and self.kind is Kind.ROUTE:
            context = self._gateway_context(stream)
            if context:
                self._adopt(context.kind, False, False)

    def _learn(self, stream: FrameStream, frame: Info | Connect) -> None:
        """Takes from a handshake what decides how the rest is read."""
        try:
            if isinstance(frame, Info):
                self._learn_info(stream, ServerInfo.parse(frame.json))
                return
            self.handshake = True
            if not self._connected and not self._hinted:
                self._connected = True
                options = ConnectOptions.parse(frame.json)
                kind = kind_of_connect(options)
                # It is stronger than the INFO before it, which may tell no more than that of a route.
                if kind is not self.kind or not self._certain:
                    self._settle(kind, options.ln)
        except ProtocolError:
            pass  # who prints the frame says so

    def _learn_info(self, stream: FrameStream, info: ServerInfo) -> None:
        """A sender's first INFO is about itself, if nothing was before it; later ones are news."""
        if not stream.whole or stream.direction in self._lnocu:
            if self.kind is None:
                self._settle(kind_of_news(info), info.lnocu)
            return
        self._lnocu[stream.direction] = info.lnocu
        if not self._certain:
            self._settle(kind_of_info(info), info.lnocu)
        if self._midstream and self.kind is Kind.CLIENT and stream.context.sender is Role.CLIENT:
            self._turn()
        if self.kind is Kind.ROUTE and self._certain:
            if stream.direction is Direction.ORIGINATOR:
                self.account = info.route_account
            self._formed = len(self._lnocu) == 2
            self._adopt(self.kind, bool(self.account), all(self._lnocu.values()))

    def _settle(self, kind: Kind | None, lnocu: bool) -> None:
        """The kind is known for sure. `lnocu` is a guess, until both servers have said it of themselves:
        those of one cluster are mostly alike."""
        if kind:
            self._certain = True
            self._adopt(kind, False, lnocu)

    def _adopt(self, kind: Kind | None, dedicated: bool, lnocu: bool) -> None:
        self.kind = kind
        for stream in self._streams:
            stream.adopt(kind, dedicated, lnocu, self._certain)
        if self._certain:
            for stream in self._streams:
                if stream.seeker:
                    stream.seeker.narrow(self._contexts(stream))

    def _only_pings(self) -> bool:
        """Whether all that is there is PINGs from one side and PONGs from the other."""
        ops = [stream.pings for stream in self._streams]
        return self._midstream and all(ops) and set().union(*ops) == {"PING", "PONG"}
