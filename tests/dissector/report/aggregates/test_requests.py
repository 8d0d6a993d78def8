"""Requests: outcomes, latencies and the slowest, against the rows of a sample capture."""

from __future__ import annotations

from collections import Counter

from dissect.nats.report.aggregates.requests import Requests
from dissect.nats.schema.records import RequestRecord

from tests.dissector.samples.rows import rows
from tests.support.paths import CAPTURES

NAMES = ("core-2.15.1.pcap", "services-2.15.1.pcap")


def of(*names: str) -> tuple[Requests, list[RequestRecord]]:
    found = Requests()
    every = [
        row
        for row in rows([CAPTURES / name for name in names], Requests.tables)
        if isinstance(row, RequestRecord)
    ]
    for row in every:
        found.add(row)
    return found, every


def test_the_numbers_of_the_rows() -> None:
    found, every = of(*NAMES)
    assert found.outcomes == Counter(row.outcome for row in every)
    answered = [row for row in every if row.latency_ns is not None]
    assert found.latency.count == len(answered) > 10
    slowest = max(answered, key=lambda row: row.latency_ns or 0)
    assert next(iter(found.slowest)) == slowest
    assert found.latency.largest == slowest.latency_ns
    median = sorted(row.latency_ns or 0 for row in answered)[(len(answered) - 1) // 2]
    assert found.latency.quantile(50) == median
    assert {row.outcome for row in found.failed} == {row.outcome for row in every} - {"ok"}


def test_inboxes_are_no_subjects_of_their_own() -> None:
    found, every = of(*NAMES)
    subjects = dict(found.subjects.items())
    assert sum(row.requests for row in subjects.values()) == len(every)
    assert not any(name.startswith("_INBOX.") and name != "_INBOX.>" for name in subjects)


def test_parts_add_up() -> None:
    whole, _ = of(*NAMES)
    one, _ = of(NAMES[0])
    other, _ = of(NAMES[1])
    one.merge(other)
    assert one.outcomes == whole.outcomes
    assert one.latency.buckets == whole.latency.buckets
    assert list(one.slowest) == list(whole.slowest)
    assert one.over_time.bins == whole.over_time.bins
