"""One sender of a session: what it sent, and what it asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from natsync.protocol import Err, Frame, Message

from ..records import Counts
from ..types import Direction
from .interest import Interest
from .ping_ack import Pings
from .quota import EntryQuota
from .subscriptions import Emit, Forgot, Subscriptions


class Side:
    """Counters that the session keeps, and what it follows for this sender. `other` is the other one."""

    __slots__ = "direction other counts bytes pings subscriptions interest last_error".split()
    other: Side

    def __init__(
        self, direction: Direction, budget: EntryQuota, emit: Emit, forgot: Forgot
    ) -> None:
        self.direction = direction
        self.counts: defaultdict[type[Frame], int] = defaultdict(int)
        self.bytes = 0
        self.pings = Pings()
        self.subscriptions = Subscriptions(budget, emit, forgot)
        self.interest = Interest(budget, emit, forgot)
        self.last_error: Err | None = None  # if it was the last frame

    def op_counts(self) -> Counts | None:
        """Operations and how many there were."""
        counts: Counts = {}
        for kind, count in self.counts.items():
            counts[kind.op] = counts.get(kind.op, 0) + count
        return counts or None

    def count(self, kinds: Iterable[type[Frame]]) -> int:
        """How many frames of these."""
        return sum(self.counts.get(kind, 0) for kind in kinds)

    @property
    def messages(self) -> int:
        """How many messages."""
        return sum(count for kind, count in self.counts.items() if issubclass(kind, Message))
