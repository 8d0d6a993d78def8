"""Frames of one connection -> the rows of application layers.

The number of a frame is its position among all frames of its session, so frames that no layer reads are
counted, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import cast

from natsync.protocol import Kind

from ..application.item_store import ItemStore
from ..framing.events import Batch, Event
from ..options import Options
from ..schema.declaration import (
    ApplicationLayer,
    ApplicationState,
    AwaitingState,
    LayerFrame,
    LayerItem,
)
from ..schema.records import Record
from ..secrets.redact import Secrets
from ..tables import TABLES, layers_of
from .connections import Connection
from .frame_rows import FrameRows

_TOGETHER = 4096  # rows of grouped layers that are released at once


class ApplicationStates:
    """The application layers that the requested tables need. `states` maps each layer to its state if it
    works across sessions, and to None if it has one state per session."""

    def __init__(self, tables: Collection[str]) -> None:
        layers = layers_of(tables)
        self.states: dict[ApplicationLayer, ApplicationState | None] = {
            layer: layer.start() if layer.across and not layer.grouped else None for layer in layers
        }
        self._stores = {layer: ItemStore() for layer in layers if layer.grouped}
        self._rows = frozenset(TABLES[name].row for name in tables if name in TABLES)

    def start(self, layer: ApplicationLayer) -> ApplicationState:
        """A new state for a session."""
        state, store = layer.start(), self._stores.get(layer)
        return _Storing(state, store) if store else state

    def requested(self, records: Iterable[Record]) -> list[Record]:
        """Those records whose tables are requested. A layer may also make rows of other tables."""
        rows = self._rows
        return [row for row in records if row.__class__ in rows or row.__class__ is LayerFrame]

    def finish(self) -> Iterator[list[Record]]:
        """The last rows of layers across sessions, a few thousand at a time, when all sessions are over."""
        for state in filter(None, self.states.values()):
            yield self.requested(state.finish())
        for layer, store in self._stores.items():
            assert layer.grouped
            rows = store.rows(layer.grouped)
            while some := [*islice(rows, _TOGETHER)]:
                yield self.requested(some)

    def close(self) -> None:
        """Frees the files in which grouped layers store items."""
        for store in self._stores.values():
            store.close()


class _Storing:
    """The state of a grouped layer for one session. It puts the items of the layer into the store."""

    def __init__(self, state: ApplicationState, store: ItemStore) -> None:
        self._state = state
        self._store = store

    def add(self, frame: LayerFrame) -> Iterable[Record]:
        """Stores the items of a frame."""
        return self._stored(self._state.add(frame))

    def finish(self) -> Iterable[Record]:
        """Stores the last items."""
        return self._stored(self._state.finish())

    def _stored(self, items: Iterable[Record]) -> Iterable[Record]:
        for item in items:
            assert isinstance(item, LayerItem)
            self._store.add(item)
        return ()


class ApplicationRows:
    """Runs the layers on one session."""

    def __init__(self, connection: Connection, options: Options, layers: ApplicationStates) -> None:
        self._frames = FrameRows(connection.flow.id, options)
        self._layers = layers
        self._own: list[ApplicationState] = []
        self._reads_all = not all(layer.marked for layer in layers.states)
        self._running: dict[str, list[ApplicationState]] = {}  # by operation
        for layer, shared in layers.states.items():
            state = shared or layers.start(layer)
            for op in layer.ops:
                self._running.setdefault(op, []).append(state)
            if not shared:
                self._own.append(state)

    def rows(
        self,
        events: Iterable[Event],
        kind: Kind | None,
        account: str,
    ) -> list[Record]:
        """The rows that these frames complete."""
        frames: list[LayerFrame] = []
        for event in events:
            if isinstance(event, Batch):
                frames += self._frames.for_layers(event, kind, account, self.ops)
        return self.add(frames)

    @property
    def ops(self) -> Collection[str]:
        """The operations of the frames that layers read."""
        return self._running.keys()

    def add(self, frames: Iterable[LayerFrame]) -> list[Record]:
        """The rows that these frames complete, which layers read."""
        found: list[Record] = []
        running = self._running
        for frame in frames:
            for state in running[frame.op]:
                found += state.add(frame)
        return self._layers.requested(found) if found else found

    @property
    def secrets(self) -> Secrets:
        """The secrets that the session has shown."""
        return self._frames.secrets

    def finish(self) -> list[Record]:
        """The last rows of a session that is over."""
        return self._layers.requested(row for state in self._own for row in state.finish())

    def skip(self, batch: Batch) -> None:
        """Counts a batch without making rows."""
        self._frames.skip(batch)

    def pass_to(self, number: int) -> None:
        """Goes on after the frame with this number, which was read elsewhere."""
        self._frames.pass_to(number)

    @property
    def last_number(self) -> int:
        """The number of the last frame."""
        return self._frames.last_number

    def awaited(self) -> Sequence[bytes] | None:
        """The subjects of the answers for which the states of this session wait, if all of them are of layers
        that read `marked` messages; None if one of them reads every message from now on, or if the bytes of a
        subject are not known."""
        found: list[bytes] = []
        if self._reads_all:
            return found
        for state in self._own:
            subjects = cast("AwaitingState", state).awaited()
            if subjects is None or any("\\" in subject for subject in subjects):
                return None  # a backslash may stand for a byte that is not UTF-8
            found += (subject.encode() for subject in subjects)
        return found
