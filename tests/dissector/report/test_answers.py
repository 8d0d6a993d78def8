"""The answers to the questions of a report, against the rows of sample captures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache

from dissect.nats.application.jetstream.api import ApiRecord
from dissect.nats.application.jetstream.consumers import ConsumerRecord
from dissect.nats.application.jetstream.deliveries import DeliveryRecord
from dissect.nats.application.jetstream.kv import KvRecord
from dissect.nats.application.jetstream.publishes import PublishRecord
from dissect.nats.application.jetstream.pulls import PullRecord
from dissect.nats.application.jetstream.streams import StreamRecord
from dissect.nats.questions.ask import tables_read
from dissect.nats.report.answers import (
    BYTES,
    DRAWN,
    EVENTS,
    MESSAGES,
    QUESTIONS,
    Answers,
    Lane,
    Traffic,
)
from dissect.nats.schema.records import (
    AnomalyRecord,
    FrameRecord,
    Record,
    RequestRecord,
    SessionRecord,
)

from tests.dissector.samples.rows import rows
from tests.support.paths import CAPTURES
from tests.support.report import answers


@cache
def of(*names: str) -> tuple[Answers, list[Record]]:
    every = rows([CAPTURES / f"{name}.pcap" for name in names], tables_read(QUESTIONS))
    return answers(every), every


def delivery(number: int, **columns: object) -> DeliveryRecord:
    values: dict[str, object] = {
        **{"session": "s", "number": number, "ts_ns": number * 10**9, "kind": "client"},
        **{"stream": "S", "consumer": "C", "stream_seq": 1, "consumer_seq": 1},
        **{"delivered_count": 1, "stored_ns": 0},
    }
    return DeliveryRecord(**(values | columns))  # type: ignore[arg-type]  # columns of any type


def consumer(**columns: object) -> ConsumerRecord:
    values: dict[str, object] = {
        **{"session": "s", "number": 1, "ts_ns": 1, "last_ns": 1, "kind": "route"},
        **{"stream": "S", "consumer": "C"},
    }
    return ConsumerRecord(**(values | columns))  # type: ignore[arg-type]  # columns of any type


def total(found: Traffic, *lane: str) -> int:
    series = found.lanes.get(Lane(*lane))
    return sum(series.numbers) if series else 0


def of_type(every: Iterable[Record], row: type[Record]) -> int:
    return sum(type(each) is row for each in every)


def test_every_row_counts() -> None:
    found, every = of("core-2.15.1", "stores-2.15.1", "services-2.15.1", "snap96")
    assert found.totals.sessions == of_type(every, SessionRecord)
    assert found.totals.frames == of_type(every, FrameRecord)
    assert sum(row.count for row in found.anomalies) == of_type(every, AnomalyRecord) > 0
    assert sum(row.count for row in found.stores) == of_type(every, KvRecord) + sum(
        type(each).__name__ == "ObjectRecord" for each in every
    )
    assert found.services.dropped == 0 < found.services.seen
    sessions = [row for row in every if isinstance(row, SessionRecord)]
    times = min(row.first_ns for row in sessions), max(row.last_ns for row in sessions)
    assert (found.totals.first_ns, found.totals.last_ns) == times


def test_nothing_is_in_the_answers_about_nothing() -> None:
    found = answers()
    assert found.totals.sessions == found.totals.frames == found.totals.bytes == 0
    assert found.jetstream.is_empty and not found.traffic.lanes and not found.subjects.volumes
    assert found.connections.sums.missing_bytes == found.ladders.frames == 0


def test_messages_and_bytes_of_each_direction() -> None:
    found, every = of("gateway-2.15.1")
    frames = [row for row in every if isinstance(row, FrameRecord)]
    messages = [row for row in frames if row.payload_bytes is not None]
    assert found.totals.messages == len(messages) > 0
    for kind in ("client", "gateway"):
        for sender in ("originator", "responder"):
            some = [row for row in messages if (row.kind, row.sender) == (kind, sender)]
            size = sum((row.payload_bytes or 0) + (row.header_bytes or 0) for row in some)
            assert total(found.traffic, MESSAGES, kind, sender) == len(some)
            assert total(found.traffic, BYTES, kind, sender) == size


def test_errors_and_losses_are_in_the_same_bins() -> None:
    found, every = of("core-2.15.1", "midstream", "snap96")
    errors = sum(isinstance(row, FrameRecord) and row.op == "-ERR" for row in every)
    assert total(found.traffic, EVENTS, "-ERR") == errors > 0
    names = {lane.name for lane in found.traffic.lanes if lane.measure == EVENTS}
    assert {"no responders", "truncated"} <= names


def test_sums_of_all_sessions() -> None:
    found, every = of("core-2.15.1", "gateway-2.15.1", "tls-2.15.1")
    links = found.connections
    sessions = [row for row in every if isinstance(row, SessionRecord)]
    assert links.kinds == Counter(row.kind for row in sessions)
    assert links.kinds.keys() == {"client", "gateway"}
    assert links.errors == Counter(text for row in sessions for text in row.errors or ())
    sent = sum(row.sent_bytes for row in links.talkers)
    assert sent == sum(row.bytes_originator for row in sessions) > 0
    assert links.sums.undecrypted == links.sums.tls > 0


def test_sessions_with_trouble_come_first() -> None:
    found, _ = of("core-2.15.1", "auth-2.15.1")
    ranks = [row.trouble for row in found.connections.sessions]
    assert ranks == sorted(ranks, reverse=True)
    assert ranks[0] > 0 == ranks[-1]


def test_slow_receivers_are_the_sessions_with_that_verdict() -> None:
    found, every = of("slow-2.15.1")
    slow = {row.session for row in every if isinstance(row, SessionRecord) and row.slow_consumer}
    assert {row.session for row in found.connections.slow} == slow != set()
    longest = found.connections.stopped[0]
    assert max(longest.zero_window_ns_originator, longest.zero_window_ns_responder) > 10**9


def test_outcomes_and_latencies_are_those_of_the_rows() -> None:
    found, every = of("core-2.15.1", "services-2.15.1")
    requests = [row for row in every if isinstance(row, RequestRecord)]
    assert found.requests.outcomes == Counter(row.outcome for row in requests)
    answered = [row for row in requests if row.latency_ns is not None]
    assert found.requests.latency.count == len(answered) > 10
    slowest = max(answered, key=lambda row: row.latency_ns or 0)
    assert found.requests.slowest[0].reply == slowest.reply
    assert found.requests.latency.max_ns == slowest.latency_ns
    median = sorted(row.latency_ns or 0 for row in answered)[(len(answered) - 1) // 2]
    assert found.requests.latency.median_ns == median
    assert {row.outcome for row in found.requests.failed} == {row.outcome for row in requests} - {
        "ok"
    }
    assert sum(row.count for row in found.requests.histogram) == len(answered)


def test_inboxes_are_no_subjects_of_their_own() -> None:
    found, every = of("core-2.15.1", "services-2.15.1")
    subjects = {row.subject: row.requests for row in found.requests.subjects}
    assert sum(subjects.values()) == of_type(every, RequestRecord)
    assert not any(name.startswith("_INBOX.") and name != "_INBOX.>" for name in subjects)


def test_consumers_and_their_deliveries() -> None:
    found, every = of("orders-2.15.1", "jetstream-2.15.1")
    consumers = [row for row in every if isinstance(row, ConsumerRecord)]
    named = {(row.domain, row.stream, row.consumer): row for row in found.jetstream.consumers}
    for row in consumers:
        name = row.domain or "", row.stream, row.consumer
        some = [
            each for each in consumers if (each.domain or "", each.stream, each.consumer) == name
        ]
        assert named[name].deliveries == sum(each.deliveries for each in some)
        assert named[name].redeliveries == sum(each.redeliveries for each in some)
    assert sum(row.redeliveries for row in found.jetstream.consumers) > 0


def test_acks_pulls_and_calls() -> None:
    found, every = of("orders-2.15.1", "jetstream-2.15.1")
    acked = [row for row in every if isinstance(row, DeliveryRecord) and row.ack_latency_ns]
    assert sum(row.count for row in found.jetstream.acks) == len(acked) > 0
    ends = Counter(row.end or "open" for row in every if isinstance(row, PullRecord))
    assert found.jetstream.pull_ends == ends
    assert found.jetstream.calls == Counter(row.api for row in every if isinstance(row, ApiRecord))
    assert not found.jetstream.is_empty


def test_what_waits_over_time() -> None:
    found, every = of("orders-2.15.1")
    most: Counter[str] = Counter()
    for row in every:
        if isinstance(row, DeliveryRecord) and row.consumer:
            most[row.consumer] = max(most[row.consumer], row.pending or 0)
    drawn: Counter[str] = Counter()
    for point in found.jetstream.lag:
        name = point.name.rpartition("/")[2]
        drawn[name] = max(drawn[name], point.pending)
    assert drawn == most


def test_the_consumers_for_which_most_messages_wait_are_drawn() -> None:
    names = DRAWN + 4
    found = answers(
        delivery(number, consumer=f"c{number % names}", pending=number % names)
        for number in range(100)
    )
    drawn = {f"S/c{number}" for number in range(4, names)}
    assert {row.name for row in found.jetstream.lag} == {*drawn, "(others)"}
    assert max(row.pending for row in found.jetstream.lag if row.name == "(others)") == 3


def test_accounts_have_streams_and_consumers_and_buckets_of_their_own() -> None:
    every: list[Record] = []
    for number, account in enumerate(("A", "B", None)):
        stream = StreamRecord(session="s", number=1, ts_ns=1, last_ns=1, kind="route", stream="S")
        stream.publishes = 2
        put = KvRecord(session="s", number=number, ts_ns=1, kind="route", bucket="b", op="put")
        some: list[Record] = [stream, consumer(acks=1), delivery(1, pending=5), put]
        for row in some:
            row.account = account  # type: ignore[attr-defined]  # each has one
        every += some
    found = answers(every)
    accounts = ["", "A", "B"]
    streams = [(row.account, row.stream, row.publishes) for row in found.jetstream.streams]
    assert streams == [(account, "S", 2) for account in accounts]
    consumers = [(row.account, row.consumer, row.acks) for row in found.jetstream.consumers]
    assert consumers == [(account, "C", 1) for account in accounts]
    assert {row.name for row in found.jetstream.lag} == {"S/C", "A/S/C", "B/S/C"}
    assert [(row.account, row.op, row.count) for row in found.stores] == [
        (account, "put", 1) for account in accounts
    ]


def test_stores_have_names_up_to_a_limit_and_all_operations_count() -> None:
    puts = [
        KvRecord(session="s", number=1, ts_ns=1, kind="c", bucket=f"b{at}", op="put", error="no")
        for at in range(300)
    ]
    stores = answers(puts).stores
    assert len(stores) == 201
    assert {row.count for row in stores if row.bucket == "(others)"} == {100}
    assert {row.op for row in stores} == {"put, failed"}


def test_publications_that_no_stream_takes_are_no_capture_without_jetstream() -> None:
    row = PublishRecord(
        session="s", number=1, ts_ns=1, kind="client", subject="orders", payload_bytes=0
    )
    row.code, row.error = 503, "no responders"
    found = answers([row]).jetstream
    assert found.errors["publish: 503 no responders"] == 1 and not found.is_empty
    assert of("core-2.15.1")[0].jetstream.is_empty


def test_calls_and_errors_have_names_up_to_a_limit_and_all_are_counted() -> None:
    calls = [
        ApiRecord(
            **{"session": "s", "number": 1, "ts_ns": 1, "kind": "client", "subject": "x"},
            api=f"A{number}",
            code=400,
            error="no",
        )
        for number in (*range(400), 0)
    ]
    found = answers(calls).jetstream
    assert len(found.calls) == len(found.errors) == 301
    assert (found.calls["A0"], found.errors["A0: 400 no"]) == (2, 2)
    assert (found.calls["(others)"], found.errors["(others)"]) == (100, 100)


def test_the_state_of_a_consumer_is_the_latest_one_also_before_1970() -> None:
    early = consumer(ts_ns=-9, last_ns=-8, last_pending=9, num_ack_pending=9)
    late = consumer(ts_ns=-5, last_ns=-4, last_pending=7, num_ack_pending=3)
    (row,) = answers([late, early]).jetstream.consumers
    assert (row.pending, row.ack_pending) == (7, 3)
