"""Both directions of one TCP connection: is it NATS, of which kind, and what was said.

The verdict comes from the first bytes, or, where the capture began later, from frames that prove
themselves in either direction. Until then nothing is handed on, and what is not NATS costs nothing once
that is known. The kind comes from INFO and CONNECT; without them from the operations, and then later
proof may correct it. What one direction reveals holds for the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

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

from ..events import Event
from ..wire import Chunk, Direction, Item
from .ledger import Ledger
from .opening import HEAD_BYTES, S2_MAGIC, Opening, opening, websocket_kind
from .readings import ALL, UNSPECIFIC, agreed, mirrored
from .seeker import Budget, Chain, Seeker
from .stream import Stream

# How much may go by before a connection that does not prove to be NATS is taken for something else.
_FRESH_BYTES = 64 << 10
_MIDSTREAM_BYTES = 4 << 20

_INTEREST = {"RS+", "RS-", "A+", "A-"}
_TRAFFIC = {"RMSG", "HMSG"}


class Verdict(Enum):
    """Whether a connection carries NATS."""

    OPEN = auto()
    NATS = auto()
    OTHER = auto()


class Conversation:
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
        self._certain = hint is not None  # of the kind
        self._formed = False  # whether it is known how this route's lines look
        self._lnocu: dict[Direction, bool] = {}
        self._seen_bytes = 0
        self._early: list[Event] = []  # before the verdict
        self._out: list[Event] = []  # in the making
        self._named = False  # whether any were handed on
        self._heads = {Direction.ORIGINATOR: b"", Direction.RESPONDER: b""}
        self._headless: set[Stream] = set()
        self._evidence: dict[Stream, tuple[tuple[Context, ...], set[str]]] = {}
        self._streams = [
            Stream(way, self._learn, self._prove, self._seeker_for, payloads) for way in Direction
        ]
        if hint:
            self._decide()

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
    def waiting(self) -> bool:
        """Whether frames may still come whose time lies before those handed on last."""
        return any(stream.seeker and stream.seeker.window.items for stream in self._streams)

    def ledger(self, direction: Direction) -> Ledger:
        """Where the bytes of one direction went."""
        return next(stream.ledger for stream in self._streams if stream.direction is direction)

    def take(self, direction: Direction, items: Sequence[Item]) -> list[Event]:
        """What the next items of one direction complete."""
        if self.verdict is Verdict.OTHER:
            return []
        stream = self._stream(direction)
        out = self._out = []
        if stream.seeker or self._early or self.verdict is Verdict.OPEN:
            return self._take_unsure(stream, items, out)
        for item in items:
            stream.take(item, out)
        self._named = True
        return out

    def _take_unsure(self, stream: Stream, items: Sequence[Item], out: list[Event]) -> list[Event]:
        """As `take`, while something is not known yet."""
        for item in items:
            if self.verdict is Verdict.OPEN:
                self._look(stream, item, out)
            elif stream.seeker and self.compression and _is_s2(item):
                stream.hide("s2", out)
            if self.verdict is not Verdict.OTHER:
                stream.take(item, out)
        return self._given(out)

    def _stream(self, direction: Direction) -> Stream:
        """The stream of what the caller takes for `direction`."""
        first, second = self._streams
        expected = direction.other if self.turned else direction
        return first if first.direction is expected else second

    def finish(self) -> list[Event]:
        """Nothing more comes."""
        out = self._out = []
        if self.verdict is Verdict.OPEN and self._only_pings():
            self.verdict = Verdict.NATS
            for stream in self._streams:
                if stream.seeker:
                    stream.seeker.sure = True
        if self.verdict is not Verdict.OTHER:
            for stream in self._streams:
                stream.finish(out)
        return self._given(out)

    def _given(self, out: list[Event]) -> list[Event]:
        """Holds back what is not known to be NATS."""
        if self.verdict is Verdict.NATS:
            if self._early:
                out = self._early + out
                self._early = []
            self._named = self._named or bool(out)
            return out
        if self.verdict is Verdict.OPEN:
            self._early += out
        return []

    def _look(self, stream: Stream, item: Item, out: list[Event]) -> None:
        """Forms a verdict from the first bytes, as far as they go."""
        if not isinstance(item, Chunk):
            self._headless.add(stream)
            return
        self._seen_bytes += len(item.data)
        if self._midstream and _is_s2(item):
            self._decide()
            stream.hide("s2", out)
            return
        head = self._heads[stream.direction]
        if len(head) < HEAD_BYTES and stream not in self._headless:
            self._heads[stream.direction] = head + item.data[:HEAD_BYTES]
            heads = self._heads[Direction.ORIGINATOR], self._heads[Direction.RESPONDER]
            self._act(opening(*heads, self._midstream), out)
        limit = _MIDSTREAM_BYTES if self._midstream or self._headless else _FRESH_BYTES
        if self.verdict is Verdict.OPEN and self._seen_bytes > limit:
            self._reject()

    def _act(self, found: Opening, out: list[Event]) -> None:
        if found is Opening.OTHER:
            self._reject()
            return
        if found is Opening.WAIT:
            return
        if found is Opening.TURNED:
            self._turn()
        self._decide()
        self.handshake = not self._midstream or found is Opening.WEBSOCKET
        for stream in self._streams:
            if found is Opening.WEBSOCKET:
                stream.hide("websocket", out)
            else:
                stream.begin(out)
        if found is Opening.WEBSOCKET:
            self.kind = websocket_kind(self._heads[Direction.ORIGINATOR])

    def _decide(self) -> None:
        self.verdict = Verdict.NATS
        for stream in self._streams:
            if stream.seeker:
                stream.seeker.sure = True

    def _reject(self) -> None:
        self.verdict = Verdict.OTHER
        for stream in self._streams:
            if stream.seeker:
                stream.seeker.release(stream.end)
        self._streams.clear()
        self._early.clear()
        self._heads.clear()

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

    def _seeker_for(self, stream: Stream) -> Seeker:
        return Seeker(self._budget, self._contexts(stream), self.verdict is Verdict.NATS)

    def _contexts(self, stream: Stream) -> tuple[Context, ...]:
        """The ways in which a stream may be read, by what is known now."""
        if self._is_settled:
            return (stream.context,)
        if self._certain:
            return tuple(
                c for c in ALL if c.kind is self.kind and c.sender is stream.context.sender
            )
        if self._midstream:
            return ALL
        return tuple(context for context in ALL if context.sender is stream.context.sender)

    def _prove(self, stream: Stream, chain: Chain) -> None:
        """Frames were found in the middle of a stream: what do they say about the connection?"""
        own = _sent_by(stream, chain.contexts)
        likeliest = chain.contexts[0]
        if self._midstream and likeliest not in own and mirrored(likeliest) not in own:
            self._turn()
        if self.verdict is Verdict.OPEN:
            self._decide()
        if self._is_settled:
            return
        contexts, ops = chain.contexts, chain.ops
        if stream in self._evidence:
            ops = ops | self._evidence[stream][1]
        self._evidence[stream] = contexts, ops
        if ops - UNSPECIFIC - {"INFO"}:
            context = self._gateway_context(stream) or self._likeliest(stream)
            self._adopt(context.kind, context.dedicated, context.lnocu)

    def _likeliest(self, stream: Stream) -> Context:
        """How to read a stream by the evidence of both; its own comes first."""
        contexts, _ = self._evidence[stream]
        others = [found for other, (found, _) in self._evidence.items() if other is not stream]
        return agreed(_sent_by(stream, contexts) or contexts, others[0] if others else ())

    def _gateway_context(self, stream: Stream) -> Context | None:
        """How to read a stream of a gateway, if this is one: messages go one way and interest only the
        other. No route is like that for long, and then the first frame that differs says so."""
        if len(self._evidence) < 2:
            return None
        (one, (_, sent)), (other, (_, received)) = self._evidence.items()
        if sent & _INTEREST:
            one, sent, other, received = other, received, one, sent
        if (
            sent & _INTEREST
            or received & _TRAFFIC
            or not (sent & _TRAFFIC and received & _INTEREST)
        ):
            return None
        if self._midstream and one.context.sender is Role.SERVER:
            self._turn()
        context = Context(stream.context.sender, Kind.GATEWAY)
        return context if context in self._evidence[stream][0] else None

    def _learn(self, stream: Stream, frame: Info | Connect) -> None:
        """Takes from a handshake what decides how the rest is read."""
        try:
            if isinstance(frame, Info):
                self._learn_info(stream, ServerInfo.parse(frame.json))
                return
            self.handshake = True
            if not self._certain:
                options = ConnectOptions.parse(frame.json)
                self._settle(kind_of_connect(options), options.ln)
        except ProtocolError:
            pass  # who prints the frame says so

    def _learn_info(self, stream: Stream, info: ServerInfo) -> None:
        """A sender's first INFO is about itself, if nothing was before it; later ones are news."""
        if not stream.whole or stream.direction in self._lnocu:
            if self.kind is None:
                self._settle(kind_of_info(info), info.lnocu)
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
            stream.adopt(kind, dedicated, lnocu)
        if self._certain:
            for stream in self._streams:
                if stream.seeker:
                    stream.seeker.narrow(self._contexts(stream))

    def _only_pings(self) -> bool:
        """Whether all that is there is PINGs from one side and PONGs from the other."""
        ops: list[set[str]] = [
            stream.seeker.chain.ops if stream.seeker and stream.seeker.chain else set()
            for stream in self._streams
        ]
        return all(ops) and set().union(*ops) == {"PING", "PONG"}


def _sent_by(stream: Stream, contexts: tuple[Context, ...]) -> tuple[Context, ...]:
    return tuple(context for context in contexts if context.sender is stream.context.sender)


def _is_s2(item: Item) -> bool:
    return isinstance(item, Chunk) and item.data.startswith(S2_MAGIC)
