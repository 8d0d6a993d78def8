"""The layers between TCP and NATS of one connection, the lowest first.

A plain TCP connection has an empty stack: its bytes go from reassembly to framing untouched. A layer is
pushed for both directions when their first bytes show it, or for one direction where a frame should begin.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..schema.records import Value
from ..types import Direction, Item
from .layer import Compresses, Layer, LayerBytes, LayerColumn, LayerOptions, Learns, Transform

_DirectedItem = tuple[Direction, Item]

# A NATS connection has at most three: PROXY, TLS and WebSocket, or S2 and WebSocket.
MOST_LAYERS = 8


class _StackedLayer:
    """One layer of this connection. `transforms` has all of its transforms, and `running` those that still
    change something. `begun` has the directions in which the layer has begun."""

    def __init__(
        self, layer: Layer, options: LayerOptions, opaque: list[tuple[Direction, Layer]]
    ) -> None:
        assert layer.transforms
        self._opaque = opaque
        self.layer = layer
        self.transforms = dict(layer.transforms(options))
        self.running: dict[Direction, Transform] = {}
        self.begun: set[Direction] = set()

    def feed(self, direction: Direction, item: Item) -> list[_DirectedItem]:
        transform = self.running.get(direction)
        if transform is None:
            return [(direction, item)]
        fed = transform.feed(item)
        placed: list[_DirectedItem] = [(direction, each) for each in fed] if fed else []
        if transform.done or transform.opaque:
            self._drop(direction, transform)
        other = self.running.get(direction.other)
        if other:
            resumed = other.resume()
            if resumed:
                placed += [(direction.other, each) for each in resumed]
            if other.opaque:
                self._drop(direction.other, other)
        return placed

    def _drop(self, direction: Direction, transform: Transform) -> None:
        del self.running[direction]
        if transform.opaque:
            self._opaque.append((direction, self.layer))

    def swap(self) -> None:
        self.transforms = {way.other: each for way, each in self.transforms.items()}
        self.running = {way.other: each for way, each in self.running.items()}
        self.begun = {way.other for way in self.begun}


class Stack:
    """Takes the items of both directions with `feed`, in the order of their packets; then `finish`.

    A stack is true while a layer changes anything. While it is false, `feed` need not be called.
    """

    def __init__(self, options: LayerOptions = LayerOptions()) -> None:
        self._options = options
        self._levels: list[_StackedLayer] = []
        self._opaque: list[tuple[Direction, Layer]] = []  # since the last `take_opaque`

    def __bool__(self) -> bool:
        return any(level.running for level in self._levels)

    @property
    def has_layers(self) -> bool:
        """Whether there are layers, or were."""
        return bool(self._levels)

    @property
    def begun(self) -> set[str]:
        """The names of all layers that have begun."""
        return {level.layer.name for level in self._levels}

    @property
    def is_full(self) -> bool:
        """Whether no more layers are accepted: hostile bytes may claim any number of them."""
        return len(self._levels) >= MOST_LAYERS

    def decodes(self, layer: Layer) -> bool:
        """Whether a layer that begins can be decoded."""
        return bool(layer.transforms and not self.is_full)

    def resumes(self, layer: Layer) -> bool:
        """Whether a packet in the middle of a direction that looks like this layer belongs to it: its packets
        are unmistakable (`implies_nats`), or the connection already has the layer."""
        return layer.implies_nats or any(each.layer.name == layer.name for each in self._levels)

    def joins(self, layer: Layer) -> bool:
        """Whether a packet that begins with this layer is decoded although nothing else shows that the
        connection carries NATS: the layer proves it, or the plaintext may prove it, because there are
        secrets.
        """
        return layer.implies_nats or layer.decrypts and self._options.key_logs.may_have_secrets

    def push(self, layer: Layer, directions: Sequence[Direction]) -> tuple[int, list[Direction]]:
        """Adds a layer for these directions: a new one on top, or the one that the other direction has pushed
        before. Returns its height, and the directions that it changes."""
        levels = self._levels
        # Above all layers of these directions: a layer further down would get its own plaintext.
        free = 0
        for height, each in enumerate(levels, 1):
            if each.begun.intersection(directions):
                free = height
        same = (at for at in range(free, len(levels)) if levels[at].layer.name == layer.name)
        height = next(same, len(levels))
        if height == len(levels):
            levels.append(_StackedLayer(layer, self._options, self._opaque))
        level = levels[height]
        level.begun.update(directions)
        changed = [way for way in Direction if way in level.transforms and way in directions]
        level.running.update({way: level.transforms[way] for way in changed})
        return height, changed

    def feed(self, direction: Direction, item: Item, height: int = 0) -> list[_DirectedItem]:
        """The plaintext that `item` completes, of either direction, in order. The item comes from the layer
        below `height`."""
        if len(self._levels) == 1 and not height:
            return self._levels[0].feed(direction, item)
        return self._climb([(direction, item)], height)

    def take_opaque(self) -> list[tuple[Direction, Layer]]:
        """Returns the directions whose rest has become opaque since the last call, each with its layer."""
        if not self._opaque:
            return []
        found = list(self._opaque)
        self._opaque.clear()
        return found

    def finish(self) -> list[_DirectedItem]:
        """Ends the layers when the connection is over; returns their remaining items. Must be called again if
        a layer is pushed afterwards."""
        placed: list[_DirectedItem] = []
        for height, level in enumerate(self._levels):
            for direction, transform in list(level.running.items()):
                left: list[_DirectedItem] = [(direction, item) for item in transform.finish()]
                placed += self._climb(left, height + 1)
            level.running.clear()
        return placed

    def swap_roles(self) -> None:
        """Exchanges originator and responder."""
        self._opaque[:] = [(way.other, layer) for way, layer in self._opaque]
        for level in self._levels:
            level.swap()

    @property
    def facts(self) -> dict[str, Value]:
        """The facts that layers have learned about the connection, by columns of `sessions` and `flows`."""
        found: dict[str, Value] = {}
        for level in self._levels:
            for transform in level.transforms.values():
                if isinstance(transform, Learns):
                    found |= {name: value for name, value in transform.facts.items() if value}
        return found

    def names(self, column: LayerColumn) -> list[str]:
        """The layers that a column names, the lowest first."""
        layers = (level.layer for level in self._levels)
        names = [layer.name for layer in layers if layer.column is column]
        if column is LayerColumn.COMPRESSION:
            every = (each for level in self._levels for each in level.transforms.values())
            found = (each.compression for each in every if isinstance(each, Compresses))
            names += sorted({name for name in found if name})
        return names

    def transforms(self, direction: Direction) -> list[Transform]:
        """The transforms of one direction, the lowest first, including those that are done."""
        found = (level.transforms.get(direction) for level in self._levels)
        return [transform for transform in found if transform]

    def byte_counts(self, direction: Direction) -> dict[str, LayerBytes]:
        """The byte counts of one direction by layer, the lowest first."""
        found: dict[str, LayerBytes] = {}
        for level in self._levels:
            transform = level.transforms.get(direction) if direction in level.begun else None
            if isinstance(transform, Compresses):
                found |= transform.below
            if transform:
                found[level.layer.name] = transform.counts
        return found

    def _climb(self, placed: list[_DirectedItem], height: int) -> list[_DirectedItem]:
        for level in self._levels[height:]:
            if not placed:
                break
            if level.running:
                if len(placed) == 1:
                    placed = level.feed(*placed[0])
                else:
                    placed = [out for way, item in placed for out in level.feed(way, item)]
        return placed
