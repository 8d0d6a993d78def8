"""Runs of frames -> the cells of their rows, in lists, a column at a time and without a record for each row.

Cells are taken out of frames as soon as these come, while they are in the processor's caches, and the frames
are freed: what waits are lists of numbers and bytes, which the garbage collector does not visit. Values that
the frames of a run have in common are stored once a run. Only frames that have headers, JSON, an error, a
payload that is shown or an anomaly get a record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate, chain, compress, repeat
from typing import NamedTuple

from natsync.protocol import Frame, Message

from ..engine.frame_rows import ROW_COLUMNS, Cells, cells_of, rows_of
from ..engine.frame_runs import FrameRun
from ..options import Payload
from ..records import FrameRecord, Value

RUN_COLUMNS = frozenset({"session", "ts_ns", "time", "packet", "capture", "sender", "kind"})
"""Columns that the rows of a run have in common."""

_FramesOf = dict[type, list[Frame]]


class Column(NamedTuple):
    """The cells of a column for the frames of one class. `make` takes them out of frames."""

    make: Cells
    cells: list[Value | bytes]


class FrameCells:
    """The cells of all frames of the runs that `add` takes.

    One entry for each run: `sessions`, `numbers` and so on, and `sizes`, the number of its frames. One entry
    for each frame of a class: `rows_of`, its row, and `columns_of`, its cells. `records` has the records
    that were made, by their rows. Rows are numbered from 0, in the order in which they come.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.sessions: list[str] = []
        self.numbers: list[int] = []
        self.times_ns: list[int] = []
        self.packets: list[int] = []
        self.captures: list[str] = []
        self.senders: list[str] = []
        self.kinds: list[str] = []
        self.sizes: list[int] = []
        self.rows_of: defaultdict[type, list[int]] = defaultdict(list)
        self.columns_of: dict[type, dict[str, Column]] = {}
        self.records: dict[int, FrameRecord] = {}
        self.rows = 0
        self._names = [name for name in columns if name not in RUN_COLUMNS]
        self._wants_records = not ROW_COLUMNS.isdisjoint(columns)

    def add(self, runs: Sequence[FrameRun]) -> None:
        """Takes the cells of the frames of some runs, a few hundred at best."""
        if not runs:
            return
        fields = zip(*runs)
        sessions, numbers, times_ns, packets, captures, senders, kinds, accounts, frames, *_ = (
            fields
        )
        self.sessions += sessions
        self.numbers += numbers
        self.times_ns += times_ns
        self.packets += packets
        self.captures += captures
        self.senders += senders
        self.kinds += kinds
        sizes = list(map(len, frames))
        self.sizes += sizes
        first, rows_of = self.rows, self.rows_of
        frames_of: defaultdict[type, list[Frame]] = defaultdict(list)
        for row, frame in enumerate(chain.from_iterable(frames), first):
            rows_of[frame.__class__].append(row)
            frames_of[frame.__class__].append(frame)
        self.rows += sum(sizes)
        for kind, some in frames_of.items():
            for make, cells in self._columns(kind).values():
                cells += make(some)
        if any(accounts):
            self._add_accounts(frames_of, list(chain.from_iterable(map(repeat, accounts, sizes))))
        if self._wants_records:
            self._add_records(runs, sizes, frames_of, first)

    def _columns(self, kind: type) -> dict[str, Column]:
        """The columns of the frames of this class that depend on the frame."""
        columns = self.columns_of.get(kind)
        if columns is None:
            makers = [(name, cells_of(kind, name)) for name in self._names]
            columns = {name: Column(make, []) for name, make in makers if make}
            self.columns_of[kind] = columns
        return columns

    def _add_accounts(self, frames_of: _FramesOf, accounts: Sequence[str]) -> None:
        """Adds the account to which the route is dedicated where a frame could name one and does not."""
        first = self.rows - len(accounts)
        for kind, frames in frames_of.items():
            column = self.columns_of[kind].get("account")
            if column:
                rows, cells = self.rows_of[kind], column.cells
                for at in range(-len(frames), 0):
                    account = accounts[rows[at] - first]
                    cells[at] = cells[at] or account.encode("utf-8", "backslashreplace") or None

    def _add_records(
        self, runs: Sequence[FrameRun], sizes: Sequence[int], frames_of: _FramesOf, first: int
    ) -> None:
        """Makes the records of the frames that may have more to say."""
        shown = any([run.payload is not Payload.NONE for run in runs])
        rows: list[int] = []
        for kind, frames in frames_of.items():
            if shown and issubclass(kind, Message):
                rows += self.rows_of[kind][-len(frames) :]
            elif header_bytes := cells_of(kind, "header_bytes"):
                rows += compress(self.rows_of[kind][-len(frames) :], header_bytes(frames))
        firsts = list(accumulate(sizes, initial=first))
        for run, start, size in zip(runs, firsts, sizes):
            if run.facts:
                found = (number - run.number for number in run.facts)
                rows += (start + at for at in found if 0 <= at < size)
        if not rows:
            return
        places = list(chain.from_iterable(map(repeat, range(len(runs)), sizes)))
        for row in rows:
            place = places[row - first]
            at = row - firsts[place]
            (self.records[row],) = rows_of(runs[place].part(at, at + 1))
