"""Several captures -> one timeline.

Captures that do not overlap in time are read one after the other. Captures that overlap (two taps, or a ring
of files whose ends mix) are merged by the times of their packets. The packets of one file keep their order,
whatever their times. If packets have the same time, the packet from the file that began first comes first. A
file is opened when the timeline reaches its first packet and closed after its last one, so only files that
overlap are open together.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from math import inf

from ..types import Packets

# Each open file takes one block of memory. This is well below the usual limit of 1024 open files.
MOST_OPEN = 200

Reader = Generator[Packets, None, None]


def merge(
    sources: Sequence[tuple[float, Callable[[], Reader]]], too_many: Exception
) -> Generator[Packets, None, None]:
    """The packets of all sources. Each source is the time of its first packet and a function that opens it;
    `sources` are in the order of these times. Raises `too_many` if more than `MOST_OPEN` overlap.
    """
    # A heap of: the time of a source's next packet, the index of the source, its packets, and how many of
    # them were yielded. No two entries have the same index, so the packets are never compared.
    heads: list[tuple[int, int, Packets, int]] = []
    readers: dict[int, Reader] = {}
    opened = 0
    try:
        while heads or opened < len(sources):
            while opened < len(sources) and (not heads or sources[opened][0] < heads[0][0]):
                if len(readers) == MOST_OPEN:
                    raise too_many
                readers[opened] = sources[opened][1]()
                _push(heads, readers, opened)
                opened += 1
            if not heads:
                continue
            _, place, run, taken = heapq.heappop(heads)
            until = sources[opened][0] if opened < len(sources) else inf
            following = opened
            if heads and heads[0][0] <= until:
                until, following = heads[0][:2]
            stop = _stop(run, taken, until, place < following)
            yield _part(run, taken, stop)
            if stop < len(run.places):
                heapq.heappush(heads, (run.places[stop][0], place, run, stop))
            else:
                _push(heads, readers, place)
    finally:
        for reader in readers.values():
            reader.close()


def _push(
    heads: list[tuple[int, int, Packets, int]], readers: dict[int, Reader], place: int
) -> None:
    """Adds the next packets of a source to the heap; a source without more packets is closed."""
    run = next(readers[place], None)
    if run is None:
        del readers[place]
    else:
        heapq.heappush(heads, (run.places[0][0], place, run, 0))


def _stop(run: Packets, taken: int, until: float, ties: bool) -> int:
    """The index at which the packets before `until` end, or those up to and including `until` with `ties`. It
    is at least `taken` + 1. A packet with a smaller time than its predecessor goes with that packet.
    """
    places = run.places
    stop = taken + 1
    size = len(places)
    if until == inf:
        return size
    while stop < size:
        ts_ns = places[stop][0]
        if ts_ns > until or (ts_ns == until and not ties):
            break
        stop += 1
    return stop


def _part(run: Packets, start: int, stop: int) -> Packets:
    if stop - start == len(run.places):
        return run
    return replace(run, first=run.first + start, places=run.places[start:stop])
