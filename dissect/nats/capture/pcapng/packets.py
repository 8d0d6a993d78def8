"""pcapng files -> packets: sections of either byte order, several interfaces, any time resolution.

Follows draft-ietf-opsawg-pcapng. Packets are in enhanced, simple and (obsolete) packet blocks. Other blocks
are skipped by their length and counted by kind. A simple packet block has no timestamp: the packet gets the
latest time of the packets before it. Reading ends at a block with an impossible length, or where the file
ends inside a block. The report notes either case, with the position; all blocks before it are read. A packet
whose interface is not described, or that claims more bytes than its block has, is counted as skipped.
"""

from __future__ import annotations

import struct

from ...secrets.key_log import KeyLog
from ...types import PacketPlace
from ..reader import NOWHERE, Blocks, Ended, Reading, RecordForm, RecordReaders, Records
from ..report import FileReport
from .section import ORDERS, SECTION, Section, records_of

MAGIC = b"\x0a\x0d\x0d\x0a"
HEADER = 12

_ENHANCED = 6
_FIXED = 28  # bytes of an enhanced packet block before the packet

# Wireshark reads blocks up to 16 MiB, and packets up to 128 MiB on the links with the largest packets.
LARGEST_BLOCK = 128 << 20
_SHORTEST_SECTION = 28


def is_section(head: bytes) -> bool:
    """Whether an input with these first `HEADER` bytes is pcapng: it begins with a section header."""
    return head[:4] == MAGIC and head[8:12] in ORDERS


def read_pcapng(
    blocks: Blocks,
    report: FileReport,
    stop: int = NOWHERE,
    embedded: KeyLog | None = None,
    readers: RecordReaders | None = None,
) -> Reading:
    """The packets of a file that begins with a section header, one piece of the file at a time, except those
    that begin at byte `stop` of the file or later. `report` counts packets before they are yielded. TLS
    secrets are added to `embedded`.
    """
    section = Section("<", report, embedded)
    earlier = Ended(0, b"")
    need = HEADER
    while blocks.position < stop and blocks.fill(need):
        data, at = blocks.data, blocks.at
        last = stop - blocks.position + at - 1
        section.begin(data)
        need = HEADER
        while at + HEADER <= len(data):
            at = _common_packets(section, data, at, last, readers)
            if at > last:
                break
            kind, size = type_and_size(section.order, data, at)
            fault = block_fault(data, at, kind, size)
            if fault:
                yield from section.take_packets()
                blocks.at = at
                report.break_off(fault, blocks.position)
                return section.ended(blocks.position, earlier)
            end = at + size
            if end > len(data):
                need = max(size, HEADER)
                break
            if kind == SECTION:
                yield from section.take_packets()
                earlier = section.ended(0, earlier)
                section = Section(ORDERS[data[at + 8 : at + 12]], report, embedded)
                section.begin(data)
            section.add_block(kind, at + 8, end - 4)
            at = end
        yield from section.take_packets()
        blocks.at = at
    if blocks.position < stop and (blocks.fault or len(blocks.data) > blocks.at):
        report.break_off(blocks.fault or "the file is cut short", blocks.position)
    return section.ended(blocks.position, earlier)


def _common_packets(
    section: Section, data: bytes, at: int, last: int, readers: RecordReaders | None
) -> int:
    """Reads the whole enhanced packet blocks without options that follow each other from `at` on and begin at
    `last` or before. Returns the position of the first block that it does not read."""
    unpack = struct.Struct(section.order + "III").unpack_from
    read = readers and readers.enhanced
    while at + HEADER <= len(data) and at <= last:
        kind, _, index = unpack(data, at)
        if kind != _ENHANCED or index >= len(section.interfaces):
            break
        interface = section.interfaces[index]
        form = RecordForm(section.order, interface.times, interface.offset_ns, interface=index)
        if read and interface.per == 1:
            records = read(data, at, last, form)
        else:
            records = _read_records(data, at, last, form, interface.per)
        if records.at == at:
            break
        section.put(interface, records)
        at = records.at
    return at


def _read_records(data: bytes, at: int, last: int, form: RecordForm, per: int) -> Records:
    """The enhanced packet blocks of one interface, whose unit of time is `form.times` / `per` nanoseconds."""
    order, times, offset_ns, _, _, interface = form
    unpack = struct.Struct(order + "7I").unpack_from
    closing = struct.Struct(order + "I").unpack_from
    size = len(data)
    last = min(size - _FIXED - 4, last)
    places: list[PacketPlace] = []
    while at <= last:
        kind, length, index, high, low, kept, wire_bytes = unpack(data, at)
        start = at + _FIXED
        end = at + length
        if (
            kind != _ENHANCED
            or length != (kept + 35 & ~3)
            or end > size
            or closing(data, end - 4)[0] != length
            or index != interface
        ):
            break
        ts_ns = (high << 32 | low) * times + offset_ns
        if per != 1:
            ts_ns = (high << 32 | low) * times // per + offset_ns
        places.append((ts_ns, start, start + kept, wire_bytes if wire_bytes > kept else kept))
        at = end
    return records_of(places, at)


def type_and_size(order: str, data: bytes, at: int) -> tuple[int, int]:
    """The type and size of the block at `at`: its first `HEADER` bytes are enough; with fewer, the result is
    0 and `HEADER`. `order` is the byte order, except for a section header, which shows its own."""
    if at + HEADER > len(data):
        return 0, HEADER
    if data[at : at + 4] == MAGIC:
        order = ORDERS.get(data[at + 8 : at + 12], "<")
    kind, size = struct.unpack_from(order + "II", data, at)
    return kind, size


def block_fault(data: bytes, at: int, kind: int, size: int) -> str:
    """The damage of the block at `at` because of which the next block cannot be found; empty if none."""
    if not HEADER <= size <= LARGEST_BLOCK or size % 4:
        return f"a block of {size} bytes is claimed"
    if kind == SECTION and (size < _SHORTEST_SECTION or data[at + 8 : at + 12] not in ORDERS):
        return "a section without a byte order is"
    end = at + size
    if end <= len(data) and data[end - 4 : end] != data[at + 4 : at + 8]:
        return "the two lengths of a block differ"
    return ""
