"""The kind of a connection, and the grammar of its control lines, from INFO and CONNECT or else from
operations.

`state.KIND` has the transitions by which the kind becomes better known. Evidence from one direction counts
for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

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

from ..types import Direction
from .contexts import ALL
from .events import Batch, Event
from .frame_stream import FrameStream
from .kind_inference import Evidence, kind_of_news, sends_messages
from .resync.chain import Chain
from .state import KIND, KindEvent, KindState, next_state
from .trace import Trace

# Where a server expects leafnodes on the port of its WebSockets (server/websocket.go: wsUpgrade).
_LEAFNODE_PATH = "/leafnode"
_BY_SENDER = {role: tuple(item for item in ALL if item.sender is role) for role in Role}


class ConnectionKind:
    """Sets the kind of both streams of a connection. Methods that learn something return whether
    originator and responder must be exchanged. `hint` is the kind that the user has set, if any."""

    def __init__(
        self,
        streams: list[FrameStream],
        midstream: bool,
        hint: Kind | None,
        trace: Trace | None = None,
    ) -> None:
        self.kind = hint
        self._trace = trace
        self.account = ""  # the account to which a route is dedicated
        self.saw_connect = self.saw_info = False  # an INFO with which its sender began
        self.changes = 0  # how many times the kind of the streams was set
        self._state = KindState.UNKNOWN
        self.is_confirmed = False  # by INFO, CONNECT or the user; read for every packet
        self._midstream = midstream
        self._hinted = self._is_certain = hint is not None
        self._lnocu: dict[Direction, bool] = {}  # `lnocu` in the INFO of each server of a route
        self._streams = streams
        self._evidence = {stream: Evidence() for stream in streams}
        if hint:
            self._confirm(hint, False, "the user has set it")

    def adds_no_evidence(self, stream: FrameStream, ops: Set[str]) -> bool:
        """Whether these operations add nothing to what is known about the kind."""
        return self.is_confirmed or ops <= self._evidence[stream].ops

    def contexts(self, stream: FrameStream) -> tuple[Context, ...]:
        """The contexts in which a stream may be parsed, by the current evidence."""
        either = self._hinted and self._midstream  # it is unknown who opened the connection
        if self._is_settled and not either:
            return (stream.context,)
        confirmed = self.is_confirmed
        if self._midstream and not confirmed:
            return ALL
        some = ALL if either else _BY_SENDER[stream.context.sender]
        return tuple(c for c in some if c.kind is self.kind) if confirmed else some

    def add_proof(self, stream: FrameStream, chain: Chain) -> bool:
        """Adds frames that were proven where the stream was joined late, or after a gap."""
        if self._is_settled:
            return False
        evidence = self._evidence[stream]
        evidence.add(chain)
        if not evidence.is_conclusive:
            return False
        context, swapped = self._gateway_context(stream)
        context = context or self._likeliest(stream)
        self._infer(context)
        return swapped

    def add_events(self, stream: FrameStream, events: Iterable[Event]) -> bool:
        """Adds frames that were read: they may show more than the frames of the proof."""
        news = [frame.op for event in events if isinstance(event, Batch) for frame in event.frames]
        if self._evidence[stream].observe(news) and self.kind is Kind.ROUTE:
            context, swapped = self._gateway_context(stream)
            if context:
                self._infer(context)
                return swapped
        return False

    def learn(self, stream: FrameStream, frame: Info | Connect, path: str = "") -> bool:
        """Learns from a handshake how to parse the rest. `path` is that of the WebSocket, if there is one."""
        leads_to_leafnodes = path.endswith(_LEAFNODE_PATH)
        try:
            if isinstance(frame, Info):
                self.saw_info = self.saw_info or stream.from_start
                info = ServerInfo.parse(frame.json)
                return self._learn_info(stream, info, leads_to_leafnodes)
            first, self.saw_connect = not self.saw_connect, True
            if first and not self._is_certain:
                options = ConnectOptions.parse(frame.json)
                kind = kind_of_connect(options) or (Kind.LEAFNODE if leads_to_leafnodes else None)
                # CONNECT counts more than the INFO before it, which may look like the INFO of a route.
                if kind is not self.kind or not self.is_confirmed:
                    self._confirm(kind, options.ln, "CONNECT")
        except ProtocolError:
            pass  # reported when the frame becomes a row
        return False

    @property
    def _is_settled(self) -> bool:
        """Whether only a handshake may still change how control lines are parsed."""
        return self._state is KindState.COMPLETE or (
            self._state is KindState.CONFIRMED and self.kind is not Kind.ROUTE
        )

    def _learn_info(self, stream: FrameStream, info: ServerInfo, leads_to_leafnodes: bool) -> bool:
        """Learns from an INFO. The first INFO of a sender describes the sender if nothing came before it;
        later ones are updates."""
        if not stream.from_start or stream.direction in self._lnocu:
            if self.kind is None:
                self._confirm(kind_of_news(info), info.lnocu, "an INFO that is not the first")
            return False
        self._lnocu[stream.direction] = info.lnocu
        if not self.is_confirmed:
            kind, why = kind_of_info(info), "the first INFO"
            if leads_to_leafnodes:
                # If both say so, the server treats it as a leafnode, whatever the CONNECT says.
                self._is_certain = kind is Kind.LEAFNODE
                kind, why = Kind.LEAFNODE, f"the path {_LEAFNODE_PATH} of its WebSocket"
            self._confirm(kind, info.lnocu, why)
        if self.kind is Kind.CLIENT:
            return self._midstream and stream.context.sender is Role.CLIENT
        if self.kind is Kind.ROUTE and self.is_confirmed:
            if stream.direction is Direction.ORIGINATOR:
                self.account = info.route_account
            if len(self._lnocu) == 2:
                self._move(KindEvent.COMPLETE)
            self._apply(self.kind, bool(self.account), all(self._lnocu.values()), "INFO")
        return False

    def _likeliest(self, stream: FrameStream) -> Context:
        """The likeliest context of a stream, by the evidence of both streams."""
        first, second = self._streams
        other = second if stream is first else first
        return self._evidence[stream].likeliest(stream.context.sender, self._evidence[other])

    def _gateway_context(self, stream: FrameStream) -> tuple[Context | None, bool]:
        """The context of a stream if the connection looks like a gateway, else None; and whether originator
        and responder must be exchanged."""
        first, second = self._streams
        found = sends_messages(self._evidence[first], self._evidence[second])
        if not found:
            return None, False
        one = first if self._evidence[first] is found else second
        swapped = one.context.sender is Role.SERVER
        context = Context(Role.CLIENT if stream is one else Role.SERVER, Kind.GATEWAY)
        if swapped and not self._midstream or context not in self._evidence[stream].contexts:
            return None, False
        return context, swapped

    def _move(self, event: KindEvent) -> None:
        self._state = next_state(KIND, self._state, event)
        self.is_confirmed = self._state in (KindState.CONFIRMED, KindState.COMPLETE)

    def _infer(self, context: Context) -> None:
        """Sets a kind that was inferred from operations. A line that does not fit will correct it."""
        self._move(KindEvent.INFER)
        self._apply(context.kind, context.dedicated, context.lnocu, "")

    def _confirm(self, kind: Kind | None, lnocu: bool, why: str) -> None:
        """Sets a kind that is certain. `lnocu` is a guess until both servers have announced it: the servers
        of a cluster are usually alike."""
        if kind:
            self._move(KindEvent.CONFIRM)
            self._apply(kind, False, lnocu, why)

    def _apply(self, kind: Kind | None, dedicated: bool, lnocu: bool, why: str) -> None:
        """Sets the kind of both streams. Without `why`, operations have shown it."""
        if self._trace and kind:
            ops = sorted({op for evidence in self._evidence.values() for op in evidence.ops})
            self._trace.note(f"kind {kind.value}: {why or 'operations ' + ' '.join(ops)}")
        self.kind = kind
        self.changes += 1
        for stream in self._streams:
            stream.set_kind(kind, dedicated, lnocu, self._is_settled)
