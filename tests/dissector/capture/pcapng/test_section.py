"""Sections of pcapng files: what interfaces, statistics, options and drop counts say."""

from __future__ import annotations

import struct
from itertools import chain

import pytest

from dissect.nats.capture import InterfaceReport
from dissect.nats.capture.pcapng import HEADER, read_pcapng
from dissect.nats.capture.pcapng.section import MOST_INTERFACES, interfaces_in
from dissect.nats.capture.reader import Blocks
from dissect.nats.capture.report import FileReport
from dissect.nats.types import Packet

from tests.support.pcapwriter import (
    ETHERNET,
    RAW,
    START_NS,
    Interface,
    Record,
    block,
    enhanced_packet,
    interface_block,
    option,
    section,
)

ONE = Record(START_NS, b"one", 60)
both_orders = pytest.mark.parametrize("order", ["<", ">"])


def read(data: bytes) -> tuple[list[Packet], FileReport]:
    report = FileReport("in/t.pcapng", "t.pcapng")
    blocks = Blocks(iter([data]))
    assert blocks.fill(HEADER)
    return list(chain.from_iterable(read_pcapng(blocks, report))), report


def statistics(order: str, index: int, **numbers: int) -> bytes:
    codes = {"received": 4, "interface": 5, "accepted": 6, "system": 7}
    body = struct.pack(order + "3I", index, 0, 0)
    body += option(1, b"Counters provided by dumpcap", order)
    for name, value in numbers.items():
        body += option(codes[name], struct.pack(order + "Q", value), order)
    return block(5, body + option(0, b"", order), order)


@both_orders
def test_interfaces_have_names_lengths_and_drops(order: str) -> None:
    named = struct.pack(order + "HHI", RAW, 0, 96) + option(2, b"eth0", order)
    data = section(order) + block(1, named, order) + interface_block(Interface(), order)
    data += enhanced_packet(ONE, Interface(), order)
    data += statistics(order, 0, received=9, interface=2, system=3)
    data += statistics(order, 0, received=99, interface=20, system=30)
    data += statistics(order, 7, interface=4)
    packets, report = read(data)
    assert len(packets) == 1
    assert report.interfaces == [
        InterfaceReport(RAW, 96, "eth0", 1, 20, 30),
        InterfaceReport(ETHERNET, 0),
    ]
    assert report.dropped == 50
    assert (report.comments, report.blocks) == (3, {"interface statistics": 3})
    assert (report.linktypes, report.snaplens) == ({RAW: 1}, {96: 1})
    assert (report.captured_bytes, report.wire_bytes, report.cut_packets) == (3, 60, 1)


@both_orders
def test_packets_tell_of_drops_before_them(order: str) -> None:
    data = section(order) + interface_block(Interface(), order)
    for drops in (3, 4):
        options = option(4, struct.pack(order + "Q", drops), order)
        data += enhanced_packet(ONE, Interface(), order, options)
    for drops in (5, 0xFFFF):  # the second: nobody knows
        head = struct.pack(order + "HH4I", 0, drops, 0, 0, 3, 3)
        data += block(2, head + b"old", order)
    packets, report = read(data)
    assert [packet.data for packet in packets] == [b"one", b"one", b"old", b"old"]
    assert report.interfaces[0].packet_drops == report.dropped == 12


def test_the_interfaces_of_all_sections_are_reported() -> None:
    data = b"".join(
        section(order)
        + interface_block(Interface(linktype), order)
        + enhanced_packet(ONE, Interface(), order)
        for order, linktype in (("<", RAW), (">", ETHERNET))
    )
    packets, report = read(data)
    assert [(packet.linktype, packet.number) for packet in packets] == [(RAW, 1), (ETHERNET, 2)]
    assert [each.linktype for each in report.interfaces] == [RAW, ETHERNET]


def test_interfaces_without_end_take_no_memory() -> None:
    data = section() + interface_block(Interface()) * (MOST_INTERFACES + 9)
    _, report = read(data + enhanced_packet(Record(0, b"", None, MOST_INTERFACES), Interface()))
    assert len(report.interfaces) == MOST_INTERFACES
    assert report.skipped == {
        f"interface beyond the first {MOST_INTERFACES}": 9,
        "unknown interface": 1,
    }


def test_blocks_that_nobody_knows_are_counted() -> None:
    _, report = read(section() + block(0x12345, b"abcd") * 3 + block(0xBAD, b"abcd"))
    assert report.blocks == {"unknown": 3, "custom": 1}


def test_options_that_do_not_fit_are_left_alone() -> None:
    body = struct.pack("<HHI", RAW, 0, 0) + struct.pack("<HH", 2, 999) + b"eth0"
    _, report = read(section() + block(1, body) + block(5, b"short---"))
    assert report.interfaces == [InterfaceReport(RAW, 0)]
    assert report.damage is None


@both_orders
def test_a_context_makes_a_capture_of_what_follows(order: str) -> None:
    interface = Interface(RAW, 96, tsresol=9, tsoffset=3)
    named = struct.pack(order + "HHI", RAW, 0, 96)
    named += option(1, b"a comment", order) + option(2, b"eth0", order)
    named += option(3, bytes(2000), order) + option(0, b"", order)
    packet = enhanced_packet(ONE, interface, order)
    head = section(order, option(1, b"another", order))
    head += block(1, named, order) + interface_block(interface, order) + block(1, b"", order)
    reading = read_pcapng(filled(head + packet), FileReport("", ""))
    with pytest.raises(StopIteration) as end:
        while True:
            next(reading)
    ended = end.value.value
    assert (ended.next_record, ended.described, ended.borrows_time) == (
        len(head + packet),
        3,
        False,
    )
    assert interfaces_in(ended.context) == 3 and interfaces_in(b"") == 0
    again, report = read(ended.context + packet)
    assert [each.ts_ns for each in again] == [each.ts_ns for each in read(head + packet)[0]]
    assert (report.comments, report.interfaces[0].name) == (0, "eth0")
    assert b"comment" not in ended.context and len(ended.context) < 200


def filled(data: bytes) -> Blocks:
    blocks = Blocks(iter([data]))
    assert blocks.fill(HEADER)
    return blocks
