"""Fills an archive: batch after batch, each of them in the archive whole or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing
from select import select
from time import time_ns

from ..capture.sources import STDIN
from ..engine.same_sessions import with_same_sessions
from ..engine.session_tables import ReleasedRows
from ..number_formats import count_text
from ..output.arrow.released import add_batches
from ..output.day_files import WrittenFile
from ..output.sink import Fault, say
from ..version import version
from .arguments import ArchiveOptions
from .expiry import expire
from .folder import ArchiveFolder
from .metrics import metrics_text, write_metrics
from .record import ArchiveRecord
from .source import ArchiveSource, CaptureFolder, StandardInput

_FORMAT = 1  # of the record
_DAMAGED = ("damaged_files", "lost_files")

_BatchRows = Generator[ReleasedRows, None, None]


class Archiving:
    """The filling of the archive in `folder`. Raises Fault if its state does not go with the options."""

    def __init__(self, options: ArchiveOptions, folder: ArchiveFolder) -> None:
        self._options = options
        self._folder = folder
        about = f"{_FORMAT} {version()} {' '.join(options.tables)} {options.dissection}"
        self._record = folder.recover() or ArchiveRecord(about)
        self._before = Counter(self._record.counts.totals)
        self._sources = self._opened(self._record.about == about)
        self._record.about = about
        folder.make_tables(options.tables)

    def run(self) -> None:
        """Adds batches until the end of the input, or until a signal ends the process."""
        options = self._options
        while True:
            rows = [(source, source.batch()) for source in self._sources]
            new = [(source, some) for source, some in rows if some is not None]
            if new:
                self._add(new)
            self._keep_house()
            if new:
                continue
            if options.once or options.finish or all(source.ended for source in self._sources):
                break
            select([], [], [], options.every)
        if options.finish:
            self._add([(source, source.finish()) for source in self._sources], finished=True)
            self._keep_house()

    @property
    def is_damaged(self) -> bool:
        """Whether this run met a capture that was damaged, or that could not be read."""
        added = self._record.counts.totals - self._before
        return any(added[name] for name in _DAMAGED)

    def _keep_house(self) -> None:
        """Removes what is too old, and writes the counters."""
        options, counts = self._options, self._record.counts
        if options.keep is not None:
            counts.totals["expired_files"] += expire(self._folder.out, options.keep, time_ns())
        if options.metrics is not None:
            lag_ns = {source.name: source.lag_ns() for source in self._sources}
            newest = [source.newest_ns for source in self._sources]
            newest_ns = max((each for each in newest if each is not None), default=None)
            write_metrics(options.metrics, metrics_text(counts, lag_ns, newest_ns))

    def _opened(self, same: bool) -> list[ArchiveSource]:
        """The sources, as the last batch left them. `same` is whether it had the same options."""
        options, counts = self._options, self._record.counts
        dissection, sources = options.dissection, list[ArchiveSource]()
        for path in dict.fromkeys(options.captures):
            if path == STDIN:
                source: ArchiveSource = StandardInput(
                    options.tables, dissection, counts, options.every
                )
            else:
                source = CaptureFolder(path, options.tables, dissection, counts, options.settle_ns)
            if known := self._record.sources.get(source.name):
                state = self._folder.read(known.state) if known.state else None
                if known.state and state is None:
                    say(f"{source.name}: its state is gone: connections that were open begin anew")
                if state is not None and not same:
                    raise Fault(
                        f"{options.out}: connections are open that another version, or one with other"
                        " options, has read; run it as before with --finish, or remove the files"
                        f" {self._folder.own}/state-*: these connections then begin anew"
                    )
                source.resume(known, state)
            sources.append(source)
        return sources

    def _add(self, new: Sequence[tuple[ArchiveSource, _BatchRows]], finished: bool = False) -> None:
        """Adds a batch with the rows of these sources; `finished` if no flow is open then."""
        record, begin = self._record, Counter(self._record.counts.totals)
        number = record.number + 1
        files = self._folder.files(number)
        for _, rows in new:
            with closing(rows):
                add_batches(with_same_sessions(rows), self._options.tables, files.add)
        files.close()
        states = {}
        for place, (source, _) in enumerate(new):
            state = "" if finished else f"state-{number:09}-{place}.pickle"
            record.sources[source.name], content = source.record(state)
            if state:
                states[state] = content
        for one in files.written:
            record.counts.rows[one.table] += one.rows
        record.number = number
        record.counts.totals["batches"] += 1
        self._folder.commit(record, files.written, states)
        say(_summary(number, record.counts.totals - begin, files.written))


def _summary(number: int, added: Counter[str], written: Sequence[WrittenFile]) -> str:
    """What a batch added, as one line."""
    rows = count_text(sum(one.rows for one in written), "row")
    files, packets = count_text(added["files"], "file"), count_text(added["packets"], "packet")
    return f"batch {number}: {files}, {packets}, {rows}"
