"""The findings in the sample captures; each was checked against what the captures show."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator

import pytest

from dissect.nats import Options, records
from dissect.nats.audit.engines.duckdb import over_records
from dissect.nats.audit.findings.finding import Finding
from dissect.nats.audit.findings.store import store
from dissect.nats.audit.run import queries_of, run, tables_of
from dissect.nats.audit.sigma.rule_files import load_rules
from dissect.nats.audit.sql.compiler import compiled
from dissect.nats.audit.sql.dialect import Dialect
from dissect.nats.audit.sql.query import Query
from dissect.nats.schema.records import Record

from tests.support.paths import CAPTURES

SAMPLES = (
    "auth-2.15.1 cluster-2.9.10 core-2.9.10 gateway-2.15.1 leafnode-s2-2.15.1 orders-2.15.1"
    " services-2.15.1 slow-2.15.1 stores-2.15.1 streaming-2.15.1 websocket-deflate-2.15.1"
).split()

OF_INCIDENTS = (
    "leafnode-loop interest-missing answered-by-several-groups message-id-reused acks-without-effect"
    " consumer-never-acknowledged consumer-without-messages stream-lost stream-without-leader"
    " expired-credentials-retried interest-lost service-left"
).split()


def found_in(paths: list[str], queries: list[Query]) -> list[Finding]:
    """What the queries find in captures, each of which is a timeline of its own."""

    def source(tables: Collection[str]) -> Generator[Record, None, None]:
        yield from records(paths, list(tables), Options(separate=True))

    with over_records(tables_of(queries), source) as engine, store() as kept:
        run(queries, engine, kept)
        return list(kept.findings())


@pytest.mark.timeout(300)  # many captures at once
def test_findings_of_the_samples_are_the_golden_ones(golden: Callable[[str, str], None]) -> None:
    paths = [str(CAPTURES / f"{name}.pcap") for name in SAMPLES]
    found = [
        f"{one.level} {one.rule} x{one.count} {one.subject} {one.session or ''}".rstrip()
        for one in found_in(paths, queries_of(load_rules(), Dialect.DUCKDB))
    ]
    golden("audit/samples.txt", "".join(f"{line}\n" for line in sorted(found)))


@pytest.mark.timeout(300)
def test_rules_about_incidents_are_quiet_where_nothing_failed() -> None:
    paths = sorted(str(path) for path in CAPTURES.glob("*.pcap*"))
    found = found_in(paths, compiled(load_rules(), OF_INCIDENTS, Dialect.DUCKDB))
    # The last publication of this capture has the id of the first one, and other bytes.
    assert [(one.rule, one.session) for one in found] == [("message-id-reused", "930f31061b359b2d")]
