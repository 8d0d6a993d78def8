"""Advisories that report trouble, and the anomalies that they are."""

from __future__ import annotations

import pytest

from dissect.nats import anomalies
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.sessions.advisories import trouble

from tests.support.paths import CAPTURES

PREFIX = b"$JS.EVENT.ADVISORY."


@pytest.mark.parametrize(
    "subject, text",
    [
        (b"CONSUMER.MAX_DELIVERIES.S.C", "a message was delivered as often as allowed: S/C"),
        (b"CONSUMER.MSG_TERMINATED.S.C", "a message was terminated: S/C"),
        (b"CONSUMER.QUORUM_LOST.S.C", "a consumer lost its quorum: S/C"),
        (b"STREAM.QUORUM_LOST.S", "a stream lost its quorum: S"),
        (b"STREAM.BATCH_ABANDONED.S", "an atomic batch was abandoned: S"),
        (b"SERVER.OUT_OF_STORAGE", "a server has no storage left"),
        (b"API.LIMIT_REACHED", "calls of the API were dropped"),
        (b"STREAM.QUORUM_LOST.\xff", "a stream lost its quorum: \\xff"),
        (b"STREAM.CREATED.S", ""),
        (b"STREAM.QUORUM_LOSTS.S", ""),
        (b"API", ""),
        (b"", ""),
    ],
)
def test_an_advisory_that_reports_trouble_says_so_in_words(subject: bytes, text: str) -> None:
    assert trouble(PREFIX + subject) == text
    assert trouble(subject) == ""


def test_it_is_an_anomaly_of_who_listens() -> None:
    rows = anomalies([str(CAPTURES / "orders-2.15.1.pcap")])
    found = [row.text for row in rows if row.anomaly == Anomaly.JETSTREAM_TROUBLE.value]
    assert found == [
        "a message was terminated: ORDERS/worker",
        "a message was delivered as often as allowed: ORDERS/worker",
    ]
