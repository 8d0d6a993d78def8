"""Walks over byte ranges, and the proof that they begin where records do."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dissect.nats.partition.byte_ranges import SMALLEST, cut
from dissect.nats.partition.record_index import (
    RecordChain,
    RecordIndex,
    joined,
    prove,
    prove_all,
    walk,
    walk_chain,
)

from tests.dissector.partition.cutting import (
    HOSTILE,
    backwards,
    packets,
    packets_of,
    same_when_cut,
    whole,
)
from tests.support.pcapwriter import (
    START_NS,
    Interface,
    Record,
    enhanced_packet,
    interface_block,
    pcap_file,
    section,
)


def written(folder: Path, data: bytes) -> Path:
    path = folder / "capture"
    path.write_bytes(data)
    return path


def test_a_walk_counts_the_records_of_an_extent(tmp_path: Path) -> None:
    records = packets(100)
    path = written(tmp_path, pcap_file(records))
    walked = walk(cut(str(path), 1 << 20)[0])
    assert (walked.next_record, walked.packets) == (path.stat().st_size, 100)
    times = [record.ts_ns for record in records]
    assert (walked.first_ns, walked.last_ns, walked.smallest_ns) == (times[0], times[-1], times[0])
    assert walked.rising and walked.report.damage is None
    again = pickle.loads(pickle.dumps(walked))
    assert again == walked


def test_a_walk_reports_times_that_go_back(tmp_path: Path) -> None:
    records = [Record(START_NS + ms * 10**6, b"") for ms in (5, 9, 2, 7)]
    walked = walk(cut(str(written(tmp_path, pcap_file(records))), 1 << 20)[0])
    assert not walked.rising
    assert (walked.first_ns, walked.smallest_ns, walked.last_ns) == (
        records[0].ts_ns,
        records[2].ts_ns,
        records[1].ts_ns,
    )
    many = written(tmp_path, pcap_file(backwards(packets(5000))))
    assert not walk(cut(str(many), 1 << 30)[0]).rising
    many = written(tmp_path, pcap_file(packets(5000)))
    assert walk(cut(str(many), 1 << 30)[0]).rising


def test_right_guesses_are_proven_in_one_round(tmp_path: Path) -> None:
    path = written(tmp_path, pcap_file(packets(3000)))
    walked = [walk(byte_range) for byte_range in cut(str(path), 1 << 18)]
    proven, again = prove(walked)
    assert again == [] and len(proven) == len(walked) > 3
    assert [each.byte_range.first for each in proven] == [
        1 + sum(each.packets for each in proven[:count]) for count in range(len(proven))
    ]
    assert not any(each.byte_range.guessed for each in proven)


def test_a_wrong_start_is_walked_again(tmp_path: Path) -> None:
    path = written(tmp_path, pcap_file(packets(3000)))
    walked = [walk(byte_range) for byte_range in cut(str(path), 1 << 18)]
    right = walked[2]
    moved = replace(right.byte_range, start=right.byte_range.start + 4)
    walked[2] = walk(moved)
    proven, again = prove(walked)
    assert len(proven) == 2
    assert [(byte_range.number, byte_range.start) for byte_range in again] == [
        (2, right.byte_range.start)
    ]
    walked[2] = walk(again[0])
    proven, again = prove(walked)
    assert again == [] and packets_of(proven) == whole([path])[0]


def test_a_later_extent_with_the_right_start_waits_for_no_other(tmp_path: Path) -> None:
    path = written(tmp_path, pcap_file(packets(3000)))
    walked = [walk(byte_range) for byte_range in cut(str(path), 1 << 18)]
    for number in (1, 4):
        byte_range = walked[number].byte_range
        end = walked[number].next_record
        walked[number] = replace(
            walked[number],
            byte_range=replace(byte_range, start=byte_range.start + 16),
            ended=walked[number].ended,
        )
        assert walked[number].next_record == end
    _, again = prove(walked)
    assert [byte_range.number for byte_range in again] == [1, 4]


def test_no_extent_after_damage_is_proven(tmp_path: Path) -> None:
    path = written(tmp_path, HOSTILE["damaged pcap"])
    walked = [walk(byte_range) for byte_range in cut(str(path), SMALLEST)]
    proven, again = prove(walked)
    while again:
        for byte_range in again:
            walked[byte_range.number] = walk(byte_range)
        proven, again = prove(walked)
    assert proven[-1].report.fault and len(proven) < len(walked)
    assert joined(proven).damage == whole([path])[1][0].damage


def test_sections_of_either_byte_order_take_few_rounds(tmp_path: Path) -> None:
    path = written(tmp_path, HOSTILE["sections"])
    rounds: list[int] = []

    def walks(chains: Sequence[RecordChain]) -> Iterator[list[RecordIndex]]:
        rounds.append(len(chains))
        return map(walk_chain, chains)

    byte_ranges = cut(str(path), SMALLEST)
    (walked,), wrong = prove_all([byte_ranges], walks)
    assert packets_of(walked) == whole([path])[0]
    assert wrong >= sum(rounds[1:]) > 0 and len(rounds) < 8 < len(byte_ranges)


def test_the_context_of_late_interfaces_takes_one_more_round(tmp_path: Path) -> None:
    interface = Interface(tsresol=9)
    late = Record(START_NS, b"late", interface=1)
    records = [enhanced_packet(record, interface) for record in packets(400)]
    records[100:100] = [interface_block(interface), enhanced_packet(late, interface)]
    path = written(tmp_path, section() + interface_block(interface) + b"".join(records))
    rounds: list[int] = []

    def walks(chains: Sequence[RecordChain]) -> Iterator[list[RecordIndex]]:
        rounds.append(len(chains))
        return map(walk_chain, chains)

    byte_ranges = cut(str(path), SMALLEST)
    (walked,), wrong = prove_all([byte_ranges], walks)
    assert packets_of(walked) == whole([path])[0]
    assert len(rounds) == 2 and wrong == rounds[1] > len(byte_ranges) // 2


def test_a_capture_that_always_fools_the_guess_needs_few_rounds(tmp_path: Path) -> None:
    inner = pcap_file([Record(START_NS, bytes(30)) for _ in range(40)])[24:] + b"\xff" * 20
    path = written(tmp_path, pcap_file([Record(START_NS, inner)] * 60, snaplen=64))
    rounds = 0

    def walks(chains: Sequence[RecordChain]) -> Iterator[list[RecordIndex]]:
        nonlocal rounds
        rounds += 1
        return map(walk_chain, chains)

    byte_ranges = cut(str(path), SMALLEST)
    (walked,), wrong = prove_all([byte_ranges], walks)
    assert packets_of(walked) == whole([path])[0]
    assert 0 < wrong and rounds < 15 < len(byte_ranges)


@pytest.mark.parametrize("name", ["simple", "huge", "pcap in pcap"])
def test_a_chain_needs_no_guess(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, HOSTILE[name])
    proven, again = prove(walk_chain(tuple(cut(str(path), SMALLEST))))
    assert again == [] and packets_of(proven) == whole([path])[0]
    same_when_cut(path, SMALLEST)
