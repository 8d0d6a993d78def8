"""Decides which capture files of growing folders are complete, and in which order they are read.

Files are read in the order of their first packets. The newest file is complete when it has not changed for as
long as the caller waits, an older one when it has not changed for five seconds, because a capture program
begins the next file before it has written the last bytes of the one before. A file that begins before a file
that was taken earlier, or in the future, is *late*: flows do not go on into it. A name whose file begins at
another time than before is a new file, as in a ring of captures.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field

from ..capture import FileReport
from ..capture.files import contents, matches, size_and_mtime
from ..capture.sources import read_file
from ..errors import CaptureError
from ..storage import is_uri
from ..types import EARLIEST_NS

# A program that has begun the next file may still write its buffers to the file before for this long.
_CLOSING_NS = 5 * 10**9
# A file that begins further in the future has a wrong clock.
_FUTURE_NS = 86_400 * 10**9


@dataclass(frozen=True, slots=True)
class TakenFile:
    """A capture file as it was taken: bytes after `size` are not read. `late` is explained above,
    `changed_ns` is when the file was last changed, and `packets` is how many packets of it were read at an
    earlier size."""

    path: str
    size: int
    first_ns: int
    late: bool = False
    changed_ns: int = field(default=0, compare=False)
    packets: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class NewFiles:
    """What is complete at some time: `files` in the order of their first packets, and taken files that have
    `grown`, with their new sizes."""

    files: tuple[TakenFile, ...]
    grown: tuple[TakenFile, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.files or self.grown)


@dataclass(frozen=True, slots=True)
class _Beginning:
    """The beginning of a file that had this size and time of change: the time of its first packet, or why it
    has none."""

    size: int
    changed_ns: int
    first_ns: int | None
    reason: str


class CompleteFiles:
    """The files that were `taken`, by path, and the latest time at which one begins."""

    def __init__(self) -> None:
        self.taken: dict[str, TakenFile] = {}
        self.latest_ns = EARLIEST_NS
        self._heads: dict[str, _Beginning] = {}

    def new(self, paths: Sequence[str], now_ns: int, settle_ns: int) -> NewFiles:
        """What is complete in the folders, or among the files, that `paths` name, and was not taken yet."""
        sizes = dict(listed(paths))
        heads = {
            path: self._head(path, *sizes[path]) for path in sizes if self._may_be_new(path, sizes)
        }
        begins = sorted(
            (head.first_ns, path) for path, head in heads.items() if head.first_ns is not None
        )
        plausible = [first_ns for first_ns, _ in begins if first_ns <= now_ns + _FUTURE_NS]
        newest = max([self.latest_ns, *plausible])
        files, grown = [], []
        for first_ns, path in begins:
            size, changed_ns = sizes[path]
            wait_ns = settle_ns if first_ns >= newest else min(settle_ns, _CLOSING_NS)
            if now_ns - changed_ns < wait_ns:
                continue
            known = self.taken.get(path)
            late = first_ns < self.latest_ns or first_ns > now_ns + _FUTURE_NS
            if known is None or known.first_ns != first_ns:
                files.append(TakenFile(path, size, first_ns, late, changed_ns))
            elif size > known.size:
                grown.append(TakenFile(path, size, first_ns, late, changed_ns, known.packets))
        return NewFiles(tuple(files), tuple(grown))

    def learn(self, new: NewFiles) -> None:
        """Counts these files as taken."""
        for one in (*new.files, *new.grown):
            self.taken[one.path] = one
            self._heads.pop(one.path, None)
        for one in new.files:
            if not one.late:
                self.latest_ns = max(self.latest_ns, one.first_ns)

    def forget_all_but(self, paths: Collection[str]) -> None:
        """Forgets files that are no longer there."""
        for known in (self.taken, self._heads):
            for path in known.keys() - set(paths):
                del known[path]

    def refused(self, now_ns: int, settle_ns: int) -> Iterator[tuple[str, str]]:
        """The files that do not change any more and have no packet, each with the reason."""
        for path, head in self._heads.items():
            if head.reason and now_ns - head.changed_ns >= settle_ns:
                yield path, head.reason

    def _may_be_new(self, path: str, sizes: Mapping[str, tuple[int, int]]) -> bool:
        known = self.taken.get(path)
        return known is None or (known.size, known.changed_ns) != sizes[path]

    def _head(self, path: str, size: int, changed_ns: int) -> _Beginning:
        known = self._heads.get(path)
        if known is None or (known.size, known.changed_ns) != (size, changed_ns):
            known = self._heads[path] = _Beginning(size, changed_ns, *_first_ns(path))
        return known


def _first_ns(path: str) -> tuple[int | None, str]:
    """The time of the first packet, or None and why there is none: the file may not be a capture (yet)."""
    try:
        with closing(read_file(path, FileReport(path, ""))) as packets:
            for run in packets:
                return run.places[0][0], ""
    except CaptureError as error:
        return None, str(error)
    return None, ""


def check_there(paths: Sequence[str]) -> None:
    """Raises CaptureError for a local path that is neither there nor a pattern. An object storage has no
    folder before there is a file in it."""
    for path in paths:
        if not (is_uri(path) or os.path.exists(path)) and matches(path) is None:
            raise CaptureError(path, "no such file or folder", "make it before captures come")


def listed(paths: Sequence[str]) -> Iterator[tuple[str, tuple[int, int]]]:
    """The files that exist now, with their sizes and times of change."""
    for path in paths:
        found = contents(path)
        if found is None:
            found = matches(path)
        for file in [path] if found is None else found:
            with suppress(CaptureError):  # gone meanwhile, or not there yet
                yield file, size_and_mtime(file)
