"""Runs of frames -> Arrow arrays, in order of time within a window, without a record for each row.

The rows have the order in which `engine.time_order.TimeOrder` releases records, and come one row group of
Parquet at a time. Waiting rows are stored as cells in their order of arrival; Arrow reorders all of them at
once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from importlib import import_module
from itertools import accumulate, chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from ...engine.frame_runs import FrameRun
from ...engine.session_tables import ReleasedRows
from ...engine.time_order import PAYLOAD_BYTES
from ...kernel.frame_block import FrameBlock
from ...options import Payload
from ...schema.declaration import Column, Type
from .frame_cells import LABELS, FrameCells
from .run_window import RunPiece, RunWindow, first_row, size_of
from .types import array, arrow_type, pyarrow, times

if TYPE_CHECKING:
    import pyarrow as pa

GROUP_ROWS = 65_536
"""The number of rows in a row group. The cost per group is negligible, and its rows take 10 to 20 MB."""

_TOGETHER = 512  # releases whose cells are taken together; these fit into the caches
_frames_of = itemgetter(4)  # of a `FrameRun`


def sorted_arrays(
    source: Iterable[ReleasedRows],
    columns: Sequence[Column],
    reach: int,
    group_rows: int = GROUP_ROWS,
) -> Iterator[list[pa.Array]]:
    """These columns of the rows of the runs and blocks that `source` releases, about `group_rows` rows at a
    time, sorted by time within a window of `reach` rows, as `TimeOrder` sorts records."""
    table, releases = _FrameTable(columns), _BeforeBlocks(source)
    count = yield from _sorted_runs(table, releases, reach, group_rows)
    if releases.rest is None:
        table.window.release(count)
        if table.window.released:
            yield table.take()
        return
    # Imported here, because only the kernel makes blocks, and has numpy.
    from .block_window import BlockWindow

    released, (waiting, pieces) = table.take(), table.waiting
    if len(released[0]):
        yield released
    window = BlockWindow(columns, reach, group_rows)
    if pieces:
        window.begin(waiting, pieces)
    yield from window.in_order(releases.rest)


class _BeforeBlocks:
    """The releases before the first block; `rest` has it and all others."""

    def __init__(self, source: Iterable[ReleasedRows]) -> None:
        self.rest: Iterator[ReleasedRows] | None = None
        self._source = iter(source)

    def __iter__(self) -> Iterator[ReleasedRows]:
        for rows in self._source:
            if rows.records[0].__class__ is FrameBlock:
                self.rest = chain([rows], self._source)
                return
            yield rows


def _sorted_runs(
    table: _FrameTable, source: Iterable[ReleasedRows], reach: int, group_rows: int
) -> Generator[list[pa.Array], None, int]:
    """The rows that leave the window until `source` ends. Returns how many are left."""
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
            size += shown_bytes(records)
            if count < reach and size < PAYLOAD_BYTES:
                continue
            table.add(runs[begun:at])
            begun = at
            table.window.release(count // 2)
            count -= count // 2
            held, size = held + size, 0
            if table.window.released >= group_rows or held + table.text_bytes >= PAYLOAD_BYTES:
                held = 0
                yield table.take()
        table.add(runs[begun:])
    return count


def arrays_as_released(
    runs: Sequence[FrameRun], columns: Sequence[Column]
) -> tuple[list[pa.Array], list[RunPiece]]:
    """These columns of the rows of runs, in the order of the runs, and the place of each run."""
    table = _FrameTable(columns)
    for start in range(0, len(runs), _TOGETHER):
        table.add(runs[start : start + _TOGETHER])
    window = table.window
    pieces = window.placed = window.waiting
    window.waiting, window.released = [], sum(map(size_of, pieces))
    return table.take(), pieces


def shown_bytes(runs: Sequence[FrameRun]) -> int:
    """The bytes of the payloads that the rows of these runs show. Either all runs of a dissection show
    payloads or none does."""
    return sum([run.payload_bytes for run in runs]) if runs and _is_shown(runs[0]) else 0


def _is_shown(run: FrameRun) -> bool:
    return run.labels.payload is not Payload.NONE


class _FrameTable:
    """Rows that wait, and rows whose position is final: `window` tells them apart."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.window = RunWindow()
        self._columns = columns
        self._cells = FrameCells(columns)
        # Rows that still waited at the last `take`; the rows of `_cells` follow them.
        self._arrays = [pyarrow().nulls(0, arrow_type(column.type)) for column in columns]

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
        self.window.waiting += zip(
            times_ns, sessions, numbers, accumulate(sizes, initial=first), sizes
        )

    @property
    def waiting(self) -> tuple[list[pa.Array], list[RunPiece]]:
        """The rows that waited at the last `take`, and their places."""
        return self._arrays, self.window.waiting

    def take(self) -> list[pa.Array]:
        """Removes and returns the released rows, in order."""
        window, count = self.window, self.window.released
        cells, self._cells = self._cells, FrameCells(self._columns)
        pieces = window.take() + window.waiting
        places = _Places(cells, len(self._arrays[0]), pieces)
        arrays = [
            _merged(old, column, cells, places) for old, column in zip(self._arrays, self._columns)
        ]
        self._arrays = [each.slice(count) for each in arrays]
        firsts = accumulate(map(size_of, window.waiting), initial=0)
        window.waiting = [(*run[:3], first, run[4]) for run, first in zip(window.waiting, firsts)]
        return [each.slice(0, count) for each in arrays]


