"""The flows of a table, and the times after which each must be checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count

from ..types import NEVER_NS
from .flow import Flow

_BITS = 64
_MASK = (1 << _BITS) - 1


class Deadlines:
    """All flows of a table, in the order in which they were added. No flow must be checked before `next_ns`.

    An entry of the heap is one integer: the time in the upper bits, the number of a flow in the lower 64.
    This takes a third of the memory of a pair. The entry has a number and not the flow itself, because it may
    outlive the flow and must not keep it in memory.
    """

    def __init__(self) -> None:
        self.next_ns = NEVER_NS
        self._flows: dict[int, Flow] = {}
        self._numbers: dict[Flow, int] = {}
        self._new_number = count()
        self._heap: list[int] = []

    def __len__(self) -> int:
        return len(self._flows)

    def __iter__(self) -> Iterator[Flow]:
        return iter(self._flows.values())

    def add(self, flow: Flow, times: Iterable[int]) -> None:
        """Adds a flow that must be checked after each of these times."""
        number = self._numbers[flow] = next(self._new_number)
        self._flows[number] = flow
        for time_ns in times:
            self.check(flow, time_ns)

    def check(self, flow: Flow, after_ns: int) -> None:
        """Adds a time after which a flow must be checked."""
        heap = self._heap
        if len(heap) > 64 + 2 * len(self._flows):
            self._compact()
        heappush(heap, after_ns << _BITS | self._numbers[flow])
        self.next_ns = heap[0] >> _BITS

    def due(self, now_ns: int) -> Iterator[Flow]:
        """Removes the times before `now_ns`, and yields their flows. Times may be added during iteration."""
        heap = self._heap
        while heap and heap[0] >> _BITS < now_ns:
            flow = self._flows.get(heappop(heap) & _MASK)
            self.next_ns = heap[0] >> _BITS if heap else NEVER_NS
            if flow is not None:
                yield flow

    def remove(self, flow: Flow) -> None:
        """Forgets a flow."""
        del self._flows[self._numbers.pop(flow)]

    def clear(self) -> None:
        """Forgets all flows."""
        self._flows.clear()
        self._numbers.clear()
        self._heap.clear()

    def times(self) -> dict[Flow, list[int]]:
        """All flows with their times."""
        found: dict[Flow, list[int]] = {flow: [] for flow in self}
        for entry in self._heap:
            if flow := self._flows.get(entry & _MASK):
                found[flow].append(entry >> _BITS)
        return found

    def _compact(self) -> None:
        """Keeps only the earliest time of each flow, and drops the times of flows that were removed."""
        first = {entry & _MASK: entry for entry in sorted(self._heap, reverse=True)}
        self._heap[:] = [entry for number, entry in first.items() if number in self._flows]
        heapify(self._heap)
