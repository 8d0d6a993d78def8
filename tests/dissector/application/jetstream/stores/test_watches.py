"""The open watches of buckets and object stores."""

from __future__ import annotations

from dissect.nats.application.jetstream.stores.kv import KvRecord
from dissect.nats.application.jetstream.stores.watches import Watches
from dissect.nats.schema.anomalies import Anomaly

A, B, C = ((None, "KV_b", name) for name in "abc")


def row(number: int) -> KvRecord:
    return KvRecord(session="", number=number, ts_ns=0, kind="client", bucket="b", op="watch")


def test_a_watch_from_its_beginning_to_its_end() -> None:
    watches = Watches[KvRecord](2)
    assert watches.of_message(A) is None and watches.of_message(A) is None
    assert (watches.take_early(A), watches.take_early(A)) == (2, 0)
    one, other = row(1), row(2)
    assert [*watches.begin(A, one)] == []
    assert watches.of_message(A) is one and watches.take_early(A) == 0
    assert [*watches.begin(A, other)] == [one] and one.anomalies is None
    assert [*watches.end(A)] == [other] and [*watches.end(A)] == []
    assert [*watches.finish()] == []


def test_both_limits() -> None:
    watches = Watches[KvRecord](2)
    for key in (A, B, C, A):
        watches.of_message(key)
    assert [watches.take_early(key) for key in (A, B, C)] == [2, 1, 0]
    rows = [row(number) for number in range(3)]
    ended = [[*watches.begin(key, each)] for key, each in zip((A, B, C), rows)]
    assert ended == [[], [], [rows[0]]] and rows[0].anomalies == [Anomaly.FORGOTTEN.value]
    assert [*watches.finish()] == rows[1:]