class _Places:
    """The positions of the values of all rows, in the new order of the rows: indices into the `old` rows
    followed by the new values, of which there is one per run, label, class, frame by class, or record. Null
    means no value.
    """

    def __init__(self, cells: FrameCells, old: int, pieces: Sequence[RunPiece]) -> None:
        arrow = pyarrow()
        self._compute: Any = import_module("pyarrow.compute")
        self._old = old
        self._order: pa.Array = None
        firsts, sizes = list(map(first_row, pieces)), list(map(size_of, pieces))
        if firsts != list(accumulate(sizes, initial=0))[:-1]:
            self._order = ascending(array(Type.INTEGER, firsts), sizes)
        runs = _runs_of_rows(cells.sizes)
        codes = arrow.Array.from_buffers(
            arrow.int8(), cells.rows, [None, arrow.py_buffer(cells.codes)]
        )
        sort = self._compute.array_sort_indices
        by_class = sort(codes).view(arrow.int64())
        self.numbers = ascending(cells.numbers.array(), cells.sizes)
        self.runs = self._indices(runs)
        self.labels = self._indices(cells.labels_of_runs.array().take(runs))
        self.classes = self._indices(codes.cast(arrow.int64()))
        self.frames = self._indices(sort(by_class).view(arrow.int64()))
        self.records = self._indices(self._records(cells)) if cells.record_rows else None

    def in_order(self, rows: pa.Array) -> pa.Array:
        """Old and new rows in their new order."""
        return rows if self._order is None else rows.take(self._order)

    def _indices(self, new: pa.Array) -> pa.Array:
        old = _counting(self._old)
        return self.in_order(pyarrow().concat_arrays([old, self._compute.add(new, self._old)]))

    def _records(self, cells: FrameCells) -> pa.Array:
        """The index of the record of each row that has one."""
        arrow = pyarrow()
        has = bytearray(cells.rows)
        for row in cells.record_rows:
            has[row] = 1
        mask = arrow.Array.from_buffers(arrow.int8(), cells.rows, [None, arrow.py_buffer(has)])
        place = self._compute.subtract(self._compute.cumulative_sum(mask.cast(arrow.int64())), 1)
        return self._compute.if_else(mask.cast(arrow.bool_()), place, None)


def ascending(firsts: pa.Array, sizes: Sequence[int]) -> pa.Array:
    """Consecutive numbers for the rows of each run, starting at its number in `firsts`."""
    compute: Any = import_module("pyarrow.compute")
    starts = array(Type.INTEGER, list(accumulate(sizes, initial=0))[:-1])
    shifts = compute.subtract(firsts, starts).take(_runs_of_rows(sizes))
    return compute.add(shifts, _counting(len(shifts)))


def _counting(size: int) -> pa.Array:
    """The numbers below `size`."""
    arrow, compute = pyarrow(), import_module("pyarrow.compute")
    return compute.indices_nonzero(arrow.repeat(True, size)).view(arrow.int64())


def _runs_of_rows(sizes: Sequence[int]) -> pa.Array:
    """For each row, the index of its run, if the runs have `sizes` rows."""
    arrow, compute = pyarrow(), import_module("pyarrow.compute")
    ends = arrow.array(list(accumulate(sizes, initial=0)), arrow.int32())
    lists = arrow.ListArray.from_arrays(ends, arrow.nulls(sum(sizes)))
    return compute.list_parent_indices(lists).cast(arrow.int64())


def _merged(old: pa.Array, column: Column, cells: FrameCells, places: _Places) -> pa.Array:
    """One column of old and new rows, in the new order."""
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
