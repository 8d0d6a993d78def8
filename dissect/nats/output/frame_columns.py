"""Runs of frames -> Arrow arrays, in order of time within a window, without a record for each row.

The rows come in the order in which `engine.time_order.TimeOrder` releases records, a row group of Parquet at
a time. Rows wait as cells, in the order in which they came; Arrow brings all of them into order at once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import accumulate, chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from ..declaration import Column, Type
from ..engine.frame_runs import FrameRun
from ..engine.session_tables import Rows
from ..engine.time_order import PAYLOAD_BYTES
from ..options import Payload
from .arrow_types import array, arrow_type, pyarrow, times
from .frame_cells import LABELS, FrameCells

if TYPE_CHECKING:
    import pyarrow as pa

GROUP_ROWS = 65_536
"""The number of rows in a row group: the cost of a group is not seen, and its rows are 10 to 20 MB."""

_TOGETHER = 512  # releases whose cells are taken together: few enough to stay in the caches
# Of a run that waits: the place of its first row in the order of time, its first row, and how many it has.
_Waiting = tuple[int, str, int, int, int]
_first_row, _size = itemgetter(3), itemgetter(4)
_frames_of = itemgetter(4)  # of a `FrameRun`


def sorted_arrays(
    source: Iterable[Rows], columns: Sequence[Column], reach: int, group_rows: int = GROUP_ROWS
) -> Iterator[list[pa.Array]]:
    """These columns of the rows of the runs that `source` releases, about `group_rows` at a time. They are in
    order of time within a window of `reach` rows, as `TimeOrder` brings them."""
    table = _Table(columns)
    releases = iter(source)
    count = size = held = 0
    while some := list(islice(releases, _TOGETHER)):
        lists = cast("list[list[FrameRun]]", [records for _, records in some])
        runs = list(chain.from_iterable(lists))
        rows = sum(map(len, map(_frames_of, runs)))
        if count + rows < reach and not _is_shown(runs[0]):
            table.add(runs)
            count += rows
            continue
        begun = at = 0
        for records in lists:
            at += len(records)
            count += sum(map(len, map(_frames_of, records)))
            size += sum([run.payload_bytes for run in records if _is_shown(run)])
            if count < reach and size < PAYLOAD_BYTES:
                continue
            table.add(runs[begun:at])
            begun = at
            table.release(count // 2)
            count -= count // 2
            held, size = held + size, 0
            if table.released >= group_rows or held + table.text_bytes >= PAYLOAD_BYTES:
                held = 0
                yield table.take()
        table.add(runs[begun:])
    table.release(count)
    if table.released:
        yield table.take()


def _is_shown(run: FrameRun) -> bool:
    return run.labels.payload is not Payload.NONE


class _Table:
    """Rows that wait, and after them `released` rows whose place is known."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.released = 0
        self._columns = columns
        self._cells = FrameCells(columns)
        # Rows that waited when others were taken; the rows of `_cells` follow them.
        self._arrays = [pyarrow().nulls(0, arrow_type(column.type)) for column in columns]
        self._waiting: list[_Waiting] = []
        self._placed: list[_Waiting] = []

    @property
    def text_bytes(self) -> int:
        """The size of the texts of new rows."""
        return self._cells.text_bytes

    def add(self, runs: Sequence[FrameRun]) -> None:
        """Adds rows, which wait."""
        if not runs:
            return
        first = len(self._arrays[0]) + self._cells.rows
        self._cells.add(runs)
        labels, numbers, times_ns, _, frames_of, _ = zip(*runs)
        sizes = list(map(len, frames_of))
        sessions = [each.session for each in labels]
        self._waiting += zip(times_ns, sessions, numbers, accumulate(sizes, initial=first), sizes)

    def release(self, count: int) -> None:
        """Gives the first `count` waiting rows, in order of time, their places."""
        waiting = self._waiting
        waiting.sort()
        ends = list(accumulate(map(_size, waiting)))
        whole = bisect_right(ends, count)
        self.released += count
        self._placed += waiting[:whole]
        if some := count - (ends[whole - 1] if whole else 0):
            ts_ns, session, number, first, size = waiting[whole]
            self._placed.append((ts_ns, session, number, first, some))
            waiting[whole] = ts_ns, session, number + some, first + some, size - some
        del waiting[:whole]

    def take(self) -> list[pa.Array]:
        """The released rows, in order."""
        count, self.released = self.released, 0
        cells, self._cells = self._cells, FrameCells(self._columns)
        pieces = self._placed + self._waiting
        self._placed = []
        places = _Places(cells, len(self._arrays[0]), pieces)
        arrays = [
            _merged(old, column, cells, places) for old, column in zip(self._arrays, self._columns)
        ]
        self._arrays = [each.slice(count) for each in arrays]
        firsts = accumulate(map(_size, self._waiting), initial=0)
        self._waiting = [(*run[:3], first, run[4]) for run, first in zip(self._waiting, firsts)]
        return [each.slice(0, count) for each in arrays]


