"""JetStream over all sessions, against the rows of a sample capture."""

from __future__ import annotations

from collections import Counter

from dissect.nats.application.jetstream.api import ApiRecord
from dissect.nats.application.jetstream.consumers import ConsumerRecord
from dissect.nats.application.jetstream.deliveries import DeliveryRecord
from dissect.nats.application.jetstream.publishes import PublishRecord
from dissect.nats.application.jetstream.pulls import PullRecord
from dissect.nats.application.jetstream.streams import StreamRecord
from dissect.nats.report.aggregates.jetstream import DRAWN, OTHERS, JetStream
from dissect.nats.schema.records import Record

from tests.dissector.samples.rows import rows
from tests.support.paths import CAPTURES

NAMES = ("orders-2.15.1.pcap", "jetstream-2.15.1.pcap")


def of(*names: str) -> tuple[JetStream, list[Record]]:
    found = JetStream()
    every = rows([CAPTURES / name for name in names], JetStream.tables)
    for row in every:
        found.add(row)
    return found, every


def test_consumers_and_their_deliveries() -> None:
    found, every = of(*NAMES)
    consumers = [row for row in every if isinstance(row, ConsumerRecord)]
    summed = dict(found.consumers.items())
    for row in consumers:
        some = [
            item
            for item in consumers
            if (item.stream, item.consumer, item.domain) == (row.stream, row.consumer, row.domain)
        ]
        total = summed["", row.domain or "", row.stream, row.consumer]
        assert total.deliveries == sum(item.deliveries for item in some)
        assert total.redeliveries == sum(item.redeliveries for item in some)
    assert sum(item.redeliveries for item in summed.values()) > 0


def test_acks_pulls_and_calls() -> None:
    found, every = of(*NAMES)
    acked = [row for row in every if isinstance(row, DeliveryRecord) and row.ack_latency_ns]
    assert found.ack_latency.count == len(acked) > 0
    assert found.pull_ends == Counter(row.end for row in every if isinstance(row, PullRecord))
    assert found.calls == Counter(row.api for row in every if isinstance(row, ApiRecord))
    assert not found.is_empty


def test_what_waits_over_time() -> None:
    found, every = of("orders-2.15.1.pcap")
    most: Counter[str] = Counter()
    for row in every:
        if isinstance(row, DeliveryRecord) and row.consumer:
            most[row.consumer] = max(most[row.consumer], row.pending or 0)
    drawn = {name[3]: max(found.lag.series(name)[1]) for name in found.lag.keys}
    assert drawn == dict(most)


def test_the_consumers_that_are_drawn_do_not_depend_on_order_or_parts() -> None:
    deliveries = [
        DeliveryRecord(
            session="s",
            number=number,
            ts_ns=number * 10**9,
            kind="client",
            stream="S",
            consumer=f"c{number % (DRAWN + 4)}",
            stream_seq=1,
            consumer_seq=1,
            delivered_count=1,
            pending=number % (DRAWN + 4),
            stored_ns=0,
        )
        for number in range(100)
    ]
    whole, backwards, merged, *parts = (JetStream() for _ in range(6))
    for row in deliveries:
        whole.add(row)
        parts[row.number % 3].add(row)
    for row in reversed(deliveries):
        backwards.add(row)
    for part in parts:
        merged.merge(part)
    drawn = {("", "", "S", f"c{number}") for number in range(4, DRAWN + 4)}
    assert set(whole.drawn_lag.keys) == {*drawn, OTHERS}
    assert max(whole.drawn_lag.series(OTHERS)[1]) == 3
    for other in (backwards, merged):
        assert other.drawn_lag.bins == whole.drawn_lag.bins


def test_accounts_have_streams_and_consumers_of_their_own() -> None:
    found = JetStream()
    for account in ("A", "B", None):
        stream = StreamRecord(session="s", number=1, ts_ns=1, last_ns=1, kind="route", stream="S")
        consumer = ConsumerRecord(
            session="s", number=1, ts_ns=1, last_ns=1, kind="route", stream="S", consumer="C"
        )
        delivery = DeliveryRecord(
            session="s",
            number=1,
            ts_ns=1,
            kind="route",
            stream="S",
            consumer="C",
            stream_seq=1,
            consumer_seq=1,
            delivered_count=1,
            pending=5,
            stored_ns=0,
        )
        stream.publishes, consumer.acks = 2, 1
        for row in (stream, consumer, delivery):
            row.account = account
            found.add(row)
    streams = {name: row.publishes for name, row in found.streams.items()}
    assert streams == {(account, "", "S", ""): 2 for account in ("A", "B", "")}
    consumers = {name: row.acks for name, row in found.consumers.items()}
    assert consumers == {(account, "", "S", "C"): 1 for account in ("A", "B", "")}
    assert set(found.lag.keys) == set(consumers)


def test_a_capture_without_jetstream() -> None:
    found, _ = of("core-2.15.1.pcap")
    assert found.is_empty


def test_publications_that_no_stream_takes_are_no_capture_without_jetstream() -> None:
    found = JetStream()
    row = PublishRecord(
        session="s", number=1, ts_ns=1, kind="client", subject="orders", payload_bytes=0
    )
    row.code, row.error = 503, "no responders"
    found.add(row)
    assert found.errors["publish: 503 no responders"] == 1 and not found.is_empty


def test_parts_add_up() -> None:
    whole, _ = of(*NAMES)
    one, _ = of(NAMES[0])
    other, _ = of(NAMES[1])
    one.merge(other)
    assert one.streams.items() == whole.streams.items()
    assert one.consumers.items() == whole.consumers.items()
    assert (one.calls, one.errors) == (whole.calls, whole.errors)


def test_calls_and_errors_have_names_up_to_a_limit_and_all_are_counted() -> None:
    found = JetStream()
    for number in (*range(400), 0):
        row = ApiRecord(
            session="s", number=1, ts_ns=1, kind="client", api=f"A{number}", subject="x"
        )
        row.code, row.error = 400, "no"
        found.add(row)
    assert len(found.calls) == len(found.errors) == 301
    assert (found.calls["A0"], found.errors["A0: 400 no"]) == (2, 2)
    assert (found.calls["(others)"], found.errors["(others)"]) == (100, 100)


def test_the_state_of_a_consumer_before_1970() -> None:
    row = ConsumerRecord(
        session="s", number=1, ts_ns=-5, last_ns=-4, kind="client", stream="S", consumer="C"
    )
    row.last_pending, row.num_ack_pending = 7, 3
    found = JetStream()
    found.add(row)
    consumer = found.consumers["", "", "S", "C"]
    assert (consumer.pending, consumer.ack_pending) == (7, 3)
