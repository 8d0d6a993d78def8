"""Slices keep the records of their inputs, in order of time, or refuse what would lose times."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from dissect.nats.capture import CaptureReport, read_packets
from dissect.nats.capture.slices import ChosenPackets, write_slice
from dissect.nats.errors import CaptureError

from tests.support.pcapwriter import (
    START_NS,
    Interface,
    Record,
    block,
    enhanced_packet,
    interface_block,
    option,
    pcap_file,
    section,
    simple_packet,
)

RECORDS = [Record(START_NS + number * 1000, bytes([number]) * number) for number in range(1, 7)]


def sliced(*files: tuple[Path, list[int]]) -> bytes:
    """The packets of these numbers; times as the files have them."""
    made = []
    for path, numbers in files:
        times = [packet.ts_ns for packet in read_packets([str(path)], CaptureReport())]
        each = ChosenPackets(str(path), times[numbers[0] - 1], times[numbers[0] - 1])
        for number in numbers:
            each.add(number, times[number - 1])
        made.append(each)
    output = BytesIO()
    write_slice([[str(path) for path, _ in files]], made, output)
    return output.getvalue()


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("nanoseconds", [False, True])
def test_pcap_records_are_copied(order: str, nanoseconds: bool, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(pcap_file(RECORDS, 101, order, nanoseconds, 96))
    expected = pcap_file([RECORDS[1], RECORDS[4]], 101, order, nanoseconds, 96)
    assert sliced((path, [2, 5])) == expected


def test_pcap_files_that_overlap_are_in_order_of_time(tmp_path: Path) -> None:
    odd, even = tmp_path / "odd", tmp_path / "even"
    odd.write_bytes(pcap_file(RECORDS[0::2], snaplen=100))
    even.write_bytes(pcap_file(RECORDS[1::2], snaplen=200))
    assert sliced((odd, [1, 2, 3]), (even, [1, 2])) == pcap_file(RECORDS[:5], snaplen=200)


@pytest.mark.parametrize("order", "<>")
def test_comments_and_names_of_pcapng_are_kept(order: str, tmp_path: Path) -> None:
    interface = Interface(tsresol=9)
    comment = option(1, b"look here", order) + option(0, b"", order)
    names = block(
        4, bytes.fromhex("0001000a" if order == ">" else "01000a00") + b"\x7f\0\0\1a.b\0", order
    )
    packets = [enhanced_packet(record, interface, order, comment) for record in RECORDS]
    head = section(order, comment) + interface_block(interface, order) + names
    path = tmp_path / "a"
    path.write_bytes(head + b"".join(packets) + names)
    assert sliced((path, [3, 6])) == head + packets[2] + packets[5] + names


def test_pcap_beside_pcapng_becomes_a_section(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_bytes(pcap_file(RECORDS[:3], 101, snaplen=64))
    packets = [enhanced_packet(record, Interface()) for record in RECORDS[3:]]
    second.write_bytes(section() + interface_block(Interface()) + b"".join(packets))
    out = tmp_path / "out"
    out.write_bytes(sliced((first, [1, 3]), (second, [2])))
    found = [
        (packet.ts_ns, packet.linktype, packet.data)
        for packet in read_packets([str(out)], CaptureReport())
    ]
    kept = [(101, RECORDS[0]), (101, RECORDS[2]), (1, RECORDS[4])]
    assert found == [(record.ts_ns, linktype, record.data) for linktype, record in kept]


def test_captures_that_overlap_become_one_section(tmp_path: Path) -> None:
    one, two, later = tmp_path / "one", tmp_path / "two", tmp_path / "later"
    one.write_bytes(pcap_file(RECORDS[:5], 1))
    two.write_bytes(pcap_file(RECORDS[:5], 101))
    later.write_bytes(pcap_file(RECORDS[5:], 113))
    out = tmp_path / "out"
    out.write_bytes(sliced((later, [1]), (one, [1, 4]), (two, [2, 4])))
    found = [(each.linktype, each.data) for each in read_packets([str(out)], CaptureReport())]
    kept = [(1, 0), (101, 1), (1, 3), (101, 3), (113, 5)]
    assert found == [(linktype, RECORDS[index].data) for linktype, index in kept]
    assert out.read_bytes().count(section()[:4]) == 2


def test_what_would_lose_times_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "simple"
    path.write_bytes(section() + interface_block(Interface()) + simple_packet(Record(0, b"1234")))
    with pytest.raises(CaptureError, match="simple packet blocks"):
        sliced((path, [1]))
