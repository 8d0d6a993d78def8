"""One endpoint of a session: counts of what it sent, its PINGs, subscriptions and interest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from natsync.protocol import Err, Frame, Message

from ..schema.records import Counts
from ..types import Direction
from .interest import Interest
from .ping_ack import Pings
from .quota import EntryQuota
from .subscriptions import Emit, OnForgotten, Subscriptions


class Endpoint:
    """The counters and subscriptions of one sender. `other` is the opposite endpoint."""

    __slots__ = "direction other counts bytes pings subscriptions interest last_error".split()
    other: Endpoint

    def __init__(
        self, direction: Direction, quota: EntryQuota, emit: Emit, on_forgotten: OnForgotten
    ) -> None:
        self.direction = direction
        self.counts: defaultdict[type[Frame], int] = defaultdict(int)
        self.bytes = 0
        self.pings = Pings()
        self.subscriptions = Subscriptions(quota, emit, on_forgotten)
        self.interest = Interest(quota, emit, on_forgotten)
        self.last_error: Err | None = None  # only while it is the latest frame

    def op_counts(self) -> Counts | None:
        """The number of frames of each operation; None if there are none."""
        counts: Counts = {}
        for kind, count in self.counts.items():
            counts[kind.op] = counts.get(kind.op, 0) + count
        return counts or None

    def count(self, kinds: Iterable[type[Frame]]) -> int:
        """The number of frames of these classes."""
        return sum(self.counts.get(kind, 0) for kind in kinds)

    @property
    def messages(self) -> int:
        """The number of messages."""
        return sum(count for kind, count in self.counts.items() if issubclass(kind, Message))