class _Places:
    """Where the values of all rows are, in their new order: indices into `old` rows and, after them, the new
    values, which are one for each run, label, class, frame by class, or record. Null is no value.
    """

    def __init__(self, cells: FrameCells, old: int, pieces: Sequence[_Waiting]) -> None:
        arrow = pyarrow()
        self._compute: Any = import_module("pyarrow.compute")
        self._old = old
        self._order: pa.Array = None
        firsts, sizes = list(map(_first_row, pieces)), list(map(_size, pieces))
        if firsts != list(accumulate(sizes, initial=0))[:-1]:
            self._order = self._ascending(array(Type.INTEGER, firsts), sizes)
        runs = self._runs_of_rows(cells.sizes)
        codes = arrow.Array.from_buffers(
            arrow.int8(), cells.rows, [None, arrow.py_buffer(cells.codes)]
        )
        sort = self._compute.array_sort_indices
        by_class = sort(codes).view(arrow.int64())
        self.numbers = self._ascending(cells.numbers.array(), cells.sizes)
        self.runs = self._indices(runs)
        self.labels = self._indices(cells.labels_of_runs.array().take(runs))
        self.classes = self._indices(codes.cast(arrow.int64()))
        self.frames = self._indices(sort(by_class).view(arrow.int64()))
        self.records = self._indices(self._records(cells)) if cells.record_rows else None

    def in_order(self, rows: pa.Array) -> pa.Array:
        """Old and new rows in their new order."""
        return rows if self._order is None else rows.take(self._order)

    def _indices(self, new: pa.Array) -> pa.Array:
        old = self._counting(self._old)
        return self.in_order(pyarrow().concat_arrays([old, self._compute.add(new, self._old)]))

    def _counting(self, size: int) -> pa.Array:
        """The numbers below `size`."""
        arrow = pyarrow()
        return self._compute.indices_nonzero(arrow.repeat(True, size)).view(arrow.int64())

    def _runs_of_rows(self, sizes: Sequence[int]) -> pa.Array:
        """The index of the run of each row, of runs with so many rows."""
        arrow = pyarrow()
        ends = arrow.array(list(accumulate(sizes, initial=0)), arrow.int32())
        lists = arrow.ListArray.from_arrays(ends, arrow.nulls(sum(sizes)))
        return self._compute.list_parent_indices(lists).cast(arrow.int64())

    def _ascending(self, firsts: pa.Array, sizes: Sequence[int]) -> pa.Array:
        """Numbers that begin anew with each run, at its number in `firsts`."""
        starts = array(Type.INTEGER, list(accumulate(sizes, initial=0))[:-1])
        shifts = self._compute.subtract(firsts, starts).take(self._runs_of_rows(sizes))
        return self._compute.add(shifts, self._counting(len(shifts)))

    def _records(self, cells: FrameCells) -> pa.Array:
        """The index of the record of each row that has one."""
        arrow = pyarrow()
        has = bytearray(cells.rows)
        for row in cells.record_rows:
            has[row] = 1
        mask = arrow.Array.from_buffers(arrow.int8(), cells.rows, [None, arrow.py_buffer(has)])
        place = self._compute.subtract(self._compute.cumulative_sum(mask.cast(arrow.int64())), 1)
        return self._compute.if_else(mask.cast(arrow.bool_()), place, None)


def _merged(old: pa.Array, column: Column, cells: FrameCells, places: _Places) -> pa.Array:
    """A column of old and new rows in their new order."""
    arrow = pyarrow()
    name = column.name
    if name == "number":
        return places.in_order(arrow.concat_arrays([old, places.numbers]))
    parts, indices = _parts(column, cells, places)
    if parts:
        return arrow.concat_arrays([old, *parts]).take(indices)
    if old.null_count == len(old):
        return arrow.nulls(len(old) + cells.rows, old.type)
    return places.in_order(arrow.concat_arrays([old, arrow.nulls(cells.rows, old.type)]))


def _parts(column: Column, cells: FrameCells, places: _Places) -> tuple[list[pa.Array], pa.Array]:
    """The new values of a column, in parts, and the indices of all rows; no parts if no row has a value."""
    name = column.name
    if column.field == "ts_ns":
        of_runs = cells.times_ns.array()
        return [times(of_runs) if column.type is Type.TIME else of_runs], places.runs
    if name == "packet":
        return [cells.packets.array()], places.runs
    if name in LABELS:
        return [array(column.type, [getattr(each, name) for each in cells.labels])], places.labels
    if name == "op":
        return [array(column.type, [each.op for each in cells.classes])], places.classes
    if name in cells.record_columns:
        return ([cells.record_columns[name].array()] if cells.record_rows else []), places.records
    if not any(name in each.columns for each in cells.classes):
        return [], None
    nulls, type_ = pyarrow().nulls, arrow_type(column.type)
    found = [(each, each.columns.get(name)) for each in cells.classes]
    parts = [made.cells.array() if made else nulls(each.count, type_) for each, made in found]
    return parts, places.frames
