"""Captures that overlap in time -> one pcapng section, with their packets in the order of time.

Each interface gets a new number, and keeps its link type, time resolution and other options. All other blocks
are copied; a block that is not a packet stays before the packet that follows it. The section header has the
options of all sections; hardware, operating system and program each come from the first section that has it.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from math import inf
from operator import itemgetter
from typing import BinaryIO, NamedTuple

from ...errors import CaptureError
from ..report import FileReport
from .section import ENHANCED, INTERFACE, OBSOLETE, SECTION, STATISTICS, Section

PACKETS = (OBSOLETE, ENHANCED)
_HEAD = 24  # bytes of a section header before its options
_ONCE = (2, 3, 4)  # hardware, operating system and program: a section has at most one of each
_MOST_OBSOLETE = 0xFFFF


class Block(NamedTuple):
    """A whole block of a pcapng file, with the byte order of its numbers."""

    order: str
    kind: int
    data: bytes


class BlockSource(NamedTuple):
    """A capture and its blocks, the first of which is a section header."""

    path: str
    blocks: Callable[[], Iterator[Block]]


def write_merged(sources: Sequence[BlockSource], output: BinaryIO) -> None:
    """Writes the blocks of all sources. Packets with the same time keep the order of `sources`. Raises
    CaptureError if the sources have different byte orders."""
    heads = [
        (source.path, block)
        for source in sources
        for block in source.blocks()
        if block.kind == SECTION
    ]
    order = heads[0][1].order
    for path, head in heads:
        if head.order != order:
            reason = f"it overlaps in time with {heads[0][0]}, which has another byte order"
            raise CaptureError(path, reason, "convert it with editcap first")
    output.write(_joined(order, [head.data for _, head in heads]))
    numbers = count()
    timed = heapq.merge(*(_timed(source) for source in sources), key=itemgetter(0))
    for _, parts in timed:
        for section, block in parts:
            output.write(section.renumbered(block, numbers))


class _SourceSection:
    """One section of a source: the times of its packets, and the numbers of its interfaces in the output."""

    def __init__(self, path: str, order: str) -> None:
        self._path = path
        self._order = order
        self._section = Section(order, FileReport(path, ""))
        self._numbers: list[int] = []

    def read(self, block: Block) -> int | None:
        """Reads a packet or interface block. Returns the time of the packet; None for an interface."""
        section = self._section
        section.begin(block.data)
        section.add_block(block.kind, 8, len(block.data) - 4)
        return next((run.places[0][0] for run in section.take_packets()), None)

    def renumbered(self, block: Block, numbers: Iterator[int]) -> bytes:
        """The block with the new number of its interface; empty if no earlier block describes the
        interface."""
        if block.kind == INTERFACE:
            self._numbers.append(next(numbers))
        if block.kind not in (OBSOLETE, STATISTICS, ENHANCED):
            return block.data
        number = struct.Struct(self._order + ("H" if block.kind == OBSOLETE else "I"))
        (index,) = number.unpack_from(block.data, 8)
        if index >= len(self._numbers):
            return b""
        if block.kind == OBSOLETE and self._numbers[index] > _MOST_OBSOLETE:
            reason = "its packet blocks are obsolete: they cannot name so many interfaces"
            raise CaptureError(self._path, reason, "convert it with editcap first")
        return block.data[:8] + number.pack(self._numbers[index]) + block.data[8 + number.size :]


def _timed(source: BlockSource) -> Iterator[tuple[float, list[tuple[_SourceSection, Block]]]]:
    """The blocks of a source, grouped with the packet that follows them, and the time of that packet. Blocks
    after the last packet have an infinite time."""
    parts: list[tuple[_SourceSection, Block]] = []
    for block in source.blocks():
        if block.kind == SECTION:
            section = _SourceSection(source.path, block.order)
            continue
        parts.append((section, block))
        if block.kind == INTERFACE or block.kind in PACKETS:
            ts_ns = section.read(block)
            if ts_ns is not None:
                yield ts_ns, parts
                parts = []
    yield inf, parts


def _joined(order: str, heads: Sequence[bytes]) -> bytes:
    """A section header with the options of all `heads`."""
    options: dict[tuple[int, bytes], None] = {}
    for head in heads:
        section = Section(order, FileReport("", ""))
        section.begin(head)
        known = {code for code, _ in options}
        for code, value in section.options(_HEAD, len(head) - 4):
            if code not in _ONCE or code not in known:
                options[code, value] = None
    body = struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)
    for code, value in options:
        body += struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)
    if options:
        body += bytes(4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", SECTION) + size + body + size
