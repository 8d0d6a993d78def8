"""Partitions: read one after the other, they are the timeline of all files, as merging whole files is."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissect.nats.capture import CaptureReport
from dissect.nats.errors import CaptureError
from dissect.nats.partition import partitions as module
from dissect.nats.partition.byte_ranges import SMALLEST
from dissect.nats.partition.partitions import partitions_of, read_partition

from tests.dissector.partition.cutting import (
    HOSTILE,
    SIZES,
    backwards,
    packets,
    same_in_partitions,
    settled,
    whole,
)
from tests.support.paths import CAPTURES
from tests.support.pcapwriter import START_NS, Record, pcap_file, pcapng_file


def shifted(records: Sequence[Record], ms: int) -> list[Record]:
    return [replace(record, ts_ns=record.ts_ns + ms * 10**6) for record in records]


def written(folder: Path, *captures: Sequence[Record]) -> list[Path]:
    paths = [folder / f"{number:03}" for number in range(len(captures))]
    for number, (path, records) in enumerate(zip(paths, captures, strict=True)):
        path.write_bytes((pcapng_file if number % 2 else pcap_file)(records))
    return paths


def test_files_that_do_not_overlap_are_read_extent_by_extent(tmp_path: Path) -> None:
    records = packets(300)
    paths = written(tmp_path, records[200:], records[:100], records[100:200])
    for size in SIZES:
        made = same_in_partitions(paths, size)
        assert all(len(one.byte_ranges) == 1 and one.begin_ns is None for one in made)
    assert [one.byte_ranges[0].capture for one in made] == ["001", "002", "000"]


def test_only_what_overlaps_is_read_together(tmp_path: Path) -> None:
    records = packets(900)
    paths = written(tmp_path, records[:310], shifted(records[295:600], 1), records[600:])
    made = same_in_partitions(paths, SMALLEST)
    assert [one.number for one in made] == list(range(len(made)))
    together = [one for one in made if len(one.byte_ranges) > 1]
    assert 0 < len(together) < 4 < len(made) / 4


def test_equal_times_belong_to_the_file_with_the_first_packet(tmp_path: Path) -> None:
    one = [replace(record, ts_ns=START_NS) for record in packets(60)]
    other = [replace(record, ts_ns=START_NS) for record in packets(60, 2)]
    early = [replace(record, ts_ns=START_NS - 10**9) for record in other[20:]]
    paths = written(tmp_path, one, [*other[:20], *early])
    for size in SIZES:
        same_in_partitions(paths, size)


@pytest.mark.parametrize("late", [False, True])
def test_two_taps_are_one_timeline(late: bool, tmp_path: Path) -> None:
    records = packets(400)
    other = shifted(packets(400, 2), 0)
    paths = written(tmp_path, backwards(records) if late else records, other)
    for size in SIZES:
        made = same_in_partitions(paths, size)
    made = same_in_partitions(paths, SMALLEST)
    largest = max(sum(byte_range.bytes for byte_range in one.byte_ranges) for one in made)
    assert len(made) > 20 and largest < 12 * SMALLEST
    assert all(one.bytes < 12 * SMALLEST for one in made)
    assert pickle.loads(pickle.dumps(made)) == made


def test_samples_are_one_timeline() -> None:
    paths = sorted(path for path in CAPTURES.glob("*.pcap*"))
    for size in (1 << 13, 1 << 16):
        same_in_partitions(paths, size)


def test_hostile_captures_are_one_timeline(tmp_path: Path) -> None:
    names = [name for name in HOSTILE if len(HOSTILE[name]) < 200_000]
    for number, name in enumerate(names):
        (tmp_path / f"{number:03}").write_bytes(HOSTILE[name])
    same_in_partitions(sorted(tmp_path.iterdir()), 1 << 14)


STEPS = st.lists(st.sampled_from([0, 0, 1, 2, 5, 30, -1, -4]), max_size=120)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 150), STEPS), min_size=1, max_size=5), st.integers())
def test_any_captures_are_one_timeline(
    tmp_path_factory: pytest.TempPathFactory, files: list[tuple[int, list[int]]], seed: int
) -> None:
    chance = random.Random(seed)
    captures = []
    for begin, steps in files:
        records = []
        ms = begin
        for step in steps:
            ms = max(ms + step, 0)
            data = chance.randbytes(chance.choice([60, 200, 400]))
            records.append(Record(START_NS + ms * 10**6, data))
        captures.append(records)
    same_in_partitions(written(tmp_path_factory.mktemp("any"), *captures), SMALLEST)


def test_a_partition_reports_what_it_read(tmp_path: Path) -> None:
    paths = written(tmp_path, packets(100), packets(100, 2))
    walked, _ = settled(paths, 1 << 20)
    (one,) = partitions_of(walked)
    report = CaptureReport()
    count = sum(len(run.places) for run in read_partition(one, report))
    assert count == sum(file.packets for file in report.files) == 200
    assert [file.capture for file in report.files] == ["000", "001"]


def test_more_captures_than_can_be_open_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_OPEN", 4)
    apart = written(tmp_path, *(shifted(packets(20, seed), 19 * seed) for seed in range(9)))
    walked, _ = settled(apart, SMALLEST)
    assert len(partitions_of(walked)) > 1
    together = written(tmp_path, *(packets(20, seed) for seed in range(5)))
    walked, _ = settled(together, SMALLEST)
    with pytest.raises(CaptureError, match="captures overlap in time; put some of them together"):
        partitions_of(walked)


def test_captures_without_packets_have_no_partition(tmp_path: Path) -> None:
    paths = written(tmp_path, [], packets(3), [])
    assert [one.byte_ranges[0].capture for one in same_in_partitions(paths, SMALLEST)] == ["001"]
    assert same_in_partitions(written(tmp_path, []), SMALLEST) == []
    assert whole([tmp_path / "000"])[0] == []
