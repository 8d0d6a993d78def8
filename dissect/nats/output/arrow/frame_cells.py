"""Runs of frames -> the cells of their rows, packed by column, without a record for each row.

Cells are taken out of some hundred frames at a time, while these are in the processor's caches, and the
frames are freed. Values that the frames of a run have in common are stored once per run. Only frames that
have headers, JSON, an error, a payload that is shown or an anomaly get a record, for its cells.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, compress, repeat
from operator import attrgetter
from typing import NamedTuple

from natsync.protocol import Frame, Message

from ...engine.frame_rows import ROW_COLUMNS, CellMaker, cells_of, rows_of
from ...engine.frame_runs import FrameRun, RunLabels
from ...options import Payload
from ...schema.declaration import Column, Type
from ...schema.records import FrameRecord
from .packed_cells import Numbers, PackedCells, Texts, Values

LABELS = frozenset({"session", "capture", "sender", "kind"})
"""Columns that the rows of runs with the same labels have in common."""
_OF_RUNS = frozenset({"number", "ts_ns", "time", "packet"})
_NUMBERS = frozenset({"total_bytes", "offset", "payload_bytes"})  # these are never absent


class ClassColumn(NamedTuple):
    """A column of the frames of one class. `make` takes the cells out of frames."""

    make: CellMaker
    cells: PackedCells


class ClassCells:
    """The frames of one class: their number, and their cells by column. `code` stands for the class in
    `FrameCells.codes`."""

    def __init__(self, kind: type, code: int, columns: Iterable[Column]) -> None:
        self.op = str(getattr(kind, "op"))
        self.code = code
        self.count = 0
        self.columns: dict[str, ClassColumn] = {}
        for column in columns:
            if make := cells_of(kind, column.name):
                self.columns[column.name] = ClassColumn(make, _packed(column))

    def add(self, frames: list[Frame], accounts: Sequence[str]) -> None:
        """Takes the cells of frames. `accounts` has the account to which each frame's route is dedicated, if
        any is: a frame that could name an account, but does not, belongs to it."""
        self.count += len(frames)
        for name, (make, packed) in self.columns.items():
            cells = make(frames)
            if accounts and name == "account":
                dedicated = (each.encode("utf-8", "backslashreplace") for each in accounts)
                cells = [cell or account for cell, account in zip(cells, dedicated)]
            packed.add(cells)


def _packed(column: Column) -> PackedCells:
    if column.type is Type.TEXT:
        return Texts()
    return Numbers() if column.name in _NUMBERS else Values(column.type)


class _Codes(dict[RunLabels, int]):
    """Numbers labels in the order of their first use."""

    def __missing__(self, labels: RunLabels) -> int:
        code = self[labels] = len(self)
        return code


class FrameCells:
    """The cells of all frames of the runs that `add` takes. Rows are numbered from 0, as they come.

    These have one entry per run: `sizes` (the number of its frames), `numbers`, `times_ns`, `packets`, and
    `labels_of_runs` (indices into `labels`). `codes` has one entry per row: the index of its frame's class in
    `classes`, which hold the cells. `record_rows` are the rows that have a value in one of `record_columns`,
    and each of these columns has one cell for each of those rows.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self.rows = 0
        self.sizes: list[int] = []
        self.numbers, self.times_ns, self.packets = Numbers(), Numbers(), Numbers()
        self.labels_of_runs = Numbers()
        self.labels = _Codes()
        self.codes = bytearray()
        self.classes: list[ClassCells] = []
        self.record_rows: list[int] = []
        some = [column for column in columns if column.name in ROW_COLUMNS]
        self.record_columns = {column.name: Values(column.type) for column in some}
        elsewhere = _OF_RUNS | LABELS | ROW_COLUMNS | {"op"}
        self._columns = [column for column in columns if column.name not in elsewhere]
        self._by_class: dict[type, ClassCells] = {}

    @property
    def text_bytes(self) -> int:
        """The size of the texts."""
        columns = (column.cells for each in self.classes for column in each.columns.values())
        return sum(len(cells) for cells in columns if isinstance(cells, Texts))

    def add(self, runs: Sequence[FrameRun]) -> None:
        """Takes the cells of the frames of one or more runs; a few hundred runs at once are fastest."""
        labels, numbers, times_ns, packets, frames_of, facts = zip(*runs)
        self.labels_of_runs.add([self.labels[each] for each in labels])
        self.numbers.add(numbers)
        self.times_ns.add(times_ns)
        self.packets.add(packets)
        sizes = list(map(len, frames_of))
        frames: list[Frame] = list(chain.from_iterable(frames_of))
        kinds = list(map(type, frames))
        groups: dict[type, list[Frame]] = {kind: [] for kind in set(kinds)}
        append = {kind: group.append for kind, group in groups.items()}
        for kind, frame in zip(kinds, frames):
            append[kind](frame)
        codes = {kind: self._class(kind).code for kind in groups}
        self.codes += bytes([codes[kind] for kind in kinds])
        dedicated = any([each.account for each in set(labels)])
        of_runs = [each.account for each in labels] if dedicated else []
        of_frames = list(chain.from_iterable(map(repeat, of_runs, sizes)))
        for kind, group in groups.items():
            accounts = [*compress(of_frames, [each is kind for each in kinds])] if dedicated else []
            self._by_class[kind].add(group, accounts)
        if self.record_columns:
            shown = any([each.payload is not Payload.NONE for each in set(labels)])
            wanted = _kinds_with_records(groups, shown)
            if wanted or any(facts):
                self._add_records(runs, sizes, frames, wanted)
        self.sizes += sizes
        self.rows += len(frames)

    def _class(self, kind: type) -> ClassCells:
        cells = self._by_class.get(kind)
        if cells is None:
            cells = self._by_class[kind] = ClassCells(kind, len(self.classes), self._columns)
            self.classes.append(cells)
        return cells

    def _add_records(
        self,
        runs: Sequence[FrameRun],
        sizes: Sequence[int],
        frames: Sequence[Frame],
        kinds: set[type],
    ) -> None:
        """Makes records of the frames of these classes and of frames with facts, and takes their cells."""
        found = [at for at, frame in enumerate(frames) if frame.__class__ in kinds] if kinds else []
        firsts = list(accumulate(sizes, initial=0))
        for run, first, size in zip(runs, firsts, sizes):
            if run.facts:
                places = (number - run.number for number in run.facts)
                found += (first + at for at in places if 0 <= at < size)
        if not found:
            return
        records: list[FrameRecord] = []
        for row in sorted(set(found)):
            place = bisect_right(firsts, row) - 1
            at = row - firsts[place]
            records += rows_of(runs[place].part(at, at + 1))
            self.record_rows.append(self.rows + row)
        for name, cells in self.record_columns.items():
            cells.add(list(map(attrgetter(name), records)))


def _kinds_with_records(kinds: Iterable[type], shown: bool) -> set[type]:
    """The classes of frames that may have headers or, if payloads are `shown`, have a payload."""
    if shown:
        return {kind for kind in kinds if issubclass(kind, Message)}
    return {kind for kind in kinds if cells_of(kind, "header_bytes")}
