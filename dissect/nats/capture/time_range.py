"""Selects the packets in a range of time, like `editcap -A -B`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, groupby
from operator import itemgetter
from typing import NamedTuple

from ..number_formats import time_of
from ..types import Packets

_SECONDS = re.compile(r"(\d{1,9})(?:\.(\d{1,9}))?", re.ASCII)


class TimeBound(NamedTuple):
    """A time in nanoseconds since the epoch or, if `elapsed`, since the first packet of the captures."""

    ns: int
    elapsed: bool = False

    def after(self, first_ns: int) -> int:
        """The time in nanoseconds since the epoch, for captures whose first packet is at `first_ns`."""
        return first_ns + self.ns if self.elapsed else self.ns


def time_bound(text: str) -> TimeBound:
    """Parses a time as users write it: seconds after the first packet (`90`, `1.5`), or any text that
    `time_of` accepts. Raises ValueError."""
    if found := _SECONDS.fullmatch(text.strip()):
        return TimeBound(int(found[1]) * 10**9 + int((found[2] or "").ljust(9, "0")), True)
    return TimeBound(time_of(text))


def check_bounds(
    from_time: TimeBound | None,
    until_time: TimeBound | None,
    names: tuple[str, str] = ("from_time", "until_time"),
) -> None:
    """Raises ValueError if no packet can be between the two times, whatever the captures."""
    if from_time and until_time and from_time.elapsed is until_time.elapsed:
        if from_time.ns >= until_time.ns:
            raise ValueError(f"{names[0]} is not before {names[1]}: no packet can match")


def packets_between(
    runs: Iterable[Packets], from_time: TimeBound | None, until_time: TimeBound | None
) -> Iterator[Packets]:
    """The packets at or after `from_time` and before `until_time`; None means no bound. Relative times count
    from the first packet of all `runs`."""
    source = iter(runs)
    first = next(source, None)
    if first is None:
        return
    first_ns = first.places[0][0]
    bounds = (bound and bound.after(first_ns) for bound in (from_time, until_time))
    yield from TimeRange(*bounds).of(chain([first], source))


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The times at or after `from_ns` and before `until_ns`; None means no bound."""

    from_ns: int | None = None
    until_ns: int | None = None

    @property
    def is_all(self) -> bool:
        """Whether all times are in the range."""
        return self.from_ns is None and self.until_ns is None

    def holds(self, ts_ns: int) -> bool:
        """Whether a time is in the range."""
        return (self.from_ns is None or ts_ns >= self.from_ns) and (
            self.until_ns is None or ts_ns < self.until_ns
        )

    def meets(self, first_ns: int, last_ns: int) -> bool:
        """Whether a time from `first_ns` to `last_ns` may be in the range."""
        return (self.from_ns is None or last_ns >= self.from_ns) and (
            self.until_ns is None or first_ns < self.until_ns
        )

    def of(self, runs: Iterable[Packets]) -> Iterator[Packets]:
        """The packets in the range. Adjacent packets of one run stay in one run."""
        for run in runs:
            if self.is_all:
                yield run
                continue
            inside = [self.holds(place[0]) for place in run.places]
            if all(inside):
                yield run
                continue
            first = run.first
            for is_inside, some in groupby(zip(inside, run.places), itemgetter(0)):
                places = [place for _, place in some]
                if is_inside:
                    yield replace(run, first=first, places=places)
                first += len(places)
