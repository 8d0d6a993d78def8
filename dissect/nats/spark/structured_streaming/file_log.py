"""The log of the files that a stream reads, in order. An entry is written before its files are read, and
never changed.

Entry k brings a stream from offset k-1 to k. So a batch that runs again, after a restart or a failure,
reads the same bytes, even if the folder has changed meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from ...errors import SparkError
from ...partition.complete_files import CompleteFiles, NewFiles, TakenFile
from .state_store import StateStore

_ABOUT = "about.json"
_ENTRY = "entry-{:09}.json"


class FileLog:
    """The entries of a stream, numbered from 1. `about` describes everything else that its rows
    depend on."""

    def __init__(self, store: StateStore, about: str) -> None:
        self._store = store
        self._about = about
        self._entries: list[NewFiles] = []
        self._complete = CompleteFiles()

    def entries(self) -> Sequence[NewFiles]:
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
            files, grown = (tuple(TakenFile(**one) for one in values[name]) for name in values)
            self._learn(NewFiles(files, grown))
        return self._entries

    def record(self, paths: Sequence[str], now_ns: int, settle_ns: int) -> NewFiles | None:
        """Adds an entry if there are new files in the folders, or among the files, that `paths` name."""
        self.entries()
        entry = self._complete.new(paths, now_ns, settle_ns)
        if not entry:
            return None
        if not self._entries:
            self._store.write(_ABOUT, self._about.encode())
        content = json.dumps(asdict(entry), indent=1).encode()
        self._store.write(_ENTRY.format(len(self._entries) + 1), content)
        self._learn(entry)
        return entry

    def refused(self, now_ns: int, settle_ns: int) -> Iterator[tuple[str, str]]:
        """The files that do not change any more and are no captures, each with the reason."""
        return self._complete.refused(now_ns, settle_ns)

    def _learn(self, entry: NewFiles) -> None:
        self._entries.append(entry)
        self._complete.learn(entry)
