"""The figures: what they draw is what the aggregates say, and wire text is not markup in them."""

from __future__ import annotations

import pytest

from dissect.nats.durations import Durations
from dissect.nats.report.aggregates.aggregate import TABLES, Aggregate
from dissect.nats.report.aggregates.subjects import Subjects
from dissect.nats.report.aggregates.traffic import BYTES
from dissect.nats.report.figures import charts as figures
from dissect.nats.schema.records import FrameRecord

from tests.dissector.samples.rows import rows
from tests.support.paths import CAPTURES


@pytest.fixture(scope="module")
def found() -> Aggregate:
    aggregate = Aggregate()
    names = ["core-2.15.1.pcap", "orders-2.15.1.pcap", "slow-2.15.1.pcap"]
    aggregate.add_all(rows([CAPTURES / name for name in names], TABLES))
    aggregate.finish()
    return aggregate


def test_bars_of_traffic_are_all_messages(found: Aggregate) -> None:
    for measure, total in (("messages", found.traffic.messages), (BYTES, found.traffic.bytes)):
        drawn = figures.traffic(found.traffic, measure)
        bars = [trace for trace in drawn.data if trace.type == "bar"]
        assert sum(sum(trace.y) for trace in bars) == total
        assert {trace.name for trace in bars} == {"clients to servers", "servers to clients"}
        marks = [trace.name for trace in drawn.data if trace.type == "scatter"]
        assert "-ERR" in marks and "redelivered" in marks


def test_a_histogram_has_every_duration() -> None:
    durations = Durations()
    for duration_ns in (0, 1, 999, 10**6, 10**6, 7 * 10**9):
        durations.add(duration_ns)
    (bars,) = figures.histogram(durations).data
    assert sum(bars.y) == 6 and max(bars.y) == 2
    assert list(bars.x) == sorted(bars.x)


def test_percentiles_rise(found: Aggregate) -> None:
    median, high, highest = figures.percentiles(found.requests.over_time).data
    for low, middle, top in zip(median.y, high.y, highest.y):
        assert low <= middle <= top


def test_the_branches_of_subjects_add_up(found: Aggregate) -> None:
    (treemap,) = figures.subjects(found.subjects).data
    values = dict(zip(treemap.ids, treemap.values))
    for parent in set(treemap.parents) - {""}:
        some = [
            value
            for id, value in values.items()
            if treemap.parents[treemap.ids.index(id)] == parent
        ]
        assert sum(some) <= values[parent]
    roots = [value for id, value in values.items() if treemap.parents[treemap.ids.index(id)] == ""]
    assert sum(roots) <= found.traffic.bytes


def test_branches_of_long_subjects_that_begin_alike_are_apart() -> None:
    """Plotly draws nothing if two branches have one id, or if an id is its own parent."""
    subjects, sizes = Subjects(), {f"{'a' * 300}.{number}": number for number in (1, 2)}
    for number, (subject, size) in enumerate(sizes.items(), 1):
        place = {"session": "00" * 8, "packet": 1, "capture": "a.pcap", "sender": "originator"}
        numbers = {"number": number, "ts_ns": 1, "total_bytes": size, "offset": 0}
        message = {"kind": "client", "op": "PUB", "subject": subject, "payload_bytes": size}
        subjects.add(FrameRecord(**place, **numbers, **message))
    (treemap,) = figures.subjects(subjects).data
    assert len(set(treemap.ids)) == len(treemap.ids) == 3
    assert list(treemap.parents) == ["", treemap.ids[0], treemap.ids[0]]
    assert list(treemap.values) == [3, 2, 1]


def test_talkers_lag_and_stops(found: Aggregate) -> None:
    sent, received = figures.talkers(found.connections).data
    assert list(sent.y) == list(received.y) and max(sent.x) > 0
    assert [trace.name for trace in figures.lag(found.jetstream).data]
    assert max(max(trace.x) for trace in figures.stopped(found.connections).data) > 1


def test_wire_text_is_no_markup() -> None:
    assert figures.text("<b>&\u202e</b>") == "&lt;b&gt;&amp;\\u202e&lt;/b&gt;"
    assert len(figures.text("x" * 100)) == 48


def test_times_have_the_digits_that_plotly_reads() -> None:
    assert figures.moments([1795226503304022123]) == ["2026-11-21 02:01:43.304022"]
