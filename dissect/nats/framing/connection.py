"""Both directions of one TCP connection: whether it carries NATS, in which layers, and its frames.

The verdict comes from the first bytes or, in a capture that began later, from frames that prove themselves
in either direction. `state.VERDICT` has its transitions; `connection_kind` decides how lines are parsed.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from heapq import merge

from natsync.protocol import Kind

from ..transport.detect import Detection, FirstBytes, Verdict, greets, is_http, may_begin_nats
from ..transport.layer import Column, Detected, Layer, LayerOptions, Undecided
from ..transport.registry import layer_of
from ..transport.stack import Stack
from ..types import Chunk, Direction, Item
from .byte_counts import ByteCounts
from .connection_kind import ConnectionKind
from .contexts import mirrored
from .discoveries import Discovery, Handshake, LayerBegins, Proven
from .events import OF_LAYERS, Event, Note, RolesSwapped, without_gap_notes
from .frame_stream import FrameStream
from .resync.chain import Chain
from .resync.resynchronizer import Quota, answer_each_other
from .state import VERDICT, Proof, StreamState, next_state
from .unread import Unread

_NATS, _OTHER, _UNDECIDED = Verdict.NATS, Verdict.OTHER, Verdict.UNDECIDED
_STARTING = StreamState.STARTING


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
    ) -> None:
        self.verdict = _UNDECIDED
        self.handshake = False  # whether the beginning of the connection was seen
        self.stack = Stack(layers)
        self._midstream = midstream
        self._streams = [FrameStream(way, quota, payloads) for way in Direction]
        self._first_bytes = FirstBytes(midstream)
        self._kind = ConnectionKind(self._streams, midstream, hint)
        self._early: list[Event] = []  # events before the verdict
        self._out: list[Event] = []  # events of the current call
        self._delivered = False  # whether any events were returned
        self._swapped = False  # whether roles were swapped since events were last returned
        self._layered = False  # whether the stack changes anything
        self._unread = Unread()
        self._other = "other"  # the protocol, if it is not NATS
        if hint:
            self._decide()
        self._expect(0)

    @property
    def kind(self) -> Kind | None:
        """The kind of the connection, as far as it is known."""
        return self._kind.kind

    @property
    def account(self) -> str:
        """The account to which a route is dedicated; empty for other connections."""
        return self._kind.account

    @property
    def transport(self) -> str:
        """The layers that carry the NATS bytes: tcp, tls, websocket or websocket+tls."""
        return "+".join(reversed(self._layers(Column.TRANSPORT))) or "tcp"

    @property
    def compression(self) -> str | None:
        """The layer that compresses the NATS bytes, if any."""
        return next(iter(self._layers(Column.COMPRESSION)), None)

    @property
    def protocol(self) -> str:
        """The first layer above TCP: nats, tls, websocket or other."""
        bare = "nats" if self.verdict is _NATS else self._other
        return next(iter(self._layers(Column.TRANSPORT)), bare)

    @property
    def layer_notes(self) -> list[Note]:
        """The notes of layers about a connection that has not proven to be NATS."""
        notes = [event for event in self._early if isinstance(event, Note)]
        return [note for note in notes if note.anomaly in OF_LAYERS]

    @property
    def waiting(self) -> bool:
        """Whether later frames may be earlier in time than frames already delivered."""
        for stream in self._streams:  # a plain loop: asked for every packet
            if stream.resync and stream.resync.buffer.items:
                return True
        return False

    @property
    def is_steady(self) -> bool:
        """Whether this is plain NATS whose frames are delivered at once."""
        return self.verdict is _NATS and self._delivered and not (self._early or self._layered)

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
        if self.verdict is _OTHER:
            return []
        first, second = self._streams
        stream = first if first.direction is direction else second
        out = self._out = []
        if stream.resync or stream.state is _STARTING or self._layered or self._early:
            return self._take_rare(stream, items)
        left = iter(items)
        for item in left:
            found = stream.feed(item, out)
            if found is not None:
                self._proceed(stream, found)
                if self._layered:
                    return self._take_rare(stream, list(left))
        self._delivered = True
        if not self._kind.is_confirmed and out and self._kind.add_events(stream, out):
            self._swap_roles()
        return self._returned(out) if self._swapped else out

    def finish(self) -> list[Event] | RolesSwapped:
        """Ends the connection; returns the last events."""
        self._out = []
        self._take_placed(self.stack.finish())
        while self.stack:  # a layer began in the last bytes of another
            self._take_placed(self.stack.finish())
        if self.verdict is _UNDECIDED:
            if self._midstream and answer_each_other(*(each.resync for each in self._streams)):
                self._decide()
            else:
                self._other = self._first_bytes.protocol()
        for stream in self._streams:
            found = stream.finish(self._out)
            while found is not None:
                self._act_on(stream, found)
                self._take_placed(self.stack.finish())  # a layer may begin in the last bytes
                found = stream.finish(self._out)
        return self._deliver()

    def _take_rare(self, stream: FrameStream, items: Sequence[Item]) -> list[Event] | RolesSwapped:
        """`feed` for rare states: seeking, starting, undecided, or with layers below NATS."""
        for item in items:
            if self._layered:
                self._take_layered(stream.direction, item)
            else:
                self._take_plain(stream, item)
        return self._deliver()

    def _take_layered(self, direction: Direction, item: Item, height: int = 0) -> None:
        """Takes an item from the layer below `height`."""
        self._take_placed(self.stack.feed(direction, item, height))
        self._layered = bool(self.stack)
        for way, layer in self.stack.take_opaque():
            if self.verdict is not _OTHER:
                self.stream(way).become_opaque(layer, self._out)
        if self.verdict is _UNDECIDED and all(stream.is_opaque for stream in self._streams):
            self._reject()

    def _take_placed(self, placed: Sequence[tuple[Direction, Item]]) -> None:
        items = [(self.stream(way), item) for way, item in placed if self._streams]
        for stream, item in self._unread.each(items):
            self._take_plain(stream, item)

    def _take_plain(self, stream: FrameStream, item: Item) -> None:
        """Takes an item above all layers of the stack."""
        if self.verdict is _UNDECIDED:
            if not stream.is_opaque and self._detect(stream, item):
                return
        elif self.verdict is _NATS and isinstance(item, Chunk):
            if not stream.end and self._begins_late(stream, item):
                return
            if stream.resync and stream.frames < 2:
                layer = layer_of(item.data) or self.stream(stream.direction.other).layer
                if layer and self.stack.resumes(layer) and self._begin_layer(stream, layer, item):
                    return
        if self.verdict is not _OTHER:
            found = stream.feed(item, self._out)
            if found is not None:
                self._proceed(stream, found)

    def _deliver(self) -> list[Event] | RolesSwapped:
        """Returns the events if the connection is NATS; holds them while it is undecided."""
        if self.verdict is _NATS:
            return self._returned(self._early + self._out)
        if self.verdict is _UNDECIDED:
            self._early += self._out
        return []

    def _returned(self, events: list[Event]) -> list[Event] | RolesSwapped:
        self._early = []
        self._delivered = self._delivered or bool(events)
        swapped, self._swapped = self._swapped, False
        return RolesSwapped(events) if swapped else events

    def _proceed(self, stream: FrameStream, found: Discovery | None) -> None:
        """Handles the discoveries of a stream, until it has read all of its items."""
        while found is not None:
            self._act_on(stream, found)
            found = stream.proceed(self._out)

    def _act_on(self, stream: FrameStream, found: Discovery) -> None:
        before = self._kind.changes
        if isinstance(found, Handshake):
            if self._kind.learn(stream, found.frame):
                self._swap_roles()
            self.handshake = self.handshake or self._kind.saw_connect
            self._expect(before)
        elif isinstance(found, Proven):
            self._take_proof(stream, found.chain)
        elif isinstance(found, LayerBegins):
            self._begin_layer(stream, found.layer)

    def _take_proof(self, stream: FrameStream, chain: Chain) -> None:
        """Handles frames that were proven in the middle of a stream."""
        sender, fitting = stream.context.sender, chain.contexts
        likely = {fitting[0], mirrored(fitting[0])} if self._midstream else set()
        if likely and all(each.sender is not sender for each in likely.intersection(fitting)):
            self._swap_roles()
        if self.verdict is _UNDECIDED:
            self._decide()
        before = self._kind.changes
        if self._kind.add_proof(stream, chain):
            self._swap_roles()
        self._expect(before)

    def _detect(self, stream: FrameStream, item: Item) -> bool:
        """Decides by the first bytes; returns whether a layer takes the item."""
        first, way = self._first_bytes, stream.direction
        news = first.add(way, item)
        if isinstance(item, Chunk) and stream.resync:
            if not first.joined_late(way):
                stream.resync.muted = not may_begin_nats(first.head(way))
            elif (layer := layer_of(item.data)) and self.stack.joins(layer):
                if layer.implies_nats:
                    self._decide()
                return self._begin_layer(stream, layer, item)
            elif is_http(item.data) and not stream.resync.is_inside_payload(item.offset):
                self._reject()
                return False
        if news:
            found = first.layer()
            if isinstance(found, Detected):
                return self._take_layer(found, stream, item)
            detection = first.nats()
            if detection in (Detection.NATS, Detection.SWAPPED):
                self._greeted(detection is Detection.SWAPPED)
            elif detection is Detection.OTHER and found is not Undecided.WAIT:
                self._reject()
        if self.verdict is _UNDECIDED and first.is_too_much:
            self._reject()
        return False

    def _take_layer(self, found: Detected, stream: FrameStream, item: Item) -> bool:
        """Handles a connection that begins with a layer; returns whether the layer takes the item."""
        layer = found.layer
        if self.stack.decodes(layer):
            self._push(layer, self._streams, stream, item)
            return True
        if not found.carries_nats:
            self._reject()
            return False
        self._kind.kind = found.kind
        self._decide()
        self.handshake = True
        for each in self._streams:
            each.become_opaque(layer, self._out)
            self._proceed(each, each.proceed(self._out))
        return False

    def _begins_late(self, stream: FrameStream, chunk: Chunk) -> bool:
        """Whether a layer takes the first chunk of a stream, after the other side has proven to be NATS."""
        found = self._first_bytes.late_layer(stream.direction, chunk)
        if not isinstance(found, Detected) or not self.stack.decodes(found.layer):
            return False
        self._push(found.layer, [stream], stream, chunk)
        return True

    def _begin_layer(self, stream: FrameStream, layer: Layer, joined: Chunk | None = None) -> bool:
        """Handles a layer that begins here or was `joined` late; returns whether it takes the chunk."""
        if self.stack.decodes(layer):
            self._push(layer, [stream], stream, joined, joins=joined is not None)
            return True
        stream.become_opaque(layer, self._out)
        return False

    def _push(
        self,
        layer: Layer,
        streams: Sequence[FrameStream],
        stream: FrameStream | None = None,
        item: Item | None = None,
        joins: bool = False,
    ) -> None:
        """Pushes a layer on the stack, and feeds it the items with which it begins."""
        height, changed = self.stack.push(layer, [each.direction for each in streams])
        held: list[list[tuple[FrameStream, Item]]] = []  # not by direction, which may change
        for each in streams:
            way = each.direction
            items = each.withdraw(self._out, joins) if way in changed else []
            if way in changed:
                items = without_gap_notes(items, way, self._early, self._out)
                self._first_bytes.restart(way, layer)
            if item is not None and each is stream:
                items.append(item)
            items += self._unread.withdraw(each) if way in changed else []
            held.append([(each, held_item) for held_item in items])
        for each, held_item in merge(*held, key=lambda placed: placed[1].ts_ns):
            self._take_layered(each.direction, held_item, height)

    def _greeted(self, swapped: bool) -> None:
        """Handles the first bytes of a NATS connection."""
        if swapped:
            self._swap_roles()
        heads = {stream: self._first_bytes.head(stream.direction) for stream in self._streams}
        self._decide()
        self.handshake = not self._midstream
        for stream, head in heads.items():
            if not self._midstream or greets(head):
                stream.start()
                self._proceed(stream, stream.proceed(self._out))

    def _decide(self) -> None:
        self.verdict = next_state(VERDICT, self.verdict, Proof.NATS)
        self._first_bytes.clear()
        for stream in self._streams:
            again = stream.resync is not None and not stream.resync.is_nats
            stream.expect(self._kind.contexts(stream), True, again)

    def _expect(self, changes: int) -> None:
        """Sets how streams are parsed. If `changes` confirmed the kind, held bytes are searched again."""
        again = self._kind.changes > changes and self._kind.is_confirmed
        for stream in self._streams:
            stream.expect(self._kind.contexts(stream), self.verdict is _NATS, again)

    def _reject(self) -> None:
        self.verdict = next_state(VERDICT, self.verdict, Proof.OTHER)
        self._other = self._first_bytes.protocol()
        self.release_quota()
        self._kind = ConnectionKind([], self._midstream, None)  # frees its streams
        self._early += self._out
        self._early[:] = self.layer_notes
        for kept in (self._out, self._streams, self._first_bytes):
            kept.clear()

    def _swap_roles(self) -> None:
        """Exchanges originator and responder. Frames already delivered keep their directions."""
        for stream in self._streams:
            stream.swap_roles(self._delivered)
        if self._delivered:
            return
        self._swapped = not self._swapped
        self.stack.swap_roles()
        self._first_bytes.swap_roles()
        for event in (*self._early, *self._out):
            event.direction = event.direction.other

    def _layers(self, column: Column) -> list[str]:
        """The names of layers, the lowest first."""
        opaque = {stream.layer for stream in self._streams}
        names = {layer.name for layer in opaque if layer and layer.column is column}
        known = self.stack.names(column)
        return known + sorted(names.difference(known))
