"""Chosen packets of some captures -> a new capture file.

If all packets are from pcap files with the same link type and kind of header, the result is a pcap file with
the same records, byte for byte, in the order of the timeline. Otherwise the result is a pcapng file. It has
all blocks of each pcapng input except the packets that are not chosen, so comments, name resolution and
secrets stay; packets of pcap files become enhanced packet blocks with the same times. Captures that overlap
in time become one section (see `pcapng.merged_section`).
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO

from ..errors import CaptureError
from . import pcap, pcapng
from .pcapng.merged_section import PACKETS, Block, BlockSource, write_merged
from .pcapng.section import ENHANCED, INTERFACE, ORDERS, SECTION, SIMPLE
from .report import CaptureReport, FileReport
from .sources import read_file, read_runs, unpacked

_UNKNOWN_LENGTH = b"\xff" * 8
_LENGTH_AT = 16  # offset of the section length in a section header block
_OPTIONS = struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)  # if_tsresol: nanoseconds


@dataclass(slots=True)
class ChosenPackets:
    """The packets chosen from the file at `path`: `flags[number]` is 1 for each of them. `first_ns` and
    `last_ns` are their earliest and latest times."""

    path: str
    first_ns: int
    last_ns: int
    count: int = 0
    flags: bytearray = field(default_factory=bytearray)

    def add(self, number: int, ts_ns: int) -> None:
        """Chooses a packet. Packets may be added in any order."""
        if number >= len(self.flags):
            self.flags.extend(bytes(number + 1 - len(self.flags)))
        self.count += 1 - self.flags[number]
        self.flags[number] = 1
        self.first_ns = min(self.first_ns, ts_ns)
        self.last_ns = max(self.last_ns, ts_ns)

    def has(self, number: int) -> bool:
        """Whether a packet is chosen."""
        return number < len(self.flags) and self.flags[number] == 1


def write_slice(
    timelines: Sequence[Sequence[str]],
    chosen: Collection[ChosenPackets],
    output: BinaryIO,
    max_expanded: int | None = None,
) -> None:
    """Writes the chosen packets. `timelines` are the captures that were read together. Raises CaptureError if
    a capture must be converted first (the text says how); the contents of `output` are then invalid.
    """
    heads = [_pcap_header(each.path, max_expanded) for each in chosen]
    if all(heads) and len({(head[:4], head[20:]) for head in heads}) == 1:
        _write_pcap(timelines, {each.path: each for each in chosen}, heads, output, max_expanded)
        return
    in_order = sorted(chosen, key=lambda each: each.first_ns)
    for group in _overlapping(in_order):
        sources = [_source(each, max_expanded) for each in group]
        if len(sources) > 1:
            write_merged(sources, output)
        else:
            output.writelines(block.data for block in sources[0].blocks())


def _overlapping(in_order: Sequence[ChosenPackets]) -> Iterator[list[ChosenPackets]]:
    """Groups of captures whose chosen packets overlap in time."""
    group: list[ChosenPackets] = []
    last_ns = 0
    for each in in_order:
        if group and each.first_ns > last_ns:
            yield group
            group = []
        last_ns = max(last_ns, each.last_ns) if group else each.last_ns
        group.append(each)
    if group:
        yield group


def _source(chosen: ChosenPackets, max_expanded: int | None) -> BlockSource:
    """A capture as pcapng blocks."""
    is_pcap = bool(_pcap_header(chosen.path, max_expanded))
    blocks = _packet_blocks if is_pcap else _copied_blocks
    return BlockSource(chosen.path, partial(blocks, chosen, max_expanded))


def _pcap_header(path: str, max_expanded: int | None) -> bytes:
    """The file header of a pcap file; empty for other formats."""
    with unpacked(path, FileReport(path, ""), max_expanded) as blocks:
        head = blocks.data[blocks.at : blocks.at + pcap.HEADER]
    return head if head[:4] in pcap.MAGICS else b""


def _write_pcap(
    timelines: Sequence[Sequence[str]],
    chosen: dict[str, ChosenPackets],
    heads: Sequence[bytes],
    output: BinaryIO,
    max_expanded: int | None,
) -> None:
    """Copies the records, with their headers, from the blocks in which the reader found them."""
    order, _, header = pcap.MAGICS[heads[0][:4]]
    # The largest snap length is right for the packets of all files.
    largest = max(heads, key=lambda head: int(struct.unpack_from(order + "I", head, 16)[0]))
    output.write(heads[0][:16] + largest[16:20] + heads[0][20:])
    for paths in timelines:
        with closing(read_runs(paths, CaptureReport(), max_expanded, name=str)) as runs:
            for run in runs:
                if (wanted := chosen.get(run.capture)) is None:
                    continue
                for number, (_, start, end, _) in enumerate(run.places, run.first):
                    if wanted.has(number):
                        output.write(run.block[start - header : end])


def _packet_blocks(chosen: ChosenPackets, max_expanded: int | None) -> Iterator[Block]:
    """The chosen packets of a pcap file, as the blocks of a pcapng section."""
    head = _pcap_header(chosen.path, max_expanded)
    snaplen, linktype = struct.unpack_from(pcap.MAGICS[head[:4]][0] + "II", head, 16)
    yield _block(SECTION, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    yield _block(INTERFACE, struct.pack("<HHI", linktype & 0xFFFF, 0, snaplen) + _OPTIONS)
    with closing(
        read_file(chosen.path, FileReport(chosen.path, ""), max_expanded=max_expanded)
    ) as runs:
        for run in runs:
            for packet in run:
                if chosen.has(packet.number):
                    data, ts_ns = packet.data, packet.ts_ns
                    sizes = len(data), packet.wire_bytes
                    fixed = struct.pack("<5I", 0, ts_ns >> 32, ts_ns & 0xFFFFFFFF, *sizes)
                    yield _block(ENHANCED, fixed + data)


def _block(kind: int, body: bytes) -> Block:
    body += bytes(-len(body) % 4)
    size = struct.pack("<I", len(body) + 12)
    return Block("<", kind, struct.pack("<I", kind) + size + body + size)


def _copied_blocks(chosen: ChosenPackets, max_expanded: int | None) -> Iterator[Block]:
    """The blocks of a pcapng file, up to the first damage, without the packets that are not chosen."""
    path = chosen.path
    order, number = "<", 0
    with unpacked(path, FileReport(path, ""), max_expanded) as blocks:
        while blocks.fill(pcapng.HEADER):
            kind, size = pcapng.type_and_size(order, blocks.data, blocks.at)
            # Checked before reading more, because a damaged length may be far too large.
            if pcapng.block_fault(blocks.data, blocks.at, kind, size) or not blocks.fill(size):
                return
            if pcapng.block_fault(blocks.data, blocks.at, kind, size):
                return
            block = blocks.data[blocks.at : blocks.at + size]
            blocks.at += size
            if kind == SECTION:
                order = ORDERS[block[8:12]]
                # Without some of its packets, the section has another length.
                block = block[:_LENGTH_AT] + _UNKNOWN_LENGTH + block[_LENGTH_AT + 8 :]
            elif kind in (*PACKETS, SIMPLE):
                number += 1
                if not chosen.has(number):
                    continue
                if kind == SIMPLE:
                    reason = "it has simple packet blocks, whose times are those of packets before"
                    raise CaptureError(path, reason, "convert it with editcap -F pcap first")
            yield Block(order, kind, block)
