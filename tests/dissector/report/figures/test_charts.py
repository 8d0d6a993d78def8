"""The figures: what they draw is what the answers say, and wire text is not markup in them."""

from __future__ import annotations

import pytest

from dissect.nats.questions.ask import tables_read
from dissect.nats.report.answers import BYTES, QUESTIONS, Answers
from dissect.nats.report.figures import charts as figures
from dissect.nats.report.subjects import Subjects, Volume
from dissect.nats.schema.records import RequestRecord

from tests.dissector.samples.rows import rows
from tests.support.paths import CAPTURES
from tests.support.report import answers


@pytest.fixture(scope="module")
def found() -> Answers:
    names = ["core-2.15.1.pcap", "orders-2.15.1.pcap", "slow-2.15.1.pcap"]
    return answers(rows([CAPTURES / name for name in names], tables_read(QUESTIONS)))


def test_bars_of_traffic_are_all_messages(found: Answers) -> None:
    for measure, total in (("messages", found.totals.messages), (BYTES, found.totals.bytes)):
        drawn = figures.traffic(found.traffic, measure)
        bars = [trace for trace in drawn.data if trace.type == "bar"]
        assert sum(sum(trace.y) for trace in bars) == total
        assert {trace.name for trace in bars} == {"clients to servers", "servers to clients"}
        marks = [trace.name for trace in drawn.data if trace.type == "scatter"]
        assert "-ERR" in marks and "redelivered" in marks


def test_a_histogram_has_every_duration() -> None:
    requests = [
        RequestRecord(
            session="s", subject="a", reply="r", sent_ns=1, request_bytes=0, latency_ns=ns
        )
        for ns in (0, 1, 999, 10**6, 10**6, 7 * 10**9)
    ]
    (bars,) = figures.histogram(answers(requests).requests.histogram).data
    assert sum(bars.y) == 6 and max(bars.y) == 2
    assert list(bars.x) == sorted(bars.x)


def test_percentiles_rise(found: Answers) -> None:
    median, high, highest = figures.percentiles(found.requests.over_time).data
    for low, middle, top in zip(median.y, high.y, highest.y):
        assert low <= middle <= top


def test_the_branches_of_subjects_add_up(found: Answers) -> None:
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
    assert sum(roots) <= found.totals.bytes


def test_branches_of_long_subjects_that_begin_alike_are_apart() -> None:
    """Plotly draws nothing if two branches have one id, or if an id is its own parent."""
    sizes = {f"{'a' * 300}.{number}": Volume(1, bytes=number) for number in (1, 2)}
    (treemap,) = figures.subjects(Subjects(sizes)).data
    assert len(set(treemap.ids)) == len(treemap.ids) == 3
    assert list(treemap.parents) == ["", treemap.ids[0], treemap.ids[0]]
    assert list(treemap.values) == [3, 2, 1]


def test_talkers_lag_and_stops(found: Answers) -> None:
    sent, received = figures.talkers(found.connections.talkers).data
    assert list(sent.y) == list(received.y) and max(sent.x) > 0
    assert [trace.name for trace in figures.lag(found.jetstream.lag).data]
    assert max(max(trace.x) for trace in figures.stopped(found.connections.stopped).data) > 1


def test_wire_text_is_no_markup() -> None:
    assert figures.text("<b>&\u202e</b>") == "&lt;b&gt;&amp;\\u202e&lt;/b&gt;"
    assert len(figures.text("x" * 100)) == 48


def test_times_have_the_digits_that_plotly_reads() -> None:
    assert figures.moments([1795226503304022123]) == ["2026-11-21 02:01:43.304022"]
