"""The compiled functions stop at what they do not read."""

from __future__ import annotations

import numpy as np
import pytest

from dissect.nats.kernel import record_headers as headers

from tests.dissector.kernel.both import KERNEL
from tests.support.pcapwriter import (
    Interface,
    Record,
    enhanced_packet,
    option,
    pcap_file,
    simple_packet,
)

pytestmark = KERNEL

PACKETS = [Record(1_500_000_000_000_000_000 + 1000 * at, b"x" * (at + 1)) for at in range(5)]


def read(data: bytes, at: int, room: int = 8) -> tuple[list[list[int]], list[int]]:
    """The packets of a pcap file from `at` on, and what is known about them."""
    places, sums = np.zeros((room, 4), np.int64), np.zeros(headers.R_WIDTH, np.int64)
    text = np.frombuffer(data, np.uint8)
    count = headers.read_pcap(text, at, len(data), False, 1000, 16, 65535, 10**9, places, sums)
    return places[:count].tolist(), sums.tolist()


def enhanced(data: bytes, interface: int = 0, times: int = 1000) -> int:
    """How many enhanced packet blocks are read."""
    places, sums = np.zeros((8, 4), np.int64), np.zeros(headers.R_WIDTH, np.int64)
    form = 0, len(data), False, interface, times, 0, 10**9
    return int(headers.read_enhanced(np.frombuffer(data, np.uint8), *form, places, sums))


def test_records_are_read_up_to_one_that_is_cut() -> None:
    places, sums = read(pcap_file(PACKETS)[:-1], 24)
    assert [ts_ns for ts_ns, *_ in places] == [packet.ts_ns for packet in PACKETS[:4]]
    assert sums[headers.R_AT] == 24 + 4 * 16 + 10
    assert sums[headers.R_CLAIMED] == 5


def test_no_more_records_are_read_than_there_is_room_for() -> None:
    places, sums = read(pcap_file(PACKETS), 24, room=2)
    assert len(places) == 2
    assert sums[headers.R_AT] == 24 + 2 * 16 + 3 and sums[headers.R_CLAIMED] == 0


@pytest.mark.parametrize(
    "other",
    [
        simple_packet(PACKETS[0]),
        enhanced_packet(Record(1, b"x", interface=1), Interface()),
        enhanced_packet(PACKETS[0], Interface(), options=option(1, b"comment")),
        enhanced_packet(PACKETS[0], Interface(), options=option(4, bytes(8))),
        enhanced_packet(PACKETS[0], Interface())[:-4] + bytes(4),
        enhanced_packet(PACKETS[0], Interface())[:-4],
        enhanced_packet(Record(1 << 62, b"x"), Interface(tsresol=9)),
    ],
    ids=("simple", "interface", "comment", "drops", "lengths", "cut", "time"),
)
def test_blocks_are_read_up_to_one_that_is_not_usual(other: bytes) -> None:
    good = b"".join(enhanced_packet(packet, Interface()) for packet in PACKETS)
    assert enhanced(good + other + good) == len(PACKETS)


def test_options_that_say_nothing_of_interest_are_passed_over() -> None:
    flags = option(2, bytes(4)) + option(0, b"")
    assert enhanced(2 * enhanced_packet(PACKETS[0], Interface(), options=flags)) == 2
