"""Runs of frames -> Arrow arrays, in order of time within a window, without a record for each row.

The rows come in the order in which `engine.time_order.TimeOrder` releases records: what waits for its place
are columns, which Arrow brings into order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import accumulate, chain, islice, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from ..engine.frame_rows import ROW_COLUMNS
from ..engine.frame_runs import FrameRun
from ..engine.session_tables import Rows
from ..engine.time_order import PAYLOAD_BYTES
from ..options import Payload
from ..records import Column, Type
from .arrow_types import array, arrow_type, pyarrow, wire_texts
from .frame_cells import FrameCells

if TYPE_CHECKING:
    import pyarrow as pa

_TOGETHER = 256  # runs whose cells are taken together: few enough to stay in the caches
_RUN_FIELDS = {
    "session": "sessions",
    "ts_ns": "times_ns",
    "packet": "packets",
    "capture": "captures",
    "sender": "senders",
    "kind": "kinds",
}

# The position of a run in the order of time, and how many rows it has.
_Run = tuple[int, str, int, int]


def frame_arrays(runs: Sequence[FrameRun], columns: Sequence[Column]) -> list[pa.Array]:
    """These columns of the rows of the runs, in their order."""
    table = _Table(columns, sort=False)
    table.add(runs)
    return table.take(sum([len(run.frames) for run in runs]))


def sorted_arrays(
    source: Iterable[Rows], columns: Sequence[Column], reach: int
) -> Iterator[list[pa.Array]]:
    """These columns of the rows of the runs that `source` releases, some thousand rows at a time. They are in
    order of time within a window of `reach` rows, as `TimeOrder` brings them."""
    table = _Table(columns, sort=True)
    runs: list[FrameRun] = []
    count = size = 0
    for _, records in source:
        some = cast(list[FrameRun], records)
        runs += some
        for run in some:
            count += len(run.frames)
            if run.payload is not Payload.NONE:
                size += run.payload_bytes
        if count >= reach or size >= PAYLOAD_BYTES:
            table.add(runs)
            runs = []
            yield table.take(count // 2)
            count -= count // 2
            size = 0
        elif len(runs) >= _TOGETHER:
            table.add(runs)
            runs = []
    table.add(runs)
    if count:
        yield table.take(count)


class _Table:
    """The rows that wait: those that have their place as arrays, in order, and newer ones as cells. The order
    is that of time with `sort`, else that in which they come."""

    def __init__(self, columns: Sequence[Column], sort: bool) -> None:
        arrow = pyarrow()
        self._columns = columns
        self._names = [column.name for column in columns]
        self._sort = sort
        self._cells = FrameCells(self._names)
        self._arrays = [arrow.nulls(0, arrow_type(column.type)) for column in columns]
        self._runs: list[_Run] = []  # of the arrays

    def add(self, runs: Sequence[FrameRun]) -> None:
        """Adds rows."""
        self._cells.add(runs)

    def take(self, count: int) -> list[pa.Array]:
        """The first `count` rows in order of time. The others wait."""
        self._place()
        arrays = self._arrays
        self._arrays = [each.slice(count) for each in arrays]
        ends = list(accumulate([size for *_, size in self._runs]))
        whole = bisect_right(ends, count)
        rest = self._runs[whole:]
        if rest and (taken := count - (ends[whole - 1] if whole else 0)):
            ts_ns, session, number, size = rest[0]
            rest[0] = ts_ns, session, number + taken, size - taken
        self._runs = rest
        return [each.slice(0, count) for each in arrays]

    def _place(self) -> None:
        """Gives the new rows their places. Rows before the first of them stay as they are; with most captures
        these are all that there are."""
        cells, self._cells = self._cells, FrameCells(self._names)
        new = list(zip(cells.times_ns, cells.sessions, cells.numbers, cells.sizes))
        order = list(range(len(new)))
        if self._sort:
            order.sort(key=new.__getitem__)
        first = len(self._runs)
        if new and self._sort:
            first = bisect_left(self._runs, new[order[0]])
        late = self._runs[first:]
        if late:
            new = late + new
            order = sorted(range(len(new)), key=new.__getitem__)
        places = _Places(cells, sum([size for *_, size in late]), new, order)
        kept = len(self._arrays[0]) - places.old
        concat = pyarrow().concat_arrays
        self._arrays = [
            concat([old.slice(0, kept), _merged(old.slice(kept), column, cells, places)])
            for old, column in zip(self._arrays, self._columns)
        ]
        self._runs[first:] = [new[at] for at in order]


class _Places:
    """Where rows come from, in their new order, as indices into `old` rows and the new values after them,
    which are one for each row, run, record, or frame, by class. Null is no value."""

    def __init__(
        self, cells: FrameCells, old: int, runs: Sequence[_Run], order: Sequence[int]
    ) -> None:
        arrow = pyarrow()
        compute: Any = import_module("pyarrow.compute")
        number = arrow.int64()
        self.old = old
        self.rows: pa.Array = None
        if old or any(map(int.__gt__, order, islice(order, 1, None))):
            firsts = list(accumulate([size for *_, size in runs], initial=0))
            rows = chain.from_iterable([range(firsts[at], firsts[at + 1]) for at in order])
            self.rows = arrow.array(list(rows), number)
        before = arrow.array(list(range(old)), number)

        def placed(values: pa.Array) -> pa.Array:
            if self.rows is None:
                return values
            return arrow.concat_arrays([before, compute.add(values, old)]).take(self.rows)

        of_runs = chain.from_iterable(map(repeat, range(len(cells.sizes)), cells.sizes))
        self.runs = placed(arrow.array(list(of_runs), number))
        of_frames = [0] * cells.rows
        for place, row in enumerate(chain.from_iterable(cells.rows_of.values())):
            of_frames[row] = place
        self.frames = placed(arrow.array(of_frames, number))
        self.records: pa.Array = None
        if cells.records:
            of_rows: list[int | None] = [None] * cells.rows
            for place, row in enumerate(cells.records):
                of_rows[row] = place
            self.records = placed(arrow.array(of_rows, number))

    def in_order(self, rows: pa.Array) -> pa.Array:
        """Old and new rows in their new order."""
        return rows if self.rows is None else rows.take(self.rows)


def _merged(old: pa.Array, column: Column, cells: FrameCells, places: _Places) -> pa.Array:
    """A column of old and new rows in their new order."""
    arrow = pyarrow()
    if column.name == "number":
        numbers = map(range, cells.numbers, map(int.__add__, cells.numbers, cells.sizes))
        new = array(column.type, [*chain.from_iterable(numbers)])
        return places.in_order(arrow.concat_arrays([old, new]))
    if field := _RUN_FIELDS.get(column.field):
        values = array(column.type, getattr(cells, field))
        return arrow.concat_arrays([old, values]).take(places.runs)
    if column.name in ROW_COLUMNS:
        if cells.records:
            get = attrgetter(column.field)
            values = array(column.type, list(map(get, cells.records.values())))
            return arrow.concat_arrays([old, values]).take(places.records)
        new = arrow.nulls(cells.rows, old.type)
        return places.in_order(arrow.concat_arrays([old, new]))
    parts = [_of_class(column, cells, kind) for kind in cells.rows_of]
    return arrow.concat_arrays([old, *parts]).take(places.frames)


def _of_class(column: Column, cells: FrameCells, kind: type) -> pa.Array:
    """The new values of a column for the frames of one class."""
    made = cells.columns_of[kind].get(column.name)
    if made is None:
        return pyarrow().nulls(len(cells.rows_of[kind]), arrow_type(column.type))
    if column.type is Type.TEXT and column.name != "op":
        return wire_texts(made.cells)  # type: ignore[arg-type]  # texts come as bytes
    return array(column.type, made.cells)  # type: ignore[arg-type]  # and others as values
