"""Frames as columns, made by several processes. Each process packs the frames of its connections, and one
process brings all of them into the order of `frame_columns`.

The rows travel as Arrow columns in the order of their release, together with the sort key of each run. The
one process does little per run: it sorts lists, and Arrow moves the rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import itemgetter
from typing import TYPE_CHECKING, cast

from ...engine.frame_runs import FrameRun
from ...engine.session_tables import ReleasedRows
from ...engine.time_order import PAYLOAD_BYTES
from ...schema.declaration import Type
from .frame_columns import GROUP_ROWS, arrays_as_released, ascending, shown_bytes
from .records import declared, schema
from .run_window import RunPiece, RunWindow, first_row, size_of
from .types import array, pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

PlacedRun = tuple[int, int, str, int, str, int, int, int, int]
"""A run: the three parts of its `ReleaseKey`, then its `RunPiece`, then the bytes of its payloads."""

Part = tuple["PackedFrames | None", int]
"""New frames of one process, if any, and the packet up to which it has sent everything it released."""

# The first row of a run is encoded as the number of its part and, in this many low bits, its row there.
_ROW_BITS = 32
_ROW = (1 << _ROW_BITS) - 1
# Parts of more bytes make a row group, whatever their number of rows.
_MOST_BYTES = 2 * PAYLOAD_BYTES
_piece_of: Callable[[PlacedRun], RunPiece] = itemgetter(slice(3, 8))
_packet_of, _size_of, _payload_of = itemgetter(0), itemgetter(7), itemgetter(8)


@dataclass(slots=True)
class PackedFrames:
    """A part of the frames of one process. `runs` has the columns of its `PlacedRun`s, in the order of
    `rows`: they take less time to send than tuples."""

    rows: pa.RecordBatch
    runs: tuple[Sequence[object], ...]

    @property
    def last_packet(self) -> int:
        """The packet that released the last of them."""
        return cast("int", self.runs[0][-1])


def pack(releases: Sequence[ReleasedRows], columns: Sequence[str] | None) -> PackedFrames:
    """Packs these columns of the runs of some releases; there is at least one."""
    lists = cast("list[list[FrameRun]]", [records for _, records in releases])
    runs = list(chain.from_iterable(lists))
    arrays, pieces = arrays_as_released(runs, declared("frames", columns))
    keys = [release for (release, _), some in zip(releases, lists) for _ in some]
    sizes = [shown_bytes([run]) for run in runs] if shown_bytes(runs) else [0] * len(runs)
    rows = pyarrow().RecordBatch.from_arrays(arrays, schema=schema("frames", columns))
    return PackedFrames(rows, (*zip(*keys), *zip(*pieces), sizes))


class SharedFrames:
    """The frames of several processes. A part is kept until all of its rows were taken."""

    def __init__(self, reach: int, group_rows: int = GROUP_ROWS) -> None:
        self._reach = reach
        self._group_rows = group_rows
        self._window = RunWindow()
        self._parts: dict[int, pa.RecordBatch] = {}
        self._left: dict[int, int] = {}  # the number of rows of each part that were not taken
        self._bytes = 0  # of all parts
        self._next = 0

    def in_order(self, processes: Sequence[Iterator[Part]]) -> Iterator[pa.RecordBatch]:
        """The rows, sorted by time within a window, about one row group at a time."""
        window = self._window
        count = size = 0
        for runs in self._merged(processes):
            while runs:
                counts = list(accumulate(map(_size_of, runs), initial=count))
                sizes = list(accumulate(map(_payload_of, runs), initial=size))
                many = bisect_left(counts, self._reach, 1)
                end = _past_release(runs, min(many, bisect_left(sizes, PAYLOAD_BYTES, 1)))
                some, runs = runs[:end], runs[end:]
                window.waiting += map(_piece_of, some)
                count, size = counts[len(some)], sizes[len(some)]
                if end > len(some):
                    continue
                window.release(count // 2)
                count -= count // 2
                size = 0
                if window.released >= self._group_rows or self._bytes >= _MOST_BYTES:
                    yield self._take()
        window.release(count)
        if window.released:
            yield self._take()

    def _merged(self, processes: Sequence[Iterator[Part]]) -> Iterator[list[PlacedRun]]:
        """The runs of all processes in the order of release; runs that were released together come together.
        The next part is taken from the process that is furthest behind."""
        held: list[list[PlacedRun]] = [[] for _ in processes]
        # The packet that each process has reached, without processes that have finished.
        reached = dict.fromkeys(range(len(processes)), -1)
        while reached:
            number = min(reached, key=reached.__getitem__)
            part = next(processes[number], None)
            if part is None:
                del reached[number]
            else:
                packed, reached[number] = part
                if packed:
                    held[number] += self._stored(packed)
            bound = min(reached.values(), default=None)
            ready: list[PlacedRun] = []
            for runs in held:
                # More of the runs that the packet `bound` released may follow.
                end = len(runs) if bound is None else bisect_left(runs, bound, key=_packet_of)
                ready += runs[:end]
                del runs[:end]
            ready.sort()
            if ready:
                yield ready

    def _stored(self, part: PackedFrames) -> Iterator[PlacedRun]:
        """The runs of a part, whose rows are stored here."""
        number, self._next = self._next, self._next + 1
        self._parts[number], self._left[number] = part.rows, part.rows.num_rows
        self._bytes += part.rows.nbytes
        base = number << _ROW_BITS
        columns = cast("tuple[Sequence[int], ...]", part.runs)
        firsts = [base + first for first in columns[6]]
        return cast("Iterator[PlacedRun]", zip(*columns[:6], firsts, *columns[7:]))

    def _take(self) -> pa.RecordBatch:
        """The released rows, in order."""
        arrow = pyarrow()
        runs = self._window.take()
        firsts, sizes = list(map(first_row, runs)), list(map(size_of, runs))
        numbers = sorted({first >> _ROW_BITS for first in firsts})
        parts = [self._parts[number] for number in numbers]
        begins = dict(zip(numbers, accumulate(map(len, parts), initial=0)))
        places = [begins[first >> _ROW_BITS] + (first & _ROW) for first in firsts]
        order = ascending(array(Type.INTEGER, places), sizes)
        columns = [
            arrow.concat_arrays(some).take(order) for some in zip(*(part.columns for part in parts))
        ]
        self._drop(firsts, sizes)
        return arrow.RecordBatch.from_arrays(columns, schema=parts[0].schema)

    def _drop(self, firsts: Iterable[int], sizes: Iterable[int]) -> None:
        """Drops the parts whose last rows these are."""
        left = self._left
        for first, size in zip(firsts, sizes):
            number = first >> _ROW_BITS
            left[number] -= size
            if not left[number]:
                del left[number]
                self._bytes -= self._parts.pop(number).nbytes


def _past_release(runs: Sequence[PlacedRun], end: int) -> int:
    """The end of the release to which the run before `end` belongs."""
    while end < len(runs) and runs[end][:3] == runs[end - 1][:3]:
        end += 1
    return end
