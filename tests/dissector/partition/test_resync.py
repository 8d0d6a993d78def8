"""Guesses of where a record begins: right where nobody tries to fool them, and cheap on any bytes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from dissect.nats.partition.resync import first_record, span

from tests.dissector.partition.cutting import modified, packets
from tests.support.pcapwriter import Record, pcap_file, pcapng_file, section

MANY = packets(1500)


def starts(records: list[Record], header: int, first: int) -> list[int]:
    """Where the records of a pcap file begin."""
    at = [first]
    for record in records:
        at.append(at[-1] + header + len(record.data))
    return at


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("longer", [False, True])
def test_a_record_of_a_pcap_is_found(order: str, longer: bool) -> None:
    data = modified(MANY, order) if longer else pcap_file(MANY, order=order)
    places = starts(MANY, 24 if longer else 16, 24)
    chance = random.Random(1)
    need = 2 * span(data[:24]) + 64
    for place in (chance.randrange(24, len(data) - need) for _ in range(100)):
        expected = min(at for at in places if at >= place)
        assert first_record(data[:24], data[place : place + need], False) == expected - place


@pytest.mark.parametrize("order", "<>")
def test_a_block_of_a_pcapng_is_found(order: str) -> None:
    data = pcapng_file(MANY, order=order)
    context = section(order)
    places, at = [], 0
    while at < len(data):
        places.append(at)
        at += int.from_bytes(data[at + 4 : at + 8], "little" if order == "<" else "big")
    chance = random.Random(1)
    need = 2 * span(context) + 64
    for place in (chance.randrange(0, len(data) - need, 4) for _ in range(100)):
        expected = min(at for at in places if at >= place)
        assert first_record(context, data[place : place + need], False) == expected - place


def test_near_the_end_of_the_file_a_record_is_found() -> None:
    data = pcap_file(MANY)
    places = starts(MANY, 16, 24)
    for last in (2, 3, 10, 50):
        place = places[-last - 1] - 5
        assert first_record(data[:24], data[place:], True) == 5
        assert first_record(data[:24], data[place:], False) is None


@pytest.mark.parametrize("fill", [b"\0", b"\1", b"\xff", b"\x60"])
def test_bytes_that_are_no_record_end_the_search(fill: bytes) -> None:
    context = pcap_file([])
    data = (fill * (2 * span(context)))[: 2 * span(context)] + b"\xff" * 64
    for head in (context, section()):
        found = first_record(head, data, False)
        assert found is None or fill == b"\0"


def test_random_bytes_hold_no_record() -> None:
    data = random.Random(1).randbytes(2 * span(section()) + 64)
    assert first_record(pcap_file([]), data, False) is None
    assert first_record(section(), data, False) is None


def test_the_span_is_the_largest_record_that_is_usual() -> None:
    assert span(pcap_file([], snaplen=65535)) == 65535 + 16
    assert span(pcap_file([], snaplen=0)) == 262144 + 16
    assert span(pcap_file([], snaplen=0xFFFFFFFF, order=">")) == 262144 + 16


@pytest.mark.parametrize("nanoseconds", [False, True])
def test_a_record_is_not_found_after_its_start(nanoseconds: bool) -> None:
    """Four bytes further on stand a time, a fraction and a length as well, if the packet allows it."""
    records = [replace(record, data=b"\0\0\2\0" + record.data) for record in MANY]
    data = pcap_file(records, nanoseconds=nanoseconds)
    for place in starts(records, 16, 24)[:30]:
        part = data[place + 4 : place + 4 + 2 * span(data[:24])]
        assert first_record(data[:24], part, False) != 0
