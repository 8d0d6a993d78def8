"""A dissection, from TCP segments to records, that can be saved and resumed in another process.

    first = Checkpoints(["frames"], options)
    rows = list(first.feed(segments))
    states = first.save()                 # bytes, for each flow that is open
    ...
    second = Checkpoints(["frames"], options)
    second.load(states.values())
    rows = list(second.feed(more_segments)) + list(second.finish())

Splitting a capture in this way, or dividing its flows among dissectors, gives the same rows as a single
dissection: the rows of a flow depend only on its own packets and on the times of other packets, and its state
has all of that. Only drops caused by a limit of the whole capture depend on how flows are divided.

A state is a pickle of some kilobytes, valid for the same version, tables and options. It contains bytes of
the capture, secrets included. Never load a state that someone else may have written: unpickling runs code.
"""

from __future__ import annotations

import copyreg
import pickle
import zlib
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from functools import partial
from io import BytesIO
from typing import Any

from ..engine.connections import Connection
from ..engine.dissection import Dissection
from ..engine.session_tables import SessionTables
from ..options import Options
from ..secrets.key_log import KeyLogs
from ..tcp.flow import Flow, undirected
from ..types import Segment
from .advance import advance
from .chunk_summary import unpacked

_Pickled = str | tuple[Any, ...]
_SavedFlow = tuple[Flow, list[int], Connection | None, SessionTables | None]
_Flows = list[tuple[Flow, list[int]]]


class Checkpoints(Dissection):
    """A dissection whose flows can be saved, dropped, restored and advanced. `key_logs` has the TLS secrets
    for all connections, restored ones included."""

    def __init__(
        self,
        tables: Collection[str],
        options: Options,
        quiet: bool = False,
        key_logs: KeyLogs | None = None,
        blocks: bool = False,
    ) -> None:
        super().__init__(tables, options, quiet, key_logs, blocks)
        self._shared: dict[str, object] = {
            "limits": options.stream_limits,
            "resync": self._connections.quota,
            "key_logs": self._connections.key_logs,
            "sessions": self._table_builder.quota,
        }
        # Reducers are looked up by type, in C. `persistent_id` would be called for each object of a state,
        # and a state has about a thousand.
        named = partial(_named, {id(value): name for name, value in self._shared.items()})
        self._reducers: dict[type, Callable[[Any], _Pickled]] = {
            **copyreg.dispatch_table,
            Segment: _without_payload,
            **{type(value): named for value in self._shared.values()},
        }

    def save(self, wanted: Container[bytes] | None = None) -> dict[bytes, bytes]:
        """The states of all open flows, or of those in `wanted`, by `flow.undirected`; a state has all flows
        between the same endpoints. The dissection does not change."""
        found: dict[bytes, _Flows] = {}
        for name, flow, deadlines in self._flows():
            if wanted is None or name in wanted:
                found.setdefault(name, []).append((flow, deadlines))
        return {name: self._packed(flows) for name, flows in found.items()}

    def drop(self, names: Container[bytes]) -> None:
        """Forgets flows that another dissector continues."""
        for name, flow, _ in self._flows():
            if name in names:
                self._connections.table.drop(flow)
                connection = self._connections.alive.pop(flow, None)
                session_tables = (
                    self._table_builder.alive.pop(connection, None) if connection else None
                )
                if connection:
                    connection.framing.release_quota()
                if session_tables:
                    session_tables.drop()

    def load(self, states: Iterable[bytes]) -> None:
        """Restores saved flows; none may exist here already."""
        for state in states:
            for flow, deadlines, connection, session_tables in self._unpacked(state):
                self._connections.table.restore(flow, deadlines)
                if connection:
                    self._connections.restore(connection)
                if connection and session_tables:
                    self._table_builder.restore(connection, session_tables)

    def advanced(self, state: bytes, summary: bytes) -> bytes | None:
        """The state of a flow after the packets of a summary (`Survey.summaries`). None if the summary
        cannot be proven for this state: then the packets have to be read. The flows of this dissector do not
        change."""
        key_logs = self._connections.key_logs
        alone = Checkpoints(self._tables, self._options, quiet=True, key_logs=key_logs)
        alone.load([state])
        flows = list(alone._connections.table.deadlines().items())
        if len(flows) > 1:  # the summary does not tell them apart
            return None
        flow, deadlines = flows[0]
        connection = alone._connections.alive.get(flow)
        session_tables = alone._table_builder.alive.get(connection) if connection else None
        if not advance(flow, deadlines, connection, session_tables, unpacked(summary)):
            return None
        return alone._packed(flows)

    def advance(self, name: bytes, summary: bytes) -> bool:
        """Advances a flow across the packets of a summary. Returns False, and changes nothing, if the summary
        cannot be proven."""
        state = self.save([name]).get(name)
        reached = self.advanced(state, summary) if state else None
        if reached is None:
            return False
        self.drop([name])
        self.load([reached])
        return True

    def _flows(self) -> Iterator[tuple[bytes, Flow, list[int]]]:
        for flow, deadlines in self._connections.table.deadlines().items():
            yield undirected(flow.key), flow, deadlines

    def _packed(self, flows: _Flows) -> bytes:
        states: list[_SavedFlow] = []
        for flow, deadlines in flows:
            connection = self._connections.alive.get(flow)
            session_tables = self._table_builder.alive.get(connection) if connection else None
            states.append((flow, deadlines, connection, session_tables))
        output = BytesIO()
        pickler = pickle.Pickler(output, pickle.HIGHEST_PROTOCOL)
        pickler.dispatch_table = self._reducers
        pickler.dump(states)
        return zlib.compress(output.getvalue(), 1)

    def _unpacked(self, state: bytes) -> list[_SavedFlow]:
        found: list[_SavedFlow] = _Unpickler(BytesIO(zlib.decompress(state)), self._shared).load()
        return found


def _named(names: dict[int, str], value: object) -> _Pickled:
    """Pickles an object that all flows share by its name."""
    name = names.get(id(value))
    return value.__reduce_ex__(pickle.HIGHEST_PROTOCOL) if name is None else (shared, (name,))


def shared(name: str) -> object:
    """Stands for an object that all flows share: the dissector that loads a state puts its own here."""
    raise LookupError(name)


def _without_payload(segment: Segment) -> _Pickled:
    """Pickles a segment without its payload, which was delivered already."""
    place = segment.ts_ns, segment.number, segment.capture, segment.key
    rest = segment.seq, segment.ack, segment.flags, b"", segment.length, 0, segment.window
    return Segment, (*place, *rest, None, segment.path, segment.header)


class _Unpickler(pickle.Unpickler):
    def __init__(self, source: BytesIO, of_dissector: dict[str, object]) -> None:
        super().__init__(source)
        self._of_dissector = of_dissector

    def find_class(self, module: str, name: str) -> object:
        """Finds `shared` in the objects of this dissector, and everything else as every unpickler does."""
        if module == __name__ and name == shared.__name__:
            return self._of_dissector.__getitem__
        return super().find_class(module, name)
