"""Streams and consumers that a session uses: one row each, of those in use."""

from __future__ import annotations

import pytest

from dissect.nats.application.jetstream import used
from dissect.nats.application.jetstream.deliveries import DeliveryRecord
from dissect.nats.application.jetstream.streams import Streams
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.schema.records import Record

from tests.dissector.application.scripted_session import values


def delivery(number: int, stream: str, domain: str | None = None) -> DeliveryRecord:
    return DeliveryRecord(
        session="s",
        number=number,
        ts_ns=number,
        kind="client",
        stream=stream,
        consumer="C",
        domain=domain,
        stream_seq=number,
        consumer_seq=number,
        delivered_count=1,
        pending=0,
        stored_ns=0,
    )


def test_a_row_begins_with_the_first_frame_and_ends_with_the_last() -> None:
    streams = Streams([])
    for number, domain in ((5, None), (3, "hub"), (7, "other")):
        streams.deliver(delivery(number, "S", domain))
    rows = list(streams.finish())
    assert values(rows, "number", "ts_ns", "last_ns", "domain") == [(3, 3, 7, "hub")]


def test_a_row_in_use_stays_beside_many_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(used, "_USED", 2)
    early: list[Record] = []
    streams = Streams(early)
    for number in range(1, 7, 2):
        streams.deliver(delivery(number, "S"))
        streams.deliver(delivery(number + 1, f"S{number}"))
    forgotten = [Anomaly.FORGOTTEN.value]
    assert values(early, "stream", "anomalies") == [("S1", forgotten), ("S3", forgotten)]
    assert values(streams.finish(), "stream", "deliveries") == [("S", 3), ("S5", 1)]
