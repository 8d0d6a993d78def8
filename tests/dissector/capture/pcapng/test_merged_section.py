"""Captures that overlap: one section, in order of time, in which every interface keeps its times."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from dissect.nats.capture import CaptureReport, read_packets
from dissect.nats.capture.pcapng import merged_section
from dissect.nats.capture.pcapng.merged_section import Block, BlockSource, write_merged
from dissect.nats.errors import CaptureError

from tests.support.pcapwriter import (
    START_NS,
    Interface,
    Record,
    block,
    enhanced_packet,
    interface_block,
    option,
    section,
)

MILLI, NANO, BINARY = Interface(tsresol=3), Interface(101, tsresol=9), Interface(113, tsresol=0x94)
BASE_NS = START_NS - START_NS % 10**9
LATER = Interface(tsoffset=1_000_000)


def source(name: str, *blocks: bytes) -> BlockSource:
    def read() -> Iterator[Block]:
        order = "<"
        for data in blocks:
            if data[:4] == b"\n\r\r\n":
                order = ">" if data[8:12] == b"\x1a\x2b\x3c\x4d" else "<"
            yield Block(order, struct.unpack_from(order + "I", data)[0], data)

    return BlockSource(name, read)


def merged(*sources: BlockSource) -> bytes:
    output = BytesIO()
    write_merged(sources, output)
    return output.getvalue()


def packet(at: int, interface: Interface, number: int = 0, options: bytes = b"") -> bytes:
    """A packet at a millisecond, of the interface with this number in its section."""
    record = Record(BASE_NS + at * 10**6, b"%d" % at, interface=number)
    return enhanced_packet(record, interface, options=options)


def statistics(number: int, drops: int) -> bytes:
    return block(5, struct.pack("<3I", number, 0, 0) + option(5, struct.pack("<Q", drops)))


def described(path: Path, contents: bytes) -> tuple[list[tuple[int, int, bytes]], CaptureReport]:
    """Millisecond, link type and data of each packet; and what the report says of the file."""
    path.write_bytes(contents)
    report = CaptureReport()
    found = [
        ((each.ts_ns - BASE_NS) // 10**6, each.linktype, each.data)
        for each in read_packets([str(path)], report)
    ]
    return found, report


@pytest.mark.parametrize("first, second", [(MILLI, NANO), (NANO, BINARY), (LATER, MILLI)])
def test_interfaces_keep_their_times(first: Interface, second: Interface, tmp_path: Path) -> None:
    one = source("1", section(), interface_block(first), *(packet(at, first) for at in (1, 4, 5)))
    two = source("2", section(), interface_block(second), *(packet(at, second) for at in (2, 6, 9)))
    found, report = described(tmp_path / "t", merged(one, two))
    kept = [(1, first), (2, second), (4, first), (5, first), (6, second), (9, second)]
    expected = [(at, each.linktype, b"%d" % at) for at, each in kept]
    if BINARY in (first, second):  # a tick is about a microsecond, and no whole number of them
        found = [(int(data), linktype, data) for _, linktype, data in found]
    assert found == expected
    assert not report.damaged and [each.packets for each in report.files[0].interfaces] == [3, 3]


def test_at_the_same_time_the_first_capture_comes_first(tmp_path: Path) -> None:
    one = source("1", section(), interface_block(MILLI), packet(4, MILLI), packet(4, MILLI))
    two = source("2", section(), interface_block(NANO), packet(4, NANO))
    found, _ = described(tmp_path / "t", merged(one, two))
    assert [linktype for _, linktype, _ in found] == [1, 1, 101]


def test_all_blocks_and_options_are_kept(tmp_path: Path) -> None:
    comment, other = option(1, b"tap a"), option(1, b"tap b")
    hardware = option(2, b"x86")
    names = block(4, b"\1\0\x0a\0\x7f\0\0\1a.b\0\0\0" + bytes(4))
    look = option(1, b"look here") + option(0, b"")
    one = source(
        "1", section(options=hardware + comment), interface_block(MILLI), names, packet(1, MILLI),
        packet(5, MILLI, options=look), statistics(0, 3),
    )  # fmt: skip
    two = source(
        "2", section(options=option(2, b"arm") + other + comment), interface_block(MILLI),
        interface_block(NANO), packet(2, NANO, 1), packet(3, MILLI), statistics(1, 7), statistics(9, 1),
    )  # fmt: skip
    contents = merged(one, two)
    assert contents.startswith(section(options=hardware + comment + other + option(0, b"")))
    assert names in contents and look in contents and b"arm" not in contents
    found, report = described(tmp_path / "t", contents)
    assert [(at, linktype) for at, linktype, _ in found] == [(1, 1), (2, 101), (3, 1), (5, 1)]
    (file,) = report.files
    assert [each.interface_drops for each in file.interfaces] == [3, None, 7]
    assert file.comments == 3


def test_sections_of_one_capture_are_joined(tmp_path: Path) -> None:
    one = source(
        "1", section(), interface_block(MILLI), packet(1, MILLI), section(options=option(1, b"on")),
        interface_block(NANO), packet(6, NANO),
    )  # fmt: skip
    two = source("2", section(), interface_block(BINARY), packet(3, BINARY))
    contents = merged(one, two)
    found, report = described(tmp_path / "t", contents)
    assert [linktype for _, linktype, _ in found] == [1, 113, 101]
    assert contents.count(b"\n\r\r\n") == 1 and report.files[0].comments == 1


def test_two_byte_orders_are_refused() -> None:
    one = source("1", section(), interface_block(MILLI), packet(1, MILLI))
    two = source("2", section(">"))
    with pytest.raises(CaptureError, match="2: it overlaps in time with 1, which has another byte"):
        merged(one, two)


def test_an_obsolete_packet_names_its_interface(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = (BASE_NS + 2 * 10**6) // 1000
    body = struct.pack("<HH4I", 0, 0xFFFF, ticks >> 32, ticks & 0xFFFFFFFF, 1, 1) + b"2\0\0\0"
    one = source("1", section(), interface_block(MILLI), packet(1, MILLI))
    two = source("2", section(), interface_block(Interface(101)), block(2, body))
    found, _ = described(tmp_path / "t", merged(one, two))
    assert found == [(1, 1, b"1"), (2, 101, b"2")]
    monkeypatch.setattr(merged_section, "_MOST_OBSOLETE", 0)
    with pytest.raises(CaptureError, match="cannot name so many interfaces"):
        merged(one, two)
