"""pcapng files: sections, interfaces, resolutions, blocks of all kinds, and lengths that lie."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Sequence
from itertools import chain

import dpkt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissect.nats.capture.pcapng import HEADER, is_section, read_pcapng
from dissect.nats.capture.reader import Blocks
from dissect.nats.capture.report import FileReport
from dissect.nats.types import Packet

from tests.support.pcapwriter import (
    ETHERNET,
    RAW,
    START_NS,
    Conversation,
    Interface,
    Record,
    block,
    enhanced_packet,
    interface_block,
    option,
    pcapng_file,
    section,
    simple_packet,
)

RECORDS = (
    Conversation()
    .handshake()
    .from_client(b"CONNECT {}\r\nPING\r\n")
    .from_server(b"PONG\r\n")
    .records
)
ONE = Record(START_NS, b"one")
TWO = Record(START_NS + 1000, b"two!", 60)


def read(data: bytes, pieces: Iterable[bytes] | None = None) -> tuple[list[Packet], FileReport]:
    report = FileReport("in/t.pcapng", "t.pcapng")
    blocks = Blocks(iter(pieces or [data]))
    assert blocks.fill(HEADER)
    return list(chain.from_iterable(read_pcapng(blocks, report))), report


def contents(packets: Iterable[Packet]) -> list[tuple[int, bytes, int]]:
    return [(packet.ts_ns, packet.data, packet.wire_bytes) for packet in packets]


def expected(records: Iterable[Record]) -> list[tuple[int, bytes, int]]:
    return [(record.ts_ns, record.data, record.length) for record in records]


def test_a_section_is_known_by_its_two_magic_numbers() -> None:
    assert is_section(section("<")) and is_section(section(">"))
    assert not is_section(section()[:8])
    assert not is_section(b"\x0a\x0d\x0d\x0a" + bytes(8))


@pytest.mark.parametrize("order", ["<", ">"])
def test_both_byte_orders(order: str) -> None:
    packets, report = read(pcapng_file(RECORDS, order=order))
    assert contents(packets) == expected(RECORDS)
    assert [packet.number for packet in packets] == list(range(1, len(RECORDS) + 1))
    assert report.packets == len(RECORDS)
    assert report.captured_bytes == sum(len(record.data) for record in RECORDS)
    assert (report.first_ns, report.last_ns) == (RECORDS[0].ts_ns, RECORDS[-1].ts_ns)
    assert report.linktypes == {ETHERNET: len(RECORDS)}
    assert report.damage is None


def test_dpkt_reads_the_same_records() -> None:
    data = pcapng_file(RECORDS)
    packets, _ = read(data)
    theirs = list(dpkt.pcapng.Reader(io.BytesIO(data)))
    assert [packet.data for packet in packets] == [each for _, each in theirs]
    for packet, (seconds, _) in zip(packets, theirs, strict=True):
        assert packet.ts_ns / 10**9 == pytest.approx(float(seconds), abs=10**-6, rel=0)


@pytest.mark.parametrize(
    ("tsresol", "unit_ns"),
    [(None, 1000), (6, 1000), (9, 1), (3, 10**6), (0, 10**9), (0x80 | 30, 2)],
)
def test_every_resolution_of_time(tsresol: int | None, unit_ns: int) -> None:
    packets, _ = read(pcapng_file([ONE], [Interface(tsresol=tsresol)]))
    assert 0 <= START_NS - packets[0].ts_ns < unit_ns


@pytest.mark.parametrize("tsresol", [12, 15, 0x80 | 40])
def test_a_resolution_finer_than_nanoseconds(tsresol: int) -> None:
    packets, _ = read(pcapng_file([Record(123456789, b"")], [Interface(tsresol=tsresol)]))
    assert packets[0].ts_ns in (123456788, 123456789)


@pytest.mark.parametrize("offset", [100, -100])
def test_times_may_have_an_offset(offset: int) -> None:
    packets, _ = read(pcapng_file([ONE], [Interface(tsoffset=offset)]))
    assert packets[0].ts_ns == START_NS


def test_a_time_that_no_table_can_hold_is_the_last_one() -> None:
    offsets = [Interface(tsresol=0), Interface(tsresol=0, tsoffset=-(1 << 62))]
    records = [Record((1 << 62) * 10**9, b""), Record(-(1 << 62) * 10**9, b"", interface=1)]
    packets, _ = read(pcapng_file(records, offsets))
    assert [packet.ts_ns for packet in packets] == [(1 << 63) - 1, -(1 << 63)]


def test_each_packet_has_the_link_of_its_interface() -> None:
    interfaces = [Interface(ETHERNET), Interface(RAW, tsresol=9)]
    records = [ONE, Record(START_NS + 7, b"two", interface=1)]
    packets, report = read(pcapng_file(records, interfaces))
    assert [packet.linktype for packet in packets] == [ETHERNET, RAW]
    assert contents(packets) == expected(records)
    assert report.linktypes == {ETHERNET: 1, RAW: 1}


def test_a_new_section_begins_afresh() -> None:
    data = pcapng_file([ONE], [Interface(), Interface()]) + pcapng_file(
        [TWO], [Interface(RAW)], ">"
    )
    packets, report = read(data)
    assert contents(packets) == expected([ONE, TWO])
    assert [(packet.number, packet.linktype) for packet in packets] == [(1, ETHERNET), (2, RAW)]
    assert report.linktypes == {ETHERNET: 1, RAW: 1}


@pytest.mark.parametrize("order", ["<", ">"])
def test_simple_packets_have_the_time_before_them(order: str) -> None:
    head = section(order) + interface_block(Interface(RAW, snaplen=3), order)
    packets, _ = read(
        head + simple_packet(Record(0, b"one", 9), order) + simple_packet(Record(0, b"t"), order)
    )
    assert contents(packets) == [(0, b"one", 9), (0, b"t", 1)]
    packets, _ = read(
        head + enhanced_packet(ONE, Interface(), order) + simple_packet(Record(0, b"two"), order)
    )
    assert packets[1].ts_ns == START_NS


@pytest.mark.parametrize("order", ["<", ">"])
def test_obsolete_packet_blocks(order: str) -> None:
    ticks = START_NS // 1000
    sizes = struct.pack(order + "HH4I", 0, 7, ticks >> 32, ticks & 0xFFFFFFFF, 3, 9)
    data = section(order) + interface_block(Interface(), order) + block(2, sizes + b"one\0", order)
    packets, _ = read(data)
    assert contents(packets) == [(START_NS, b"one", 9)]


def test_other_blocks_and_options_are_passed_over() -> None:
    named = (
        option(2, b"eth0")
        + option(9, b"")
        + option(14, b"short")
        + option(0, b"")
        + option(9, b"\x09")
    )
    data = section(options=option(1, b"a comment")) + block(
        1, struct.pack("<HHI", RAW, 0, 0) + named
    )
    data += block(5, bytes(12)) + block(0x0BAD, b"custom") + block(10, b"keys")
    data += enhanced_packet(ONE, Interface(), options=option(1, b"hello")) + block(4, b"")
    packets, report = read(data)
    assert contents(packets) == expected([ONE])
    assert report.packets == 1
    assert report.damage is None
    assert report.comments == 2
    assert report.blocks == {
        "custom": 1,
        "decryption secrets": 1,
        "interface statistics": 1,
        "name resolution": 1,
    }


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (enhanced_packet(Record(0, b"x", interface=1), Interface()), "unknown interface"),
        (block(6, struct.pack("<5I", 0, 0, 0, 9, 9) + b"abcd"), "captured length too large"),
        (block(6, struct.pack("<5I", 0, 0, 0, 0xFFFFFFFF, 9)), "captured length too large"),
        (block(6, bytes(16)), "packet block too short"),
        (block(3, b""), "packet block too short"),
    ],
)
def test_a_packet_that_cannot_be_is_counted(bad: bytes, reason: str) -> None:
    head = section() + interface_block(Interface())
    packets, report = read(head + bad + enhanced_packet(ONE, Interface()))
    assert [(packet.number, packet.data) for packet in packets] == [(2, b"one")]
    assert report.skipped == {reason: 1}
    assert report.damage == f"unusable records were left out: {reason} (1)"


def test_a_simple_packet_without_an_interface_is_counted() -> None:
    packets, report = read(section() + simple_packet(ONE))
    assert packets == []
    assert report.skipped == {"unknown interface": 1}


def test_an_interface_block_too_short_still_has_its_number() -> None:
    data = section() + block(1, b"") + interface_block(Interface(RAW))
    packets, _ = read(data + enhanced_packet(Record(START_NS, b"one", interface=1), Interface()))
    assert packets[0].linktype == RAW
    packets, _ = read(data + enhanced_packet(ONE, Interface()))
    assert packets[0].linktype == -1


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (struct.pack("<II", 6, 0) + bytes(8), "a block of 0 bytes is claimed"),
        (struct.pack("<II", 6, 8) + bytes(8), "a block of 8 bytes is claimed"),
        (struct.pack("<II", 6, 33) + bytes(40), "a block of 33 bytes is claimed"),
        (struct.pack("<II", 6, 0xFFFFFFF0) + bytes(8), "a block of 4294967280 bytes is claimed"),
        (struct.pack("<II", 9, 16) + bytes(4) + b"\x14\0\0\0", "the two lengths of a block differ"),
        (
            b"\x0a\x0d\x0d\x0a" + struct.pack("<I", 28) + bytes(20),
            "a section without a byte order is",
        ),
        (block(0x0A0D0D0A, struct.pack("<I", 0x1A2B3C4D)), "a section without a byte order is"),
    ],
)
def test_a_block_that_cannot_be_ends_the_reading(bad: bytes, text: str) -> None:
    good = pcapng_file([ONE])
    packets, report = read(good + bad + enhanced_packet(TWO, Interface()))
    assert contents(packets) == expected([ONE])
    assert (
        report.damage == f"{text} in packet 2, at byte {len(good)}; everything before it was read"
    )


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_cut_anywhere_keeps_everything_before_it(order: str) -> None:
    data = pcapng_file(RECORDS[:4], order=order)
    ends = [len(pcapng_file(RECORDS[:count], order=order)) for count in range(5)]
    seams = [28, *ends]
    for size in range(HEADER, len(data) + 1):
        packets, report = read(data[:size])
        whole = max(0, sum(end <= size for end in ends) - 1)
        assert contents(packets) == expected(RECORDS[:whole])
        assert (report.damage is None) == (size in seams)
        if report.damage is not None:
            assert report.damage.startswith(
                f"the file is cut short in packet {whole + 1}, at byte "
            )


@settings(deadline=None)
@given(st.integers(1, 400))
def test_the_size_of_the_pieces_does_not_matter(size: int) -> None:
    data = pcapng_file(RECORDS)
    packets, _ = read(b"", (data[at : at + size] for at in range(0, len(data), size)))
    assert contents(packets) == expected(RECORDS)


def test_a_reader_that_is_closed_early_has_reported_what_it_read() -> None:
    report = FileReport("t", "t")
    half = len(pcapng_file(RECORDS[:1]))
    blocks = Blocks(iter([pcapng_file(RECORDS)[:half], pcapng_file(RECORDS)[half:]]))
    blocks.fill(HEADER)
    packets = read_pcapng(blocks, report)
    next(packets)
    packets.close()
    assert (report.packets, report.linktypes) == (1, {ETHERNET: 1})


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from(["<", ">"]))
def test_any_bytes_after_a_section_are_packets_or_damage(rest: bytes, order: str) -> None:
    packets, report = read(section(order) + interface_block(Interface(), order) + rest)
    assert len(packets) + sum(report.skipped.values()) == report.packets


@settings(deadline=None)
@given(st.data(), st.sampled_from([[Interface()], [Interface(RAW, 64, 9, 5), Interface()]]))
def test_flipped_bytes_are_packets_or_damage(
    data: st.DataObject, interfaces: Sequence[Interface]
) -> None:
    bad = bytearray(
        pcapng_file(RECORDS[:4], interfaces) + pcapng_file(RECORDS[4:], interfaces, ">")
    )
    for _ in range(data.draw(st.integers(1, 5))):
        bad[data.draw(st.integers(12, len(bad) - 1))] = data.draw(st.integers(0, 255))
    packets, report = read(bytes(bad))
    assert len(packets) + sum(report.skipped.values()) == report.packets
    assert all(-(1 << 63) <= packet.ts_ns < 1 << 63 for packet in packets)
