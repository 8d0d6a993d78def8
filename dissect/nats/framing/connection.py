"""Both directions of one TCP connection: whether it carries NATS, in which layers, and its frames.

Each item goes up the stack of layers. Above it, the state of the connection decides (`verdicts`), and this
module acts on the decision: a layer takes the item, or the stream of its direction reads it. What a stream
discovers while it reads changes how both streams read on; `connection_kind` decides how lines are parsed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from heapq import merge

from natsync.protocol import Kind

from ..transport.decide import WAIT, Begin, Nats, Reject
from ..transport.layer import LayerColumn, LayerOptions
from ..transport.patterns import begins_with_info, greets
from ..transport.stack import Stack
from ..types import Direction, Item
from .connection_kind import ConnectionKind
from .contexts import mirrored
from .events import Event, Note, RolesSwapped, without_gap_notes
from .frame_stream import ByteCounts, Discovery, FrameStream, Greeting, Proven
from .resync.chain import Chain
from .resync.resynchronizer import Quota, answer_each_other
from .state import Verdict
from .trace import Trace
from .verdicts import NatsConversation, OtherProtocol, Undecided

_GATEWAY = "messages come from one side and interest from the other, as on a gateway"


@dataclass(frozen=True, slots=True)
class ConnectionFacts:
    """What is known about a connection.

    - `handshake`: whether its beginning was seen, the first INFO included;
    - `kind`: the kind of connection, as far as it is known;
    - `account`: the account to which a route is dedicated; empty for other connections;
    - `transport`: the layers that carry the NATS bytes: tcp, tls, websocket or websocket+tls;
    - `compression`: the layer that compresses the NATS bytes, if any;
    - `protocol`: the first layer above TCP: nats, tls, websocket or other.
    """

    verdict: Verdict = Verdict.UNDECIDED
    handshake: bool = False
    kind: Kind | None = None
    account: str = ""
    transport: str = "tcp"
    compression: str | None = None
    protocol: str = "other"

    @property
    def words(self) -> str:
        """The facts in words, without names that peers have chosen."""
        if self.verdict is not Verdict.NATS:
            return f"no NATS, protocol {self.protocol}"
        kind = self.kind.value if self.kind else "unknown"
        start = "from its handshake" if self.handshake else "without its handshake"
        compressed = f", compression {self.compression}" if self.compression else ""
        return f"NATS {start}, kind {kind}, transport {self.transport}{compressed}"


class ConnectionFraming:
    """Takes the items of both directions with `feed`, then `finish`. With `midstream`, it is not known for
    sure who opened the connection. `hint` is the kind that the user has set.
    """

    def __init__(
        self,
        midstream: bool,
        payloads: bool,
        quota: Quota,
        hint: Kind | None = None,
        layers: LayerOptions = LayerOptions(),
        trace: Trace | None = None,
    ) -> None:
        self._trace = trace
        self.stack = Stack(layers)
        self._midstream = midstream
        self._handshake = False
        self._state: Undecided | NatsConversation | OtherProtocol = Undecided(midstream)
        self._streams = [FrameStream(way, quota, payloads, trace) for way in Direction]
        self._kind = ConnectionKind(self._streams, midstream, hint, trace)
        self._out: list[Event] = []  # events of the current call
        self._delivered = False  # whether any events were returned
        self._swapped = False  # whether roles were swapped since events were last returned
        self._layered = False  # whether the stack changes anything
        self._unread = UnreadItems()
        if hint:
            self._become_nats("the user has set its kind")
        self._expect(0)

    @property
    def facts(self) -> ConnectionFacts:
        """What is known about the connection."""
        transport = self._layers(LayerColumn.TRANSPORT)
        return ConnectionFacts(
            verdict=self.verdict,
            handshake=self._handshake and self._kind.saw_info,
            kind=self.kind,
            account=self.account,
            transport="+".join(reversed(transport)) or "tcp",
            compression=next(iter(self._layers(LayerColumn.COMPRESSION)), None),
            protocol=next(iter(transport), self._state.protocol),
        )

    @property
    def verdict(self) -> Verdict:
        """Whether the connection carries NATS."""
        return self._state.verdict

    @property
    def kind(self) -> Kind | None:
        """The kind of the connection, as far as it is known."""
        return self._kind.kind

    @property
    def account(self) -> str:
        """The account to which a route is dedicated; empty for other connections."""
        return self._kind.account

    @property
    def layer_notes(self) -> list[Note]:
        """The notes of layers about a connection that has not proven to be NATS."""
        return self._state.notes

    @property
    def waiting(self) -> bool:
        """Whether later frames may be earlier in time than frames already delivered."""
        return any(each.resync and each.resync.buffer.items for each in self._streams)

    @property
    def is_steady(self) -> bool:
        """Whether this is plain NATS whose frames are delivered at once."""
        return self.verdict is Verdict.NATS and self._delivered and not self._layered

    def release_quota(self) -> None:
        """Gives back the quota of held bytes, for example when another process continues the connection."""
        for stream in self._streams:
            if stream.resync:
                stream.resync.release(stream.end)

    def __getstate__(self) -> dict[str, object]:
        """Leaves out events that were already delivered."""
        return {**self.__dict__, "_out": []}

    def stream(self, direction: Direction) -> FrameStream:
        """The stream of one direction. Streams exist only while the connection may carry NATS."""
        return next(stream for stream in self._streams if stream.direction is direction)

    def byte_counts(self, direction: Direction) -> ByteCounts:
        """The byte counts of one direction. Bytes of layers that became no plaintext (headers, and bytes that
        were not decoded) are counted as skipped and opaque."""
        counts = self.stream(direction).counts
        layers = self.stack.byte_counts(direction).values()
        other = sum(each.overhead + each.skipped for each in layers)
        return replace(counts, skipped=counts.skipped + other, opaque=counts.opaque + other)

    def adds_no_evidence(self, stream: FrameStream, ops: Set[str]) -> bool:
        """Whether these operations add nothing to what is known about the kind."""
        return self._kind.adds_no_evidence(stream, ops)

    def feed(self, direction: Direction, items: Sequence[Item]) -> list[Event] | RolesSwapped:
        """The events that the next items of one direction complete. If they show that the assumed roles are
        wrong, they come as `RolesSwapped`, and later calls must use the new directions."""
        if not self._streams:  # another protocol
            return []
        first, second = self._streams
        stream = first if first.direction is direction else second
        out = self._out = []
        if stream.decoder is None and not stream.is_opaque or self._layered:
            return self._feed_rare(stream, items)
        left = iter(items)
        for item in left:
            found = stream.feed(item, out)
            if found is not None:
                if self._trace:
                    self._trace.at(stream.direction, item)
                self._read_on(stream, found)
                if self._layered:
                    return self._feed_rare(stream, list(left))
        self._delivered = True
        if not self._kind.is_confirmed and out:
            if self._trace:
                self._trace.at(stream.direction, items[-1])
            if self._kind.add_events(stream, out):
                self._swap_roles(_GATEWAY)
        return self._deliver() if self._swapped else out

    def finish(self) -> list[Event] | RolesSwapped:
        """Ends the connection; returns the last events."""
        self._out = []
        self._take_placed(self.stack.finish())
        while self.stack:  # a layer began in the last bytes of another
            self._take_placed(self.stack.finish())
        state = self._state
        if isinstance(state, Undecided):
            if self._midstream and answer_each_other(*(each.resync for each in self._streams)):
                self._become_nats("PING and PONG answer each other")
            else:
                state.protocol = state.first_bytes.protocol(self.stack)
        for stream in self._streams:
            if self._trace and stream.resync and stream.resync.latest:
                self._trace.at(stream.direction, stream.resync.latest)
            found = stream.finish(self._out)
            while found is not None:
                self._act_on(stream, found)
                self._take_placed(self.stack.finish())  # a layer may begin in the last bytes
                found = stream.finish(self._out)
        if self._trace:
            counts = {each.direction: each.frames for each in self._streams}
            frames = [f", {way.value} frames {counts[way]}" for way in Direction if counts]
            self._trace.end(f"end: {self.facts.words}{''.join(frames)}")
        return self._deliver()

    def _feed_rare(self, stream: FrameStream, items: Sequence[Item]) -> list[Event] | RolesSwapped:
        """`feed` for a stream that does not read frames yet, and for a connection with layers."""
        for item in items:
            if self._trace:
                self._trace.at(stream.direction, item)
            if self._layered:
                self._take_layered(stream.direction, item)
            else:
                self._take(stream, item)
        return self._deliver()

    def _take_layered(self, direction: Direction, item: Item, height: int = 0) -> None:
        """Takes an item from the layer below `height`."""
        self._take_placed(self.stack.feed(direction, item, height))
        self._layered = bool(self.stack)
        opaque = self.stack.take_opaque()
        if self._trace and not (self._layered or opaque):
            self._trace.note("handed on: no layer changes the bytes that follow")
        if not self._streams:
            return
        for way, layer in opaque:
            self.stream(way).become_opaque(layer, self._out)
        if self.verdict is Verdict.UNDECIDED and all(each.is_opaque for each in self._streams):
            self._reject(Reject("no layer shows what is inside"))

    def _take_placed(self, placed: Sequence[tuple[Direction, Item]]) -> None:
        items = [(self.stream(way), item) for way, item in placed if self._streams]
        for stream, item in self._unread.each(items):
            self._take(stream, item)

    def _take(self, stream: FrameStream, item: Item) -> None:
        """Takes an item above all layers of the stack."""
        if not self._streams:
            return
        first, second = self._streams
        other = second if stream is first else first
        assert not isinstance(self._state, OtherProtocol)
        decision = self._state.decide(self.stack, stream, other, item)
        if decision is not WAIT:
            if self._trace:
                self._trace.at(stream.direction, item)
            match decision:
                case Begin():
                    self._begin(decision, stream, item)
                    return
                case Reject():
                    self._reject(decision)
                    return
                case Nats():
                    self._greet(decision)
        self._read(stream, item)

    def _read(self, stream: FrameStream, item: Item) -> None:
        """Reads an item as the state of its stream requires."""
        found = stream.feed(item, self._out)
        if found is not None:
            self._read_on(stream, found)

    def _read_on(self, stream: FrameStream, found: Discovery | None) -> None:
        """Acts on the discoveries of a stream, until it has read all of its items."""
        while found is not None:
            self._act_on(stream, found)
            found = stream.proceed(self._out)

    def _act_on(self, stream: FrameStream, found: Discovery) -> None:
        match found:
            case Greeting():
                before = self._kind.changes
                path = self.stack.facts.get("websocket_path") if self.stack.has_layers else None
                if self._kind.learn(stream, found.frame, str(path or "").partition("?")[0]):
                    self._swap_roles("the INFO of a server comes from the originator")
                self._handshake = self._handshake or self._kind.saw_connect
                self._expect(before)
            case Proven():
                self._take_proof(stream, found.chain)
            case Begin():
                self._begin(found, stream)

    def _take_proof(self, stream: FrameStream, chain: Chain) -> None:
        """Acts on frames that were proven in the middle of a stream."""
        sender, fitting = stream.context.sender, chain.contexts
        likely = {fitting[0], mirrored(fitting[0])} if self._midstream else set()
        if likely and all(each.sender is not sender for each in likely.intersection(fitting)):
            self._swap_roles("the other side sends such frames")
        if self.verdict is Verdict.UNDECIDED:
            self._become_nats("frames prove themselves")
        before = self._kind.changes
        if self._kind.add_proof(stream, chain):
            self._swap_roles(_GATEWAY)
        self._expect(before)

    def _begin(self, begin: Begin, stream: FrameStream, item: Item | None = None) -> None:
        """Begins a layer with an item, or with the bytes that the stream has not read."""
        layer = begin.layer
        if self._trace:
            self._trace.note(f"layer {layer.name} begins{' late' * begin.joined}: {begin.why}")
        if begin.joined and layer.implies_nats and self.verdict is Verdict.UNDECIDED:
            self._become_nats(f"only NATS has {layer.name} in this form")
        if self.stack.decodes(layer):
            self._push(begin, stream, item)
            return
        stream.become_opaque(layer, self._out)
        if item is not None:
            self._read(stream, item)

    def _push(self, begin: Begin, stream: FrameStream, item: Item | None) -> None:
        """Pushes a layer on the stack, and feeds it the items with which it begins."""
        height, changed = self.stack.push(begin.layer, begin.directions)
        held: list[list[tuple[FrameStream, Item]]] = []  # not by direction, which may change
        early = self._state.held if isinstance(self._state, Undecided) else []
        for each in self._streams:
            way, items = each.direction, list[Item]()
            if way in changed:
                items = each.withdraw(self._out, begin.joined)
                items = without_gap_notes(items, way, early, self._out)
                if isinstance(self._state, Undecided):
                    self._state.first_bytes.restart(way)
            if item is not None and each is stream:
                items.append(item)
            if way in changed:
                items += self._unread.withdraw(each)
            held.append([(each, held_item) for held_item in items])
        for each, held_item in merge(*held, key=lambda placed: placed[1].ts_ns):
            self._take_layered(each.direction, held_item, height)

    def _greet(self, nats: Nats) -> None:
        """Begins a conversation whose first bytes were seen."""
        assert isinstance(self._state, Undecided)
        if nats.swapped:
            self._swap_roles(nats.why)
        first = self._state.first_bytes
        heads = {stream: first.head(stream.direction) for stream in self._streams}
        self._become_nats(nats.why)
        self._handshake = not self._midstream
        self._kind.saw_info = any(map(begins_with_info, heads.values()))
        for stream, head in heads.items():
            if not self._midstream or greets(head):
                stream.start()
                self._read_on(stream, stream.proceed(self._out))

    def _become_nats(self, why: str) -> None:
        assert isinstance(self._state, Undecided)
        if self._trace:
            held = len(self._state.held)
            self._trace.note(f"NATS: {why}{f'; {held} held events are handed on' if held else ''}")
        self._out[:0] = self._state.held
        self._state = NatsConversation(self._midstream)
        for stream in self._streams:
            again = stream.resync is not None and not stream.resync.is_nats
            stream.expect(self._kind.contexts(stream), True, again)

    def _expect(self, changes: int) -> None:
        """Sets how streams are parsed. If `changes` confirmed the kind, held bytes are searched again."""
        again = self._kind.changes > changes and self._kind.is_confirmed
        for stream in self._streams:
            stream.expect(self._kind.contexts(stream), self.verdict is Verdict.NATS, again)

    def _reject(self, reject: Reject) -> None:
        assert isinstance(self._state, Undecided)
        if self._trace:
            self._trace.note(f"rejected, no NATS: {reject.why}")
        self.release_quota()
        self._state = self._state.rejected(self.stack, self._out)
        self._kind = ConnectionKind([], self._midstream, None)  # frees its streams
        self._out.clear()
        self._streams.clear()

    def _deliver(self) -> list[Event] | RolesSwapped:
        """Returns the events if the connection is NATS; holds them while it is undecided."""
        state, events = self._state, self._out
        if not isinstance(state, NatsConversation):
            if isinstance(state, Undecided):
                state.held += events
            return []
        self._delivered = self._delivered or bool(events)
        swapped, self._swapped = self._swapped, False
        return RolesSwapped(events) if swapped else events

    def _swap_roles(self, why: str) -> None:
        """Exchanges originator and responder. Frames already delivered keep their directions."""
        if self._trace:
            self._trace.note(f"roles swapped: {why}")
        for stream in self._streams:
            stream.swap_roles(self._delivered)
        if self._delivered:
            return
        if self._trace:
            self._trace.swap_roles()
        self._swapped = not self._swapped
        self.stack.swap_roles()
        if isinstance(self._state, Undecided):
            self._state.swap_roles()
        for event in self._out:
            event.direction = event.direction.other

    def _layers(self, column: LayerColumn) -> list[str]:
        """The names of layers, the lowest first."""
        opaque = {stream.layer for stream in self._streams}
        names = {layer.name for layer in opaque if layer and layer.column is column}
        known = self.stack.names(column)
        return known + sorted(names.difference(known))


class UnreadItems:
    """The items that the layers made from one packet, and that the streams have not read yet. A layer may
    begin in the middle of them, and then takes the items after its beginning."""

    def __init__(self) -> None:
        self._lists: list[list[tuple[FrameStream, Item]]] = []  # reading one may create another

    def each(self, items: Sequence[tuple[FrameStream, Item]]) -> Iterator[tuple[FrameStream, Item]]:
        """The items in order, each with its stream."""
        left = list(reversed(items))
        self._lists.append(left)
        while left:
            yield left.pop()
        self._lists.pop()

    def withdraw(self, stream: FrameStream) -> list[Item]:
        """Removes the unread items of a stream, and returns them in order."""
        found: list[Item] = []
        for left in reversed(self._lists):
            found += [item for owner, item in reversed(left) if owner is stream]
            left[:] = [pair for pair in left if pair[0] is not stream]
        return found
