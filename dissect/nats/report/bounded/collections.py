"""Collections of bounded size: the largest rows, and values by key with rare keys merged.

Rows that are left out are counted. As long as no keys are merged, the content depends only on the rows, and
not on the order of merges.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

OTHERS = "(others)"
"""The key under which rare keys are merged."""

Key = TypeVar("Key")
Row = TypeVar("Row")
Order = tuple[int | str, ...]


class Mergeable(Protocol):
    """A value that can be merged with another one of its kind."""

    @property
    def weight(self) -> int:
        """The importance of the value: the lightest values are merged first."""

    def merge(self: Value, other: Value) -> None:
        """Adds another value to this one."""


Value = TypeVar("Value", bound=Mergeable)


class Largest(Generic[Row]):
    """The `limit` rows with the largest `order`; among equal ones, those that came first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._heap: list[tuple[Order, int, Row]] = []
        self.seen = 0

    def add(self, order: Order, row: Row) -> None:
        """Adds a row, and drops the smallest one if there are too many."""
        self.seen += 1
        entry = (order, -self.seen, row)
        if len(self._heap) < self._limit:
            heapq.heappush(self._heap, entry)
        elif (order, -self.seen) > self._heap[0][:2]:
            heapq.heapreplace(self._heap, entry)

    def merge(self, other: Largest[Row]) -> None:
        """Adds the rows of another one."""
        seen = self.seen + other.seen
        for order, _, row in sorted(other._heap, key=lambda entry: entry[:2], reverse=True):
            self.add(order, row)
        self.seen = seen

    def __iter__(self) -> Iterator[Row]:
        """The rows, the largest first."""
        ranked = sorted(self._heap, key=lambda entry: entry[:2], reverse=True)
        return (row for _, _, row in ranked)

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def dropped(self) -> int:
        """The number of rows that are left out."""
        return self.seen - len(self._heap)


class Keyed(Generic[Key, Value]):
    """Values by key, at most twice `limit`. If there are more, the lightest ones are merged into the values
    of more general keys, which `generalize` makes from theirs. `merged` counts these steps."""

    def __init__(
        self, make: Callable[[], Value], generalize: Callable[[Key], Key], limit: int
    ) -> None:
        self._make = make
        self._generalize = generalize
        self._limit = limit
        self._values: dict[Key, Value] = {}
        self.merged = 0

    def __getitem__(self, key: Key) -> Value:
        """The value of a key; a new one if there is none."""
        value = self._values.get(key)
        if value is None:
            if len(self._values) >= 2 * self._limit:
                self._shrink()
            value = self._values.setdefault(key, self._make())
        return value

    def merge(self, other: Keyed[Key, Value]) -> None:
        """Adds the values of another one."""
        for key, value in other._values.items():
            self[key].merge(value)
        self.merged += other.merged

    def items(self) -> list[tuple[Key, Value]]:
        """Keys and values, the heaviest first."""
        return sorted(self._values.items(), key=lambda item: (-item[1].weight, str(item[0])))

    def __len__(self) -> int:
        return len(self._values)

    def _shrink(self) -> None:
        while len(self._values) > self._limit:
            ranked = self.items()
            keep = dict(ranked[: self._limit // 2])
            before = self.merged
            for key, value in ranked[self._limit // 2 :]:
                general = self._generalize(key)
                self.merged += general != key
                if general in keep:
                    keep[general].merge(value)
                else:
                    keep[general] = value
            # Keys may have to be generalized several times before two of them become one: `a.x` and `b.x`
            # first become `a.>` and `b.>`.
            if self.merged == before:
                raise ValueError("the keys cannot be merged any more")
            self._values = keep
