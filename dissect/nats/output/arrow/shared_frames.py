"""Frames as columns, made by several processes: each packs the frames of its connections, and one process
puts all of them in the order in which `frame_columns` has them.

The rows travel as Arrow columns, in the order in which they were released, and with them the place of each
run in the order of time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, cast

from ...engine.frame_runs import FrameRun
from ...engine.session_tables import Rows
from ...engine.time_order import PAYLOAD_BYTES
from ...schema.declaration import Type
from .frame_columns import GROUP_ROWS, arrays_as_released, ascending, shown_bytes
from .records import declared, schema
from .run_window import RunPiece, RunWindow, first_row, size_of
from .types import array, pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

Key = tuple[int, int, str]
"""A `SortKey` as a plain tuple."""
Release = tuple[Key, int, Sequence[RunPiece]]
"""Runs that were released together: their key, the bytes of their payloads, and their places."""

# The first row of a run is the number of its part and, in so many bits, its row there.
_ROW_BITS = 32
_ROW = (1 << _ROW_BITS) - 1
# Parts with more bytes make a row group, whatever the number of its rows.
_MOST_BYTES = 2 * PAYLOAD_BYTES
_key = itemgetter(0)


@dataclass(slots=True)
class PackedFrames:
    """A part of the frames of one process. `releases` has the key of each release, the bytes of its payloads,
    and how many of `runs` it has; these are in the order of `rows`."""

    rows: pa.RecordBatch
    releases: list[tuple[Key, int, int]]
    runs: list[RunPiece]


def pack(releases: Sequence[Rows], columns: Sequence[str] | None) -> PackedFrames:
    """Packs these columns of the runs of some releases; there is at least one."""
    lists = cast("list[list[FrameRun]]", [records for _, records in releases])
    runs = list(chain.from_iterable(lists))
    arrays, pieces = arrays_as_released(runs, declared("frames", columns))
    found = [
        (tuple(release), shown_bytes(some), len(some))
        for (release, _), some in zip(releases, lists)
    ]
    rows = pyarrow().RecordBatch.from_arrays(arrays, schema=schema("frames", columns))
    return PackedFrames(rows, cast("list[tuple[Key, int, int]]", found), pieces)


class SharedFrames:
    """The frames of several processes: the `releases` of all parts, merged by their keys, are the argument of
    `in_order`. A part is here until all of its rows were taken."""

    def __init__(self, reach: int, group_rows: int = GROUP_ROWS) -> None:
        self._reach = reach
        self._group_rows = group_rows
        self._window = RunWindow()
        self._parts: dict[int, pa.RecordBatch] = {}
        self._left: dict[int, int] = {}  # how many rows of each part were not taken
        self._bytes = 0  # of all parts
        self._next = 0

    def releases(self, part: PackedFrames) -> Iterator[Release]:
        """The releases of a part, whose rows are stored here."""
        number, self._next = self._next, self._next + 1
        self._parts[number], self._left[number] = part.rows, part.rows.num_rows
        self._bytes += part.rows.nbytes
        base = number << _ROW_BITS
        runs = [
            (ts_ns, session, number, base + first, size)
            for ts_ns, session, number, first, size in part.runs
        ]
        at = 0
        for key, payload_bytes, count in part.releases:
            yield key, payload_bytes, runs[at : at + count]
            at += count

    def in_order(self, releases: Iterable[Release]) -> Iterator[pa.RecordBatch]:
        """The rows in order of time within a window, about as many at a time as a row group has."""
        window = self._window
        count = size = 0
        for _, together in groupby(releases, key=_key):
            for _, payload_bytes, runs in together:
                window.waiting += runs
                count += sum(map(size_of, runs))
                size += payload_bytes
            if count < self._reach and size < PAYLOAD_BYTES:
                continue
            window.release(count // 2)
            count -= count // 2
            size = 0
            if window.released >= self._group_rows or self._bytes >= _MOST_BYTES:
                yield self._take()
        window.release(count)
        if window.released:
            yield self._take()

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
