"""Holds the bytes of one direction, by stream offset, until the beginning of a frame is found.

The bytes are stored twice: as items, to be read later, and joined into runs without gaps, to be searched.
Finding a position or a byte costs at most a bisection.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from operator import attrgetter

from ...types import Chunk, Gap

Held = Chunk | Gap

_ITEM_BYTES = 400  # memory of an item in addition to its bytes, which matters for tiny chunks


@dataclass(slots=True)
class ByteRun:
    """Bytes without a gap. `start` is the stream offset of the first."""

    start: int
    data: bytearray

    @property
    def end(self) -> int:
        """The offset after the last byte."""
        return self.start + len(self.data)


_start = attrgetter("start")
_offset = attrgetter("offset")


class ResyncBuffer:
    """Items in the order of their stream. `skipped` and `missing` count bytes that were dropped from the
    front. Most connections hold few items or none, so there are only lists: an empty deque or set takes ten
    and four times as much memory."""

    __slots__ = "items runs end held_bytes largest last skipped missing".split()

    def __init__(self) -> None:
        self.items: list[Held] = []
        self.runs: list[ByteRun] = []
        self.end = 0  # offset after the last item
        self.held_bytes = 0
        self.largest = 0  # size of the largest chunk that was ever in it
        self.last = 0  # size of the last item if it is a chunk, else 0
        self.skipped = 0
        self.missing = 0

    @property
    def cost_bytes(self) -> int:
        """The approximate memory use. Bytes are stored twice."""
        return 2 * self.held_bytes + _ITEM_BYTES * len(self.items)

    @property
    def start(self) -> int:
        """The offset of the first byte; the end if it is empty."""
        return self.items[0].offset if self.items else self.end

    def add(self, item: Held) -> None:
        """Adds the next item."""
        self.items.append(item)
        if isinstance(item, Gap):
            self.end = item.offset + item.length
            self.last = 0
            return
        size = len(item.data)
        if self.runs and self.runs[-1].end == item.offset:
            self.runs[-1].data += item.data
        else:
            self.runs.append(ByteRun(item.offset, bytearray(item.data)))
        self.end = item.offset + size
        self.held_bytes += size
        self.last = size
        self.largest = max(self.largest, size)

    def begins_chunk(self, offset: int) -> bool:
        """Whether a chunk begins at `offset`."""
        at = bisect_left(self.items, offset, key=_offset)
        if at == len(self.items):
            return False
        item = self.items[at]
        return item.offset == offset and isinstance(item, Chunk)

    def ends_chunk(self, offset: int) -> bool:
        """Whether a chunk ends at `offset`."""
        at = bisect_left(self.items, offset, key=_offset)
        if not at:
            return False
        item = self.items[at - 1]
        return isinstance(item, Chunk) and item.offset + len(item.data) == offset

    def run_at(self, offset: int) -> ByteRun | None:
        """The run with the byte at `offset`, if it was captured and not dropped."""
        runs = self.runs
        if not runs:
            return None
        run = runs[-1]  # usually the only one
        if offset < run.start:
            at = bisect_right(runs, offset, key=_start) - 1
            if at < 0:
                return None
            run = runs[at]
        return run if offset - run.start < len(run.data) else None

    def runs_from(self, offset: int) -> int:
        """The index of the first run that ends after `offset`, or of the last one."""
        runs = self.runs
        if len(runs) < 2 or offset >= runs[-1].start:
            return max(0, len(runs) - 1)
        at = max(0, bisect_right(runs, offset, key=_start) - 1)
        return at if runs[at].end > offset else at + 1

    def is_open(self, run: ByteRun) -> bool:
        """Whether more bytes may join the run."""
        return run.end == self.end

    def ends_line(self, offset: int) -> bool:
        """Whether CR LF is before `offset`. A byte that was not captured counts as right."""
        run = self.run_at(offset - 1)
        if run and offset - run.start >= 2:
            at = offset - run.start
            return run.data[at - 2] == 13 and run.data[at - 1] == 10
        if run and run.data[offset - 1 - run.start] != 10:
            return False
        run = self.run_at(offset - 2)
        return not run or run.data[offset - 2 - run.start] == 13

    def skipped_before(self, offset: int) -> int:
        """The number of captured bytes before `offset`, dropped ones included."""
        chunks = (item for item in self.items if isinstance(item, Chunk))
        return self.skipped + sum(min(len(c.data), max(0, offset - c.offset)) for c in chunks)

    def drop(self, offset: int) -> None:
        """Drops the items that end at or before `offset`."""
        gone = 0
        for item in self.items:
            size = item.length if isinstance(item, Gap) else len(item.data)
            if item.offset + size > offset:
                break
            gone += 1
            if isinstance(item, Gap):
                self.missing += size
            else:
                self.skipped += size
                self.held_bytes -= size
        del self.items[:gone]
        start = self.start
        gone = 0
        while gone < len(self.runs) and self.runs[gone].end <= start:
            gone += 1
        del self.runs[:gone]
        if self.runs and self.runs[0].start < start:
            del self.runs[0].data[: start - self.runs[0].start]
            self.runs[0].start = start

    def rest(self, offset: int) -> list[Held]:
        """Drops everything before `offset`, a position inside a chunk or at the end; returns the items from
        there on."""
        self.drop(offset)
        if self.items and self.items[0].offset < offset:
            first = self.items[0]
            assert isinstance(first, Chunk)  # a frame begins at bytes that were captured
            self.skipped += offset - first.offset
            data = first.data[offset - first.offset :]
            self.items[0] = replace(first, offset=offset, data=data)
        return list(self.items)
