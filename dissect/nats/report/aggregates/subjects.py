"""Subjects as a tree with volumes. Where there are too many, rare ones become wildcards: `orders.eu.17`
becomes `orders.eu.>`, later `orders.>`.

Subjects that are made for one use have wildcards from the start: inboxes, and acks of JetStream, whose tokens
after stream and consumer are numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ...schema.records import FrameRecord, Record
from ..bounded.collections import Keyed

LIMIT = 4000
"""Subjects that are kept apart."""

_INBOX = "_INBOX."
_ROUTED_REPLIES = ("_R_.", "_GR_.", "$GR.")
_ACK = "$JS.ACK."
_ACK_NAMED = 4  # $JS.ACK.STREAM.CONSUMER
_DEPTH = 6  # levels of the tree; what follows stays together
_DEEPEST = 16  # tokens of a wildcard, so that a subject of a thousand tokens soon becomes `>`


@dataclass(slots=True)
class Volume:
    """Messages and their bytes: published by clients, delivered to clients, passed between servers."""

    published: int = 0
    delivered: int = 0
    passed: int = 0
    bytes: int = 0

    @property
    def weight(self) -> int:
        """Every message counts as its bytes and some of the protocol's."""
        return self.bytes + 16 * self.messages

    @property
    def messages(self) -> int:
        """All messages, each time they were seen."""
        return self.published + self.delivered + self.passed

    def merge(self, other: Volume) -> None:
        """Adds another volume."""
        self.published += other.published
        self.delivered += other.delivered
        self.passed += other.passed
        self.bytes += other.bytes


@dataclass(slots=True)
class Branch:
    """A token of a subject: its subject from the root, the volume of all below it, and its children."""

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


def generalized(subject: str) -> str:
    """The subject, without what is made for one use."""
    if subject.startswith(_INBOX):
        return f"{_INBOX}>"
    if subject.startswith(_ROUTED_REPLIES):
        return f"{subject.partition('.')[0]}.>"
    if subject.startswith(_ACK):
        return ".".join([*subject.split(".")[:_ACK_NAMED], ">"])
    return subject


def parent(subject: str) -> str:
    """The wildcard above a subject or wildcard; `>` is its own."""
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
        """Takes a row; messages count."""
        if not isinstance(row, FrameRecord) or row.payload_bytes is None or row.subject is None:
            return
        volume = self._volumes[generalized(row.subject)]
        volume.bytes += row.payload_bytes + (row.header_bytes or 0)
        if row.kind != "client":
            volume.passed += 1
        elif row.sender == "originator":
            volume.published += 1
        else:
            volume.delivered += 1

    def merge(self, other: Subjects) -> None:
        """Takes in the subjects of another part."""
        self._volumes.merge(other._volumes)

    @property
    def merged(self) -> int:
        """How many subjects were merged under wildcards because there were too many."""
        return self._volumes.merged

    @property
    def count(self) -> int:
        """How many subjects and wildcards there are."""
        return len(self._volumes)

    def tree(self) -> Branch:
        """All subjects as a tree."""
        return _tree(self._volumes.items())


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
