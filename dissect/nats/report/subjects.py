"""Subjects as a tree with volumes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

_DEPTH = 6  # levels of the tree; further tokens stay together


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

    def add(self, other: Volume) -> None:
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


@dataclass(slots=True)
class Subjects:
    """The volume of each subject or wildcard. `merged` is how often subjects became wildcards because there
    were too many."""

    volumes: dict[str, Volume]
    merged: int = 0

    def tree(self) -> Branch:
        """All subjects as a tree."""
        root = Branch("", "")
        for subject, volume in self.volumes.items():
            branch = root
            branch.volume.add(volume)
            path = ""
            for token in subject.split(".", _DEPTH - 1):
                path = f"{path}.{token}" if path else token
                branch = branch.children.setdefault(token, Branch(token, path))
                branch.volume.add(volume)
        return root
