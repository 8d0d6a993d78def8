"""One pass over the rows of all tables."""

from __future__ import annotations

from collections import Counter

from dissect.nats.application.jetstream.kv import KvRecord
from dissect.nats.report.aggregates.aggregate import TABLES, Aggregate
from dissect.nats.schema.records import SessionRecord
from dissect.nats.tables import TABLE_OF
from dissect.nats.tables import TABLES as DECLARED

from tests.dissector.samples.rows import rows
from tests.support.paths import CAPTURES


def test_every_row_of_every_table_counts() -> None:
    names = ["core-2.15.1.pcap", "stores-2.15.1.pcap", "services-2.15.1.pcap", "snap96.pcap"]
    every = rows([CAPTURES / name for name in names], TABLES)
    found = Aggregate()
    found.add_all(every)
    found.finish()
    assert found.rows == Counter(TABLE_OF[type(row)].name for row in every)
    assert found.anomalies.total() == found.rows["anomalies"]
    assert found.stores.total() == found.rows["kv"] + found.rows["objects"] > 0
    assert len(found.services) == found.rows["services"] > 0
    sessions = [row for row in every if isinstance(row, SessionRecord)]
    times = [row.first_ns for row in sessions], [row.last_ns for row in sessions]
    assert (found.first_ns, found.last_ns) == (min(times[0]), max(times[1]))


def test_accounts_have_buckets_of_their_own() -> None:
    found = Aggregate()
    for number, error in enumerate((None, "no", None)):
        for account in ("A", "B"):
            row = KvRecord(
                session="s", number=number, ts_ns=1, kind="route", bucket="config", op="put"
            )
            row.account, row.error = account, error
            found.add(row)
    kind, name = "key-value bucket", "config"
    assert found.stores == {
        (kind, name, account, op): count
        for account in ("A", "B")
        for op, count in (("put", 2), ("put, failed", 1))
    }


def test_stores_have_names_up_to_a_limit_and_all_operations_count() -> None:
    found = Aggregate()
    for number in range(300):
        row = KvRecord(session="s", number=1, ts_ns=1, kind="c", bucket=f"b{number}", op="put")
        row.error = "no"
        found.add(row)
    assert len(found.stores) == 201
    assert found.stores["key-value bucket", "(others)", "", "put, failed"] == 100


def test_the_tables_are_tables() -> None:
    assert set(TABLES) <= DECLARED.keys()
    assert Aggregate().first_ns is None
