"""The log of the files that a stream reads, in order. An entry is written before its files are read, and
never changed.

Entry k brings a stream from offset k-1 to k. So a batch that runs again, after a restart or a failure,
reads the same bytes, even if the folder has changed meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass

from ...capture import FileReport
from ...capture.files import contents, matches, size_and_mtime
from ...capture.sources import read_file
from ...errors import CaptureError, SparkError
from ...types import EARLIEST_NS
from .state_store import StateStore

_ABOUT = "about.json"
_ENTRY = "entry-{:09}.json"
# A program that has begun the next file may still write its buffers to the file before for this long.
_CLOSING_NS = 5 * 10**9


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A capture file as it was logged: bytes after `size` are not read. `late` is whether it begins
    earlier than a file that was logged before."""

    path: str
    size: int
    first_ns: int
    late: bool = False


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One step of a stream: `files` in the order of their first packets, and files of earlier steps that
    have `grown`, with their new sizes."""

    files: tuple[LoggedFile, ...]
    grown: tuple[LoggedFile, ...] = ()


class FileLog:
    """The entries of a stream, numbered from 1. `about` describes everything else that its rows
    depend on."""

    def __init__(self, store: StateStore, about: str) -> None:
        self._store = store
        self._about = about
        self._entries: list[LogEntry] = []
        self._taken: dict[str, LoggedFile] = {}
        self._latest_ns = EARLIEST_NS
        # For files that are not logged yet: the size at which the first packet was looked for, and its time.
        self._heads: dict[str, tuple[int, int | None]] = {}

    def entries(self) -> Sequence[LogEntry]:
        """All entries. Raises SparkError if the log was written for a stream with other options or of
        another version."""
        if not self._entries:
            known = self._store.read(_ABOUT)
            if known is not None and known.decode() != self._about:
                raise SparkError(
                    "the folder of states belongs to a stream with other options, or of another version",
                    "start again with another checkpoint and another folder of states",
                )
        while (found := self._store.read(_ENTRY.format(len(self._entries) + 1))) is not None:
            values = json.loads(found)
            files, grown = (tuple(LoggedFile(**one) for one in values[name]) for name in values)
            self._learn(LogEntry(files, grown))
        return self._entries

    def record(self, paths: Sequence[str], now_ns: int, settle_ns: int) -> LogEntry | None:
        """Adds an entry if there are new files in the folders, or among the files, that `paths` name."""
        self.entries()
        sizes = dict(_listed(paths))
        entry = LogEntry(
            tuple(self._settled(sizes, now_ns, settle_ns)),
            tuple(
                LoggedFile(path, sizes[path][0], known.first_ns)
                for path, known in self._taken.items()
                if path in sizes and sizes[path][0] > known.size
            ),
        )
        if not entry.files and not entry.grown:
            return None
        if not self._entries:
            self._store.write(_ABOUT, self._about.encode())
        content = json.dumps(asdict(entry), indent=1).encode()
        self._store.write(_ENTRY.format(len(self._entries) + 1), content)
        self._learn(entry)
        return entry

    def _settled(
        self, sizes: Mapping[str, tuple[int, int]], now_ns: int, settle_ns: int
    ) -> Iterator[LoggedFile]:
        """New files that are no longer being written, in the order of their first packets."""
        heads = [
            (first_ns, path)
            for path, (size, _) in sizes.items()
            if path not in self._taken and (first_ns := self._first_ns(path, size)) is not None
        ]
        newest = max([self._latest_ns, *(first_ns for first_ns, _ in heads)])
        for first_ns, path in sorted(heads):
            size, changed_ns = sizes[path]
            wait_ns = settle_ns if first_ns == newest else min(settle_ns, _CLOSING_NS)
            if now_ns - changed_ns >= wait_ns:
                yield LoggedFile(path, size, first_ns, late=first_ns < self._latest_ns)

    def _first_ns(self, path: str, size: int) -> int | None:
        """The time of the first packet; None without packets, or if the file is not a capture (yet)."""
        known = self._heads.get(path)
        if known is None or known[0] != size:
            first = None
            with suppress(CaptureError), closing(read_file(path, FileReport(path, ""))) as packets:
                for run in packets:
                    first = run.places[0][0]
                    break
            known = self._heads[path] = size, first
        return known[1]

    def _learn(self, entry: LogEntry) -> None:
        self._entries.append(entry)
        for one in (*entry.files, *entry.grown):
            self._taken[one.path] = one
            self._heads.pop(one.path, None)
            self._latest_ns = max(self._latest_ns, one.first_ns)


def _listed(paths: Sequence[str]) -> Iterator[tuple[str, tuple[int, int]]]:
    """The files that exist now, with their sizes and times of change."""
    for path in paths:
        found = contents(path)
        if found is None:
            found = matches(path)
        for file in [path] if found is None else found:
            with suppress(CaptureError):  # gone meanwhile, or not there yet
                yield file, size_and_mtime(file)
