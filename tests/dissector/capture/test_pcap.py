"""Classic pcap files: every variant, every place to cut one, and lengths that lie."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import dpkt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissect.nats.capture.pcap import HEADER, read_pcap
from dissect.nats.capture.reader import Blocks
from dissect.nats.capture.report import FileReport
from dissect.nats.types import Packet

from tests.support.paths import CAPTURES
from tests.support.pcapwriter import RAW, START_NS, Conversation, Record, pcap_file

SAMPLES = sorted(CAPTURES.glob("*.pcap"))
RECORDS = (
    Conversation()
    .handshake()
    .from_client(b"CONNECT {}\r\nPING\r\n")
    .from_server(b"PONG\r\n")
    .records
)


def read(data: bytes, pieces: Iterable[bytes] | None = None) -> tuple[list[Packet], FileReport]:
    report = FileReport("in/t.pcap", "t.pcap")
    blocks = Blocks(iter(pieces or [data]))
    assert blocks.fill(HEADER)
    return list(chain.from_iterable(read_pcap(blocks, report))), report


def contents(packets: Iterable[Packet]) -> list[tuple[int, bytes, int]]:
    return [(packet.ts_ns, packet.data, packet.wire_bytes) for packet in packets]


def expected(records: Iterable[Record]) -> list[tuple[int, bytes, int]]:
    return [(record.ts_ns, record.data, record.length) for record in records]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_the_samples_have_the_records_that_dpkt_reads(path: Path) -> None:
    packets, report = read(path.read_bytes())
    with path.open("rb") as file:
        theirs = list(dpkt.pcap.Reader(file))
    assert [packet.data for packet in packets] == [data for _, data in theirs]
    for packet, (seconds, _) in zip(packets, theirs, strict=True):
        assert packet.ts_ns / 10**9 == pytest.approx(float(seconds), abs=10**-6, rel=0)
    assert [packet.number for packet in packets] == list(range(1, len(theirs) + 1))
    assert report.damage is None


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nanoseconds", [False, True])
def test_both_byte_orders_and_both_units(order: str, nanoseconds: bool) -> None:
    records = [Record(START_NS + 789 * nanoseconds, b"one"), Record(START_NS + 10**9, b"two", 99)]
    packets, report = read(pcap_file(records, RAW, order, nanoseconds))
    assert contents(packets) == expected(records)
    assert packets[1] == Packet(START_NS + 10**9, 2, "t.pcap", RAW, b"two", 99)
    assert report == FileReport(
        "in/t.pcap",
        "t.pcap",
        packets=2,
        captured_bytes=6,
        wire_bytes=3 + 99,
        cut_packets=1,
        first_ns=records[0].ts_ns,
        last_ns=records[1].ts_ns,
        linktypes=report.linktypes,
        snaplens=report.snaplens,
    )
    assert report.linktypes == {RAW: 2}
    assert report.snaplens == {262144: 2}


@pytest.mark.parametrize("order", ["<", ">"])
def test_longer_record_headers(order: str) -> None:
    data = struct.pack(order + "IHHiIII", 0xA1B2CD34, 2, 4, 0, 0, 65535, 1)
    data += (
        struct.pack(order + "4I8x", 5, 6, 3, 3)
        + b"one"
        + struct.pack(order + "4I8x", 7, 8, 3, 3)
        + b"two"
    )
    packets, report = read(data)
    assert [(packet.ts_ns, packet.data) for packet in packets] == [
        (5000006000, b"one"),
        (7000008000, b"two"),
    ]
    assert report.captured_bytes == 6


def test_a_file_without_packets_is_fine() -> None:
    packets, report = read(pcap_file([]))
    assert packets == []
    assert (report.packets, report.first_ns, report.last_ns, report.damage) == (0, None, None, None)


def test_bits_above_the_link_type_are_not_part_of_it() -> None:
    packets, _ = read(pcap_file(RECORDS, linktype=0x24000001))
    assert {packet.linktype for packet in packets} == {1}


def test_a_packet_never_has_fewer_bytes_than_were_captured() -> None:
    packets, _ = read(pcap_file([Record(START_NS, b"four", 2)]))
    assert packets[0].wire_bytes == 4


def test_the_last_time_is_the_latest() -> None:
    records = [Record(START_NS, b""), Record(START_NS + 5000, b""), Record(START_NS - 10**10, b"")]
    _, report = read(pcap_file(records))
    assert (report.first_ns, report.last_ns) == (START_NS, START_NS + 5000)


def test_a_cut_anywhere_keeps_everything_before_it() -> None:
    data = pcap_file(RECORDS)
    ends = [len(pcap_file(RECORDS[:count])) for count in range(len(RECORDS) + 1)]
    for size in range(HEADER, len(data) + 1):
        packets, report = read(data[:size])
        whole = sum(end <= size for end in ends) - 1
        assert contents(packets) == expected(RECORDS[:whole])
        assert report.packets == whole
        if size in ends:
            assert report.damage is None
        else:
            assert report.damage == (
                f"the file is cut short in packet {whole + 1}, at byte {ends[whole]};"
                " everything before it was read"
            )


def test_a_record_that_cannot_be_so_long_ends_the_reading() -> None:
    good = pcap_file(RECORDS[:2])
    packets, report = read(good + struct.pack("<4I", 1, 2, 0xFFFFFFFF, 60) + bytes(1000))
    assert contents(packets) == expected(RECORDS[:2])
    assert report.damage == (
        f"a record of 4294967295 bytes is claimed in packet 3, at byte {len(good)};"
        " everything before it was read"
    )


def test_captures_that_were_joined_byte_by_byte_are_recognized() -> None:
    """`cat a.pcap b.pcap`: the second header looks like a record without bytes, and one that is too long."""
    good = pcap_file(RECORDS)
    packets, report = read(good + good)
    assert contents(packets)[: len(RECORDS)] == expected(RECORDS)
    assert report.damage == (
        "the header of another capture (join captures with mergecap, not cat) in packet"
        f" {len(RECORDS) + 2}, at byte {len(good) + 16}; everything before it was read"
    )


def test_a_record_is_not_waited_for_that_cannot_be_so_long() -> None:
    def pieces() -> Iterable[bytes]:
        yield pcap_file(RECORDS[:1]) + struct.pack("<4I", 1, 2, 0x7FFFFFFF, 60)
        pytest.fail("asked for more")

    packets, report = read(b"", pieces())
    assert len(packets) == 1
    assert report.damage is not None


@pytest.mark.parametrize(
    ("snaplen", "read_all"), [(65535, False), (1 << 20, True), (1 << 31, True)]
)
def test_a_header_may_announce_larger_packets(snaplen: int, read_all: bool) -> None:
    records = [Record(START_NS, bytes(300_000))]
    packets, report = read(pcap_file(records, snaplen=snaplen))
    assert bool(packets) is read_all
    assert (report.damage is None) is read_all


@settings(deadline=None)
@given(st.integers(1, 400))
def test_the_size_of_the_pieces_does_not_matter(size: int) -> None:
    data = pcap_file(RECORDS)
    whole, _ = read(data)
    packets, report = read(b"", (data[at : at + size] for at in range(0, len(data), size)))
    assert packets == whole
    assert report.captured_bytes == sum(len(record.data) for record in RECORDS)
    assert report.first_ns == RECORDS[0].ts_ns


def test_packets_come_out_before_the_file_goes_on() -> None:
    data = pcap_file(RECORDS[:1])
    given_out: list[Packet] = []

    def pieces() -> Iterable[bytes]:
        yield data
        assert len(given_out) == 1
        yield pcap_file(RECORDS[1:2])[HEADER:]

    report = FileReport("t", "t")
    blocks = Blocks(iter(pieces()))
    blocks.fill(HEADER)
    for packets in read_pcap(blocks, report):
        given_out += packets
    assert len(given_out) == 2


def test_a_reader_that_is_closed_early_has_reported_what_it_read() -> None:
    report = FileReport("t", "t")
    half = len(pcap_file(RECORDS[:2]))
    blocks = Blocks(iter([pcap_file(RECORDS)[:half], pcap_file(RECORDS)[half:]]))
    blocks.fill(HEADER)
    packets = read_pcap(blocks, report)
    assert next(packets).first == 1
    packets.close()
    assert report.packets == 2
    assert (report.first_ns, report.last_ns) == (RECORDS[0].ts_ns, RECORDS[1].ts_ns)
    assert report.damage is None


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from(["<", ">"]))
def test_any_bytes_after_a_header_are_packets_or_damage(rest: bytes, order: str) -> None:
    data = pcap_file([], order=order) + rest
    packets, report = read(data)
    used = HEADER + sum(16 + len(packet.data) for packet in packets)
    assert used <= len(data)
    assert (report.damage is None) == (used == len(data))


@settings(deadline=None)
@given(st.data())
def test_flipped_bytes_are_packets_or_damage(data: st.DataObject) -> None:
    bad = bytearray(pcap_file(RECORDS))
    for _ in range(data.draw(st.integers(1, 5))):
        bad[data.draw(st.integers(4, len(bad) - 1))] = data.draw(st.integers(0, 255))
    packets, report = read(bytes(bad))
    assert len(packets) == report.packets
    if report.damage is None:
        assert list(dpkt.pcap.Reader(io.BytesIO(bad)))
