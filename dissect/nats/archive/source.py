"""Where the packets of an archive come from: folders of captures, or standard input. Each is a timeline:
flows go on from one of its files to the next."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterator
from dataclasses import replace

from ..capture import CaptureReport, FileReport, read_runs
from ..capture.sources import STDIN
from ..engine.session_tables import ReleasedRows
from ..options import Options
from ..output.sink import say
from ..partition.complete_files import NewFiles, TakenFile, check_there, listed
from ..partition.continued import ContinuedDissection
from ..types import Packets
from .record import ArchiveCounts, SourceRecord

# Batches are bounded, because one that a killed process left is read again; and far fewer files may overlap
# than a process can have open.
_BATCH_BYTES = 256 << 20
_BATCH_FILES = 100


class ArchiveSource(ABC):
    """A source of packets. The record of the archive calls it `name`; `ended` is whether nothing more can
    come. `counts` is updated as rows are taken."""

    ended = False

    def __init__(
        self, name: str, tables: Collection[str], options: Options, counts: ArchiveCounts
    ) -> None:
        self.name = name
        self._tables = tables
        self._options = options
        self._counts = counts
        self._dissection = self._new()

    @abstractmethod
    def batch(self) -> Generator[ReleasedRows, None, None] | None:
        """The rows of the next batch; None if there is nothing new."""

    @abstractmethod
    def lag_ns(self) -> int:
        """How far the archive is behind the source."""

    @property
    def newest_ns(self) -> int | None:
        """When the newest file that was read was changed."""
        return None

    def resume(self, record: SourceRecord, state: bytes | None) -> None:
        """Goes on from the end of an earlier batch."""
        if state is not None:
            self._dissection.load(state)

    def record(self, state: str) -> tuple[SourceRecord, bytes]:
        """What is known now, and the state of open flows, which is stored under the name `state`."""
        return SourceRecord(state), self._dissection.save()

    def finish(self) -> Generator[ReleasedRows, None, None]:
        """The rows of open flows; the next packets begin new ones."""
        yield from self._dissection.finish()
        self._count_undecoded()
        self._dissection = self._new()

    def _new(self) -> ContinuedDissection:
        return ContinuedDissection(self._tables, self._options, say, self._lose)

    def _lose(self, text: str) -> None:
        self._counts.totals["lost_files"] += 1
        say(f"{text}; what was not read of it is lost")

    def _count_undecoded(self) -> None:
        self._counts.undecoded.update(self._dissection.passed_over)
        self._dissection.passed_over.clear()

    def _count_damage(self, file: FileReport) -> None:
        if file.damage:
            self._counts.totals["damaged_files"] += 1
            say(f"{file.path}: {file.damage}")


class CaptureFolder(ArchiveSource):
    """A folder of captures, or a pattern of their names. The newest file is complete when it has not changed
    for `settle_ns`."""

    def __init__(
        self,
        path: str,
        tables: Collection[str],
        options: Options,
        counts: ArchiveCounts,
        settle_ns: int,
    ) -> None:
        check_there([path])
        super().__init__(os.path.abspath(path), tables, options, counts)
        self._settle_ns = settle_ns
        self._known = SourceRecord().complete_files()
        self._refused: set[str] = set()

    def resume(self, record: SourceRecord, state: bytes | None) -> None:
        """Goes on from the end of an earlier batch."""
        super().resume(record, state)
        self._known = record.complete_files()
        self._refused = set(record.refused)

    def record(self, state: str) -> tuple[SourceRecord, bytes]:
        """What is known now, and the state of open flows."""
        _, content = super().record(state)
        taken = list(self._known.taken.values())
        return SourceRecord(state, self._known.latest_ns, taken, sorted(self._refused)), content

    def batch(self) -> Generator[ReleasedRows, None, None] | None:
        """The rows of the files that are complete now."""
        now_ns = time.time_ns()
        new = _bounded(self._known.new([self.name], now_ns, self._settle_ns))
        self._known.forget_all_but([path for path, _ in listed([self.name])])
        refused = dict(self._known.refused(now_ns, self._settle_ns))
        for path in refused.keys() - self._refused:
            say(f"{refused[path]}; it is passed over")
            self._counts.totals["refused_files"] += 1
        self._refused = set(refused)
        return self._rows(new) if new else None

    def lag_ns(self) -> int:
        """The time from the last change of the newest file that was read to that of the newest file."""
        changed = [when for _, (_, when) in listed([self.name])]
        if not changed:
            return 0
        read_ns = self.newest_ns
        return max(0, max(changed) - (min(changed) if read_ns is None else read_ns))

    @property
    def newest_ns(self) -> int | None:
        """When the newest file that was read was changed."""
        return max((one.changed_ns for one in self._known.taken.values()), default=None)

    def _rows(self, new: NewFiles) -> Generator[ReleasedRows, None, None]:
        for one in new.grown:
            say(f"{one.path} has grown since it was read; what was added is read now")
        for one in new.files:
            if one.late:
                say(f"{one.path} came late, and is read by itself: flows do not go on into it")
        report = CaptureReport()
        yield from self._dissection.files(NewFiles((*new.grown, *new.files)), report)
        self._count(new, report)
        read = {file.path: file.packets for file in report.files}
        files, grown = (
            tuple(replace(one, packets=read[one.path]) for one in some if one.path in read)
            for some in (new.files, new.grown)
        )
        self._known.learn(NewFiles(files, grown))

    def _count(self, new: NewFiles, report: CaptureReport) -> None:
        totals = self._counts.totals
        totals["files"] += len(new.files)
        totals["late_files"] += sum(one.late for one in new.files)
        totals["grown_files"] += len(new.grown)
        totals["bytes"] += sum(one.size for one in new.files)
        totals["bytes"] += sum(one.size - self._known.taken[one.path].size for one in new.grown)
        totals["packets"] -= sum(one.packets for one in new.grown)
        for file in report.files:
            totals["packets"] += file.packets
            totals["dropped_by_capture"] += file.dropped
            self._count_damage(file)
        self._count_undecoded()


class StandardInput(ArchiveSource):
    """Standard input, in batches of `every` seconds while packets come."""

    def __init__(
        self, tables: Collection[str], options: Options, counts: ArchiveCounts, every: float
    ) -> None:
        super().__init__(STDIN, tables, options, counts)
        self._every = every
        self._report = CaptureReport()
        self._blocks: Generator[Packets, None, None] | None = None

    def batch(self) -> Generator[ReleasedRows, None, None] | None:
        """The rows of the packets that come now. Waits for the first one."""
        if self._blocks is None:
            expanded, embedded = self._options.max_expanded, self._dissection.embedded
            self._blocks = read_runs([STDIN], self._report, expanded, embedded=embedded)
        first = next(self._blocks, None)
        if first is None:
            self.ended = True
            for file in self._report.files:
                self._count_damage(file)
                self._counts.totals["dropped_by_capture"] += file.dropped
            return None
        return self._rows(first, self._blocks)

    def lag_ns(self) -> int:
        """Nothing: what was not read is in the pipe."""
        return 0

    def _rows(
        self, first: Packets, blocks: Iterator[Packets]
    ) -> Generator[ReleasedRows, None, None]:
        (file,) = self._report.files
        packets, position = file.packets - len(first.places), file.position

        def some() -> Iterator[Packets]:
            until = time.monotonic() + self._every
            yield first
            while time.monotonic() < until and (block := next(blocks, None)):
                yield block

        yield from self._dissection.packets(some())
        self._counts.totals["packets"] += file.packets - packets
        self._counts.totals["bytes"] += file.position - position
        self._count_undecoded()


def _bounded(new: NewFiles) -> NewFiles:
    """As many of these files as one batch has, the first ones."""
    size = 0
    kept: list[TakenFile] = []
    for one in new.files:
        size += one.size
        if kept and (size > _BATCH_BYTES or len(kept) == _BATCH_FILES):
            break
        kept.append(one)
    return NewFiles(tuple(kept), new.grown[:_BATCH_FILES])
