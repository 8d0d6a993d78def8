"""Classic pcap files -> packets: both byte orders, micro- and nanoseconds, Kuznetzov's longer records.

Follows draft-ietf-opsawg-pcap. A record that claims more bytes than any packet can have ends the
reading, since there is no telling where the next one begins; so does the end of the file inside a
record. Either is noted in the report with the place, and everything before it has been read.
"""

from __future__ import annotations

import struct
from collections.abc import Generator

from ..wire import Packet
from .blocks import Blocks
from .report import FileReport

# First four bytes -> byte order, nanoseconds of the fraction's unit, size of a record's header.
MAGICS = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000, 16),
    b"\xa1\xb2\xc3\xd4": (">", 1000, 16),
    b"\x4d\x3c\xb2\xa1": ("<", 1, 16),
    b"\xa1\xb2\x3c\x4d": (">", 1, 16),
    b"\x34\xcd\xb2\xa1": ("<", 1000, 24),
    b"\xa1\xb2\xcd\x34": (">", 1000, 24),
}
HEADER = 24

# libpcap's MAXIMUM_SNAPLEN: a packet may be that large whatever the file header says. One that says
# more is believed up to what libpcap and Wireshark allow the links with the largest packets.
USUAL_SNAPLEN = 262144
LARGEST_SNAPLEN = 128 << 20


def read_pcap(blocks: Blocks, report: FileReport) -> Generator[Packet, None, None]:
    """The packets of a file whose header is there as a whole. `report` is brought up to date with
    every block of the file, and when the reader is exhausted or closed."""
    order, unit_ns, header = MAGICS[blocks.data[blocks.at : blocks.at + 4]]
    snaplen, linktype = struct.unpack_from(order + "II", blocks.data, blocks.at + 16)
    largest = max(USUAL_SNAPLEN, min(snaplen, LARGEST_SNAPLEN))
    linktype &= (
        0xFFFF  # above it: how long a check sequence trails each packet; IP lengths cut that
    )
    unpack = struct.Struct(order + "4I").unpack_from
    capture = report.capture
    number = second = second_ns = 0
    need = header
    blocks.at += HEADER
    while need - header <= largest and blocks.fill(need):
        data, at = blocks.data, blocks.at
        size, need, first = len(data), header, number
        latest_ns = report.last_ns if report.last_ns is not None else -1
        try:
            while at + header <= size:
                seconds, fraction, kept, length = unpack(data, at)
                start = at + header
                end = start + kept
                if end > size or kept > largest:
                    need += kept
                    break
                if seconds != second:
                    second, second_ns = seconds, seconds * 1_000_000_000
                ts_ns = second_ns + fraction * unit_ns
                if ts_ns > latest_ns:
                    latest_ns = ts_ns
                number += 1
                at = end
                yield Packet(
                    ts_ns,
                    number,
                    capture,
                    linktype,
                    data[start:end],
                    length if length > kept else kept,
                )
        finally:
            if number > first and not first:
                seconds, fraction = struct.unpack_from(order + "II", data, blocks.at)
                report.first_ns = seconds * 1_000_000_000 + fraction * unit_ns
            if number:
                report.last_ns = latest_ns
                report.linktypes[linktype] = number
            report.packets = number
            report.captured_bytes += at - blocks.at - (number - first) * header
            blocks.at = at
    _note_damage(blocks, report, need - header, largest)


def _note_damage(blocks: Blocks, report: FileReport, kept: int, largest: int) -> None:
    """Say what stands behind the last whole record, unless it is the end of the file."""
    rest = len(blocks.data) - blocks.at
    if kept > largest:
        report.break_off(f"a record of {kept} bytes is claimed", blocks.position)
    elif rest or blocks.fault:
        report.break_off(blocks.fault or "the file is cut short", blocks.position)
