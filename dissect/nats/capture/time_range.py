"""Packets of a span of time out of a capture, as `editcap -A -B` would cut it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ..types import Packets


@dataclass(frozen=True, slots=True)
class TimeRange:
    """From `from_ns` on, and before `until_ns`; None is no bound."""

    from_ns: int | None = None
    until_ns: int | None = None

    @property
    def is_all(self) -> bool:
        """Whether nothing lies outside."""
        return self.from_ns is None and self.until_ns is None

    def holds(self, ts_ns: int) -> bool:
        """Whether a time lies inside."""
        return (self.from_ns is None or ts_ns >= self.from_ns) and (
            self.until_ns is None or ts_ns < self.until_ns
        )

    def meets(self, first_ns: int, last_ns: int) -> bool:
        """Whether anything from `first_ns` to `last_ns` may lie inside."""
        return (self.from_ns is None or last_ns >= self.from_ns) and (
            self.until_ns is None or first_ns < self.until_ns
        )

    def of(self, runs: Iterable[Packets]) -> Iterator[Packets]:
        """The packets inside. Those that follow each other in the file stay together."""
        for run in runs:
            if self.is_all:
                yield run
                continue
            inside = [self.holds(place[0]) for place in run.places]
            if all(inside):
                yield run
                continue
            start = 0
            while True in inside[start:]:
                start = inside.index(True, start)
                stop = inside.index(False, start) if False in inside[start:] else len(inside)
                yield replace(run, first=run.first + start, places=run.places[start:stop])
                start = stop
