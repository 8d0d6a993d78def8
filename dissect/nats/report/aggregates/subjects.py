"""Subjects as a tree with volumes. If there are too many, rare ones are merged into wildcards: `orders.eu.17`
into `orders.eu.>`, later into `orders.>`.

Subjects that are used only once, such as inboxes, are wildcards from the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ...schema.records import FrameRecord, Record
from ...subjects import generic
from ..bounded.collections import Keyed

LIMIT = 4000
"""The limit for subjects that are counted separately."""

_DEPTH = 6  # levels of the tree; further tokens stay together
_DEEPEST = 16  # most tokens of a wildcard, so that a subject of a thousand tokens soon becomes `>`


@dataclass(slots=True)
class Volume:
    """Messages and their bytes: published by clients, delivered to clients, passed between servers."""

    published: int = 0
    delivered: int = 0
    passed: int = 0
    bytes: int = 0

    @property
    def weight(self) -> int:
        """The bytes, plus 16 for each message, for the protocol's own bytes."""
        return self.bytes + 16 * self.messages

    @property
    def messages(self) -> int:
        """All messages; a message that is seen several times counts each time."""
        return self.published + self.delivered + self.passed

    def merge(self, other: Volume) -> None:
        """Adds another volume."""
        self.published += other.published
        self.delivered += other.delivered
        self.passed += other.passed
        self.bytes += other.bytes


@dataclass(slots=True)
class Branch:
    """A token of the tree: the subject from the root, the volume of all below it, and its children."""

    token: str
    subject: str
    volume: Volume = field(default_factory=Volume)
    children: dict[str, Branch] = field(default_factory=dict)

    def ranked(self) -> list[Branch]:
        """The children, the largest first."""
        return sorted(self.children.values(), key=lambda item: (-item.volume.weight, item.token))

    def walk(self, depth: int) -> Iterator[Branch]:
        """The branches below, down to a depth."""
        for child in self.ranked():
            yield child
            if depth > 1:
                yield from child.walk(depth - 1)


def parent(subject: str) -> str:
    """The wildcard above a subject or wildcard; for `>`, `>` itself."""
    above = subject.removesuffix(".>").rpartition(".")[0]
    if above.count(".") >= _DEEPEST:
        above = ".".join(above.split(".", _DEEPEST)[:_DEEPEST])
    return f"{above}.>" if above else ">"


class Subjects:
    """The volume of each subject."""

    tables = ("frames",)

    def __init__(self, limit: int = LIMIT) -> None:
        self._volumes: Keyed[str, Volume] = Keyed(Volume, parent, limit)

    def add(self, row: Record) -> None:
        """Adds a row; only messages count."""
        if not isinstance(row, FrameRecord) or row.payload_bytes is None or row.subject is None:
            return
        volume = self._volumes[generic(row.subject)]
        volume.bytes += row.payload_bytes + (row.header_bytes or 0)
        if row.kind != "client":
            volume.passed += 1
        elif row.sender == "originator":
            volume.published += 1
        else:
            volume.delivered += 1

    def merge(self, other: Subjects) -> None:
        """Adds the subjects of another part."""
        self._volumes.merge(other._volumes)

    @property
    def merged(self) -> int:
        """How often a subject or wildcard was merged into a wildcard because there were too many."""
        return self._volumes.merged

    @property
    def count(self) -> int:
        """The number of subjects and wildcards."""
        return len(self._volumes)

    def volumes(self) -> Iterable[tuple[str, Volume]]:
        """All subjects and wildcards with their volumes."""
        return self._volumes.items()

    def tree(self) -> Branch:
        """All subjects as a tree."""
        return _tree(self.volumes())


def _tree(volumes: Iterable[tuple[str, Volume]]) -> Branch:
    root = Branch("", "")
    for subject, volume in volumes:
        branch = root
        branch.volume.merge(volume)
        path = ""
        for token in subject.split(".", _DEPTH - 1):
            path = f"{path}.{token}" if path else token
            branch = branch.children.setdefault(token, Branch(token, path))
            branch.volume.merge(volume)
    return root
