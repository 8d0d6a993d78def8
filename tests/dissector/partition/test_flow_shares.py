"""Shares of flows: every segment is in one of them, and their work is about equal."""

from __future__ import annotations

from collections import Counter

import pytest

from dissect.nats.capture import CaptureReport, read_runs
from dissect.nats.packet import PacketParser, flow_hash
from dissect.nats.partition import flow_shares
from dissect.nats.partition.flow_shares import FlowShares, divided, sampled
from dissect.nats.types import Segment

from tests.support.paths import CAPTURES

CORE = str(CAPTURES / "core-2.15.1.pcap")


def segments_of(parser: PacketParser) -> list[Segment]:
    found = parser.segments(read_runs([CORE], CaptureReport()))
    return [each for each in found if isinstance(each, Segment)]


def test_every_segment_is_in_one_share() -> None:
    work = sampled(read_runs([CORE], CaptureReport()))
    shares = divided([work], 3)
    parts = [segments_of(PacketParser(shares.share(number).has)) for number in range(3)]
    assert all(parts)
    every = segments_of(PacketParser())
    assert sorted(one.ordinal for part in parts for one in part) == [one.ordinal for one in every]
    hashes = [{flow_hash(one.key) for one in part} for part in parts]
    assert sum(map(len, hashes)) == len(set().union(*hashes)) == 7


def test_a_sample_counts_the_packets_with_payload_of_each_flow() -> None:
    with_payload = [flow_hash(one.key) for one in segments_of(PacketParser()) if one.length]
    assert sampled(read_runs([CORE], CaptureReport())) == Counter(with_payload)


def test_a_sample_has_only_the_first_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_shares, "_SAMPLED", 20)
    first = [one for one in segments_of(PacketParser())[:20] if one.length]
    assert sampled(read_runs([CORE], CaptureReport())).total() == len(first) > 0


def test_flows_go_to_the_share_with_the_least_work() -> None:
    shares = divided([Counter({8: 30, 6: 20}), Counter({6: 5, 4: 20, 2: 10})], 2)
    assert [shares.buckets[flow] for flow in (8, 6, 4, 2)] == [0, 1, 1, 0]
    assert (shares.count, shares.largest) == (2, 45 / 85)


def test_flows_without_work_in_the_samples_are_divided_by_their_hashes() -> None:
    shares = divided([Counter({8: 6})], 2)
    assert shares.buckets[:10] == (0, 1, 0, 1, 0, 1, 0, 1, 0, 1)
    assert divided([Counter()], 2).largest == 1.0


@pytest.mark.parametrize(
    "tasks, largest, faster",
    [
        (1, 1.0, True),
        (2, 0.5, True),
        (4, 0.3, True),
        (4, 0.9, False),
        (8, 0.125, True),
        (16, 0.0625, False),
    ],
)
def test_few_tasks_are_faster_with_whole_flows(tasks: int, largest: float, faster: bool) -> None:
    assert FlowShares(tasks, range(tasks), largest).is_faster(tasks) is faster


def test_more_tasks_are_faster_with_whole_flows_and_the_kernel() -> None:
    for tasks, faster in ((16, True), (30, True), (60, False)):
        shares = FlowShares(tasks, range(tasks), 1 / tasks)
        assert shares.is_faster(tasks, flow_shares.KERNEL) is faster
