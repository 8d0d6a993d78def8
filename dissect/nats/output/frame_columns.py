"""Runs of frames -> Arrow arrays, a column at a time and without a record for each row.

Values that the frames of a run have in common are taken once a run and repeated by Arrow. Values of frames
are made for all frames of a class at once, and brought into the order of the rows by Arrow. Only frames that
have headers, JSON, an error, a payload that is shown or an anomaly get a record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from itertools import accumulate, chain, compress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from natsync.protocol import Frame, Message

from ..engine.frame_rows import ROW_COLUMNS, cells_of, rows_of
from ..engine.frame_runs import FrameRun
from ..options import Payload
from ..records import Column, FrameRecord, Type, Value
from .arrow_types import array, arrow_type, pyarrow, times, wire_texts

if TYPE_CHECKING:
    import pyarrow as pa

_OF_RUNS = frozenset({"session", "ts_ns", "packet", "capture", "sender", "kind"})


def frame_arrays(runs: Sequence[FrameRun], columns: Sequence[Column]) -> list[pa.Array]:
    """These columns of the rows of all runs, in order."""
    table = _Table(runs)
    return [table.array(column) for column in columns]


class _Group(NamedTuple):
    """All frames of one class, with their rows."""

    rows: list[int]
    frames: list[Frame]


class _Table:
    def __init__(self, runs: Sequence[FrameRun]) -> None:
        arrow = pyarrow()
        self._compute: Any = import_module("pyarrow.compute")
        self._runs = runs
        frames = list(chain.from_iterable(run.frames for run in runs))
        of_class: defaultdict[type, list[int]] = defaultdict(list)
        for row, frame in enumerate(frames):
            of_class[frame.__class__].append(row)
        self._count = len(frames)
        self._groups = {
            kind: _Group(rows, list(map(frames.__getitem__, rows)))
            for kind, rows in of_class.items()
        }
        rows_of_groups = arrow.array([*chain.from_iterable(of_class.values())], arrow.int32())
        self._order = self._compute.sort_indices(rows_of_groups)
        sizes = [len(run.frames) for run in runs]
        self._firsts = list(accumulate(sizes[:-1], initial=0))  # rows of the first frames
        places: list[int] = []
        for place, size in enumerate(sizes):
            places += (place,) * size
        self._run_of_row = places
        self._runs_of_rows = arrow.array(places, arrow.int32())

    def array(self, column: Column) -> pa.Array:
        """One column."""
        if column.type is Type.TIME:
            return times(self._of_runs(column.field, Type.INTEGER))
        if column.name == "number":
            return self._numbers()
        if column.name in _OF_RUNS:
            return self._of_runs(column.field, column.type)
        if column.name in ROW_COLUMNS:
            return self._of_records(column)
        made = self._of_frames(column)
        return self._with_accounts(made) if column.name == "account" else made

    def _of_runs(self, field: str, type_: Type) -> pa.Array:
        return array(type_, list(map(attrgetter(field), self._runs))).take(self._runs_of_rows)

    def _numbers(self) -> pa.Array:
        """The number of a run's first frame, and one more for each frame after it."""
        arrow = pyarrow()
        starts = [run.number - first - 1 for run, first in zip(self._runs, self._firsts)]
        ones = arrow.repeat(arrow.scalar(1, arrow.int64()), self._count)
        return self._compute.add(
            array(Type.INTEGER, starts).take(self._runs_of_rows), self._compute.cumulative_sum(ones)
        )

    def _of_frames(self, column: Column) -> pa.Array:
        arrow = pyarrow()
        parts = []
        found = False
        for kind, group in self._groups.items():
            cells = cells_of(kind, column.name)
            if cells is None:
                parts.append(arrow.nulls(len(group.frames), arrow_type(column.type)))
                continue
            found = True
            values = cells(group.frames)
            is_text = column.type is Type.TEXT and column.name != "op"
            parts.append(
                wire_texts(cast("list[bytes | None]", values))
                if is_text
                else array(column.type, cast(list[Value], values))
            )
        if not found:
            return arrow.nulls(self._count, arrow_type(column.type))
        return arrow.concat_arrays(parts).take(self._order)

    def _with_accounts(self, named: pa.Array) -> pa.Array:
        """Frames that could name an account and do not belong to the account of the route."""
        if not any(run.account for run in self._runs):
            return named
        cells: list[Value] = [None] * self._count
        for kind, group in self._groups.items():
            if cells_of(kind, "account"):
                for row in group.rows:
                    cells[row] = self._runs[self._run_of_row[row]].account or None
        return self._compute.coalesce(named, array(Type.TEXT, cells))

    def _of_records(self, column: Column) -> pa.Array:
        records = self._records
        if not records:
            return pyarrow().nulls(self._count, arrow_type(column.type))
        cells: list[Value] = [None] * self._count
        get = attrgetter(column.field)
        for row, record in records.items():
            cells[row] = get(record)
        return array(column.type, cells)

    @cached_property
    def _records(self) -> dict[int, FrameRecord]:
        """The records of the frames that may have more to say, by their rows."""
        rows: list[int] = []
        for run, first in zip(self._runs, self._firsts):
            if run.facts:
                places = (number - run.number for number in run.facts)
                rows += (first + place for place in places if 0 <= place < len(run.frames))
        shown = any(run.payload is not Payload.NONE for run in self._runs)
        for kind, group in self._groups.items():
            if shown and issubclass(kind, Message):
                rows += group.rows
            elif sizes := cells_of(kind, "header_bytes"):
                rows += compress(group.rows, sizes(group.frames))
        records = {}
        for row in rows:
            place = self._run_of_row[row]
            at = row - self._firsts[place]
            (records[row],) = rows_of(self._runs[place].part(at, at + 1))
        return records
