"""The rows of frames that the kernel makes, and their order among those that Python makes.

The kernel numbers all frames of its connections, and makes the rows of those that are only counted. They
wait until there are many, and the rows of frames that Python makes meanwhile wait with them: a `FrameBlock`
has all frames of its packets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..engine.connections import ReleaseKey
from ..engine.frame_rows import kind_name
from ..engine.session_tables import ReleasedRows
from ..options import Options
from ..schema.records import FrameRecord, Record
from ..types import Packets
from . import state
from .block_records import releases_of
from .frame_block import FrameBlock, Sender
from .handover import Owned

if TYPE_CHECKING:
    from .arrays import Arrays

_MOST_HELD = 1 << 12  # releases of Python's frames


class WaitingRows:
    """Rows of frames in `arrays`. If `lazily`, they may wait for more than a run of packets. They come as
    blocks, or else as records."""

    def __init__(self, arrays: Arrays, options: Options, lazily: bool, blocks: bool) -> None:
        self._blocks = blocks
        self._arrays = arrays
        self._kinds = options.kind
        self._lazily = lazily
        self._senders: list[Sender | None] = []
        self._free: list[int] = []
        self._retired: list[int] = []  # codes that rows may still have
        self._captures: dict[str, int] = {}
        self._held: list[ReleasedRows] = []

    def load(self, run: Packets, before: int) -> None:
        """Begins a run, before which `before` packets were read."""
        control = self._arrays.control
        control[state.C_BEFORE] = before
        control[state.C_CAPTURE] = self._capture(run.capture)

    def begin(self, owned: Owned) -> None:
        """Begins to make rows of the frames of a connection that was handed over, if its kind is wanted."""
        arrays, framing = self._arrays, owned.connection.framing
        is_wanted = self._kinds is None or framing.kind in self._kinds
        for number, way in enumerate(owned.ways, 2 * owned.slot):
            columns = arrays.ways[number]
            columns[state.W_LABEL] = -1
            if way.stream is None or not is_wanted:
                continue
            sender = way.stream.direction.value
            names = owned.flow.id, sender, kind_name(framing.kind), framing.account
            columns[state.W_LABEL] = self._code(Sender(*names, owned.tables.secrets))
            if way.progress and way.progress.first:
                first = way.progress.first
                columns[state.W_PACKET] = first.number
                columns[state.W_CAPTURE] = self._capture(first.capture)

    def end(self, owned: Owned) -> None:
        """Ends the rows of a connection that is taken back."""
        arrays = self._arrays
        for number in (2 * owned.slot, 2 * owned.slot + 1):
            code = int(arrays.ways[number, state.W_LABEL])
            if code >= 0:
                self._retired.append(code)

    @property
    def are_due(self) -> bool:
        """Whether rows have to be taken before the next packets are read."""
        return len(self._held) >= _MOST_HELD or self._arrays.lacks_room

    def collected(self, source: Iterable[ReleasedRows]) -> Iterator[ReleasedRows]:
        """The records of a run. Those of frames wait for the next block."""
        for rows in source:
            release, records = rows
            if records[0].__class__ is FrameBlock:
                yield from self._as_requested(rows)
                continue
            if not self._blocks:
                self._held.append(rows)
                continue
            frames: list[Record] = [row for row in records if row.__class__ is FrameRecord]
            if frames:
                self._held.append(rows._replace(records=frames))
            if len(frames) < len(records):
                others = [row for row in records if row.__class__ is not FrameRecord]
                yield ReleasedRows(release, others)
        if not self._lazily or not self._arrays.control[state.C_ROWS]:
            yield from self.rest()

    def rest(self) -> Iterator[ReleasedRows]:
        """Takes all rows that wait, as they were requested."""
        for rows in self.block():
            yield from self._as_requested(rows)

    def block(self) -> Iterator[ReleasedRows]:
        """Takes all rows that wait. All frames of the packets so far must have been collected."""
        held, self._held = self._held, []
        if not self._arrays.control[state.C_ROWS]:
            yield from held
            return
        numbers, texts, codes = self._arrays.take_rows()
        senders = [sender for code in codes if (sender := self._senders[code])]
        self._free += self._retired
        self._retired = []
        block = FrameBlock(numbers, texts, senders, [*self._captures], held)
        yield ReleasedRows(ReleaseKey(int(numbers[state.R_ORDINAL, -1])), [block])

    def _as_requested(self, rows: ReleasedRows) -> Iterable[ReleasedRows]:
        block = rows.records[0]
        if isinstance(block, FrameBlock) and not self._blocks:
            return releases_of(block)
        return [rows]

    def _capture(self, name: str) -> int:
        return self._captures.setdefault(name, len(self._captures))

    def _code(self, sender: Sender) -> int:
        if not self._free:
            self._free.append(len(self._senders))
            self._senders.append(None)
        code = self._free.pop()
        self._senders[code] = sender
        return code
