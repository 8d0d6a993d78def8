"""The record of an archive: what is in it. Replacing this one file commits a batch."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..partition.complete_files import CompleteFiles, TakenFile


@dataclass(slots=True)
class SourceRecord:
    """A source at the end of a batch: the file with the `state` of its open flows, empty if there is none,
    the files that were taken, the latest time at which one begins, and the paths of those that were refused
    because they are no captures."""

    state: str = ""
    latest_ns: int | None = None
    taken: list[TakenFile] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def complete_files(self) -> CompleteFiles:
        """What a `CompleteFiles` knew then."""
        known = CompleteFiles()
        known.taken = {one.path: one for one in self.taken}
        if self.latest_ns is not None:
            known.latest_ns = self.latest_ns
        return known


@dataclass(slots=True)
class ArchiveCounts:
    """What an archive counted since it began: `totals` of files, packets and so on, `undecoded` packets by
    reason, and `rows` by table."""

    totals: Counter[str] = field(default_factory=Counter)
    undecoded: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class ArchiveRecord:
    """The state after batch `number`. `about` describes what the states depend on. `files` are those of this
    batch, as pairs of table and name; until all have their places, readers do not see some of them.
    """

    about: str
    number: int = 0
    sources: dict[str, SourceRecord] = field(default_factory=dict)
    files: list[tuple[str, str]] = field(default_factory=list)
    counts: ArchiveCounts = field(default_factory=ArchiveCounts)

    def text(self) -> bytes:
        """The record as JSON."""
        values = {
            "about": self.about,
            "number": self.number,
            "files": self.files,
            "counts": {
                "totals": self.counts.totals,
                "undecoded": self.counts.undecoded,
                "rows": self.counts.rows,
            },
            "sources": {
                name: {
                    "state": one.state,
                    "latest_ns": one.latest_ns,
                    "taken": list(map(_values, one.taken)),
                    "refused": one.refused,
                }
                for name, one in self.sources.items()
            },
        }
        return json.dumps(values).encode()


def record_of(text: bytes) -> ArchiveRecord:
    """The record in JSON."""
    values = json.loads(text)
    counts = {name: Counter(some) for name, some in values["counts"].items()}
    sources = {
        name: SourceRecord(
            one["state"], one["latest_ns"], [*map(_taken, one["taken"])], one["refused"]
        )
        for name, one in values["sources"].items()
    }
    files = [(table, name) for table, name in values["files"]]
    return ArchiveRecord(values["about"], values["number"], sources, files, ArchiveCounts(**counts))


def _values(one: TakenFile) -> tuple[object, ...]:
    return one.path, one.size, one.first_ns, one.changed_ns, one.packets


def _taken(values: Iterable[object]) -> TakenFile:
    path, size, first_ns, changed_ns, packets = values
    return TakenFile(path, size, first_ns, False, changed_ns, packets)  # type: ignore[arg-type]  # as above
