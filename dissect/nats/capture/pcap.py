"""Classic pcap files -> packets: both byte orders, micro- and nanoseconds, Kuznetzov's longer records.

Follows draft-ietf-opsawg-pcap. Reading ends at a record that claims more bytes than any packet can have,
because the start of the next record is then unknown, or where the file ends inside a record. The report
notes either case, with the position; all records before it are read.
"""

from __future__ import annotations

import struct

from ..durations import CLOCK_STEP_NS
from ..types import PacketPlace, Packets
from .reader import NOWHERE, Blocks, Ended, Reading, RecordForm, RecordReaders, Records
from .report import FileReport

# First four bytes -> byte order, nanoseconds per unit of a timestamp's fraction, size of a record header.
MAGICS = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000, 16),
    b"\xa1\xb2\xc3\xd4": (">", 1000, 16),
    b"\x4d\x3c\xb2\xa1": ("<", 1, 16),
    b"\xa1\xb2\x3c\x4d": (">", 1, 16),
    b"\x34\xcd\xb2\xa1": ("<", 1000, 24),
    b"\xa1\xb2\xcd\x34": (">", 1000, 24),
}
HEADER = 24
_SNAPLEN_AT = 16  # snap length and link type are the last fields

# USUAL_SNAPLEN is libpcap's MAXIMUM_SNAPLEN: a packet may be this large whatever the file header says. A
# larger snap length in the header is valid up to LARGEST_SNAPLEN, the limit of libpcap and Wireshark for the
# links with the largest packets.
USUAL_SNAPLEN = 262144
LARGEST_SNAPLEN = 128 << 20


def format_name(magic: bytes) -> str:
    """The format of a file that begins with these bytes."""
    _, unit_ns, header = MAGICS[magic]
    return f"pcap, {'nano' if unit_ns == 1 else 'micro'}seconds" + ", modified" * (header == 24)


def largest_packet(snaplen: int) -> int:
    """The most bytes that a packet may have in a file with this snap length."""
    return max(USUAL_SNAPLEN, min(snaplen, LARGEST_SNAPLEN))


def read_pcap(
    blocks: Blocks,
    report: FileReport,
    stop: int = NOWHERE,
    readers: RecordReaders | None = None,
) -> Reading:
    """The packets of a file, one block of the file at a time, except those that begin at byte `stop` of the
    file or later. The file header must be complete. `report` counts packets before they are yielded.
    """
    head = blocks.data[blocks.at : blocks.at + HEADER]
    order, unit_ns, header = MAGICS[head[:4]]
    snaplen, linktype = struct.unpack_from(order + "II", head, 16)
    largest = largest_packet(snaplen)
    # The upper bits are the length of the frame check sequence. It is ignored: IP lengths exclude it.
    linktype &= 0xFFFF
    form = RecordForm(order, unit_ns, header=header, largest=largest)
    claimed = 0
    blocks.at += HEADER
    while claimed <= largest and blocks.position < stop and blocks.fill(header + claimed):
        read = readers and readers.pcap or read_records
        last = stop - blocks.position + blocks.at - 1
        records = read(blocks.data, blocks.at, last, form)
        claimed = records.claimed
        if count := len(records.places):
            first = report.before + report.packets + 1
            report.packets += count
            report.captured_bytes += records.captured
            report.wire_bytes += records.captured + records.missing
            report.cut_packets += records.cut
            report.linktypes[linktype] += count
            report.snaplens[snaplen] += count
            least_ns = records.least_ns if records.back_ns else None
            report.saw(records.places[0][0], records.latest_ns, least_ns, records.back_ns)
            yield Packets(report.capture, linktype, blocks.data, first, records.places)
        blocks.at = records.at
    if blocks.position < stop:
        _note_damage(blocks, report, claimed, largest, head)
    return Ended(blocks.position, head)


def read_records(data: bytes, at: int, last: int, form: RecordForm) -> Records:
    """The records of `data` from `at` on, those that begin at `last` at the latest."""
    unit_ns, header, largest = form.times, form.header, form.largest
    unpack = struct.Struct(form.order + "4I").unpack_from
    size, begin = len(data), at
    last = min(size - header, last)
    second = second_ns = 0
    latest_ns = least_ns = -1
    claimed = cut = missing = back_ns = 0
    places: list[PacketPlace] = []
    place = places.append
    while at <= last:
        seconds, fraction, kept, length = unpack(data, at)
        start = at + header
        end = start + kept
        if end > size or kept > largest:
            claimed = kept
            break
        if seconds != second:
            second, second_ns = seconds, seconds * 1_000_000_000
        ts_ns = second_ns + fraction * unit_ns
        if ts_ns > latest_ns:
            latest_ns = ts_ns
        elif ts_ns < latest_ns - CLOCK_STEP_NS:
            least_ns = min(ts_ns, least_ns if back_ns else ts_ns)
            back_ns = max(back_ns, latest_ns - ts_ns)
        if length != kept:
            if length > kept:
                cut += 1
                missing += length - kept
            else:
                length = kept
        at = end
        place((ts_ns, start, end, length))
    captured = at - begin - len(places) * header
    return Records(places, at, claimed, latest_ns, least_ns, back_ns, captured, missing, cut)


def _note_damage(blocks: Blocks, report: FileReport, kept: int, largest: int, head: bytes) -> None:
    """Notes damage or a cut record after the last whole record, if there is any. `head` is the file header.
    If another file follows (joined with cat), the first 16 bytes of its header look like an empty record, and
    reading ends at the rest of that header.
    """
    rest = len(blocks.data) - blocks.at
    if kept > largest and blocks.data.startswith(head[_SNAPLEN_AT:], blocks.at):
        reason = "the header of another capture (join captures with mergecap, not cat)"
        report.break_off(reason, blocks.position)
    elif kept > largest:
        report.break_off(f"a record of {kept} bytes is claimed", blocks.position)
    elif rest or blocks.fault:
        report.break_off(blocks.fault or "the file is cut short", blocks.position)
