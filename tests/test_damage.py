"""Damage does exactly what it says: packet for packet, and byte for byte where nothing is done."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.support.damage import (
    Pcap,
    Record,
    cut,
    drop,
    duplicate,
    harm,
    pcap_bytes,
    read_pcap,
    segment,
    snap,
    start_at,
    stream_offsets,
    swap,
)
from tests.support.paths import CAPTURES

CLASSIC = sorted(CAPTURES.glob("*.pcap"))
BULK = max(CAPTURES.glob("bulk-*.pcap"), default=CAPTURES / "bulk.pcap")

RECORDS = [Record(number * 10**9, bytes([number]) * 100, 100) for number in range(5)]


def firsts(records: list[Record]) -> list[int]:
    return [record.data[0] for record in records]


@pytest.mark.parametrize("path", CLASSIC, ids=lambda path: path.name)
def test_an_undamaged_file_comes_back_as_it_was(path: Path) -> None:
    data = path.read_bytes()
    assert pcap_bytes(read_pcap(data)) == data


@pytest.mark.parametrize("order, magic, unit_ns", [("<", 0xA1B2C3D4, 1000), (">", 0xA1B23C4D, 1)])
def test_both_byte_orders_and_both_units(order: str, magic: int, unit_ns: int) -> None:
    header = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, 101)
    pcap = Pcap(header, (Record(5 * 10**9 + 7 * unit_ns, b"abc", 60),))
    assert pcap.linktype == 101
    assert read_pcap(pcap_bytes(pcap)) == pcap


def test_what_is_no_pcap_is_refused() -> None:
    with pytest.raises(ValueError, match="not a pcap"):
        read_pcap(b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n")


def test_drop_swap_and_duplicate() -> None:
    assert firsts(drop(RECORDS, {1, 3})) == [0, 2, 4]
    swapped = swap(RECORDS, 1, 3)
    assert firsts(swapped) == [0, 3, 2, 1, 4]
    assert [record.ts_ns for record in swapped] == [record.ts_ns for record in RECORDS]
    doubled = duplicate(RECORDS, 1, later=3)
    assert firsts(doubled) == [0, 1, 2, 3, 1, 4]
    assert [record.ts_ns // 10**9 for record in doubled] == [0, 1, 2, 3, 3, 4]
    assert firsts(duplicate(RECORDS, 4, later=3)) == [0, 1, 2, 3, 4, 4]


def test_snap_keeps_the_length_on_the_wire() -> None:
    short = snap(RECORDS, 96)
    assert {(len(record.data), record.length) for record in short} == {(96, 100)}
    assert snap(RECORDS, 200) == RECORDS


def test_start_at() -> None:
    assert firsts(start_at(RECORDS, 3)) == [3, 4]


def test_a_file_cut_in_mid_record_has_the_records_before() -> None:
    data = BULK.read_bytes()
    whole = read_pcap(data)
    for kept in (1, 15, 16, 20):
        part = cut(data, 7, kept)
        assert data.startswith(part)
        assert read_pcap(part).records == whole.records[:7]


def test_segments_of_a_capture_join_without_gaps() -> None:
    records = read_pcap(BULK.read_bytes()).records
    expected: dict[str, int] = {}
    for here, offset in stream_offsets(records).values():
        assert offset == expected.get(here.stream, 0)
        expected[here.stream] = offset + len(here.payload)
    assert len(expected) == 10  # five connections, both directions
    assert all(segment(record) is None for record in RECORDS)


def test_harm_says_what_it_did() -> None:
    records = read_pcap(BULK.read_bytes()).records
    after, done = harm(records, seed=3, losses=4, swaps=3, duplicates=2, smallest=50)
    assert (after, done) == harm(records, seed=3, losses=4, swaps=3, duplicates=2, smallest=50)
    assert (len(done.dropped), len(done.swapped), len(done.duplicated)) == (4, 3, 2)
    assert len(after) == len(records) - 4 + 2
    offsets = stream_offsets(records)
    seen = {(here.stream, here.seq) for here in map(segment, after) if here}
    for position in done.dropped:
        here, offset = offsets[position]
        assert offset > 0 and len(here.payload) >= 50
        assert (here.stream, here.seq) not in seen
    for first, second in done.swapped:
        assert offsets[first][0].stream == offsets[second][0].stream
        assert after.index(_data_of(records[first], after)) > after.index(
            _data_of(records[second], after)
        )
    times = [record.ts_ns for record in after]
    assert times == sorted(times)


def _data_of(record: Record, records: list[Record]) -> Record:
    """The record with the same packet, whatever its time."""
    return next(other for other in records if other.data == record.data)


def test_too_much_harm_is_refused() -> None:
    with pytest.raises(ValueError, match="too small"):
        harm(RECORDS, seed=1, losses=1, swaps=0, duplicates=0)
