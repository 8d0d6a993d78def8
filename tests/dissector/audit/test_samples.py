"""The findings in the sample captures; each was checked against what the captures show."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator

import pytest

from dissect.nats import Options, records
from dissect.nats.audit.engines.duckdb import over_records
from dissect.nats.audit.findings.store import store
from dissect.nats.audit.run import queries_of, run, tables_of
from dissect.nats.audit.sigma.rule_files import load_rules
from dissect.nats.audit.sql.dialect import Dialect
from dissect.nats.schema.records import Record

from tests.support.paths import CAPTURES

SAMPLES = (
    "auth-2.15.1 cluster-2.9.10 core-2.9.10 gateway-2.15.1 leafnode-s2-2.15.1 orders-2.15.1"
    " services-2.15.1 slow-2.15.1 stores-2.15.1 streaming-2.15.1 websocket-deflate-2.15.1"
).split()


@pytest.mark.timeout(300)  # many captures at once
def test_the_findings(golden: Callable[[str, str], None]) -> None:
    queries = queries_of(load_rules(), Dialect.DUCKDB)
    paths = [str(CAPTURES / f"{name}.pcap") for name in SAMPLES]

    def source(tables: Collection[str]) -> Generator[Record, None, None]:
        yield from records(paths, list(tables), Options(separate=True))

    with over_records(tables_of(queries), source) as engine, store() as kept:
        run(queries, engine, kept)
        found = [
            f"{one.level} {one.rule} x{one.count} {one.subject} {one.session or ''}".rstrip()
            for one in kept.findings()
        ]
    golden("audit/samples.txt", "".join(f"{line}\n" for line in sorted(found)))
