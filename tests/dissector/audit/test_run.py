"""An audit: rules that run, and rules that cannot."""

from __future__ import annotations

from dissect.nats.audit.engines.duckdb import over_records
from dissect.nats.audit.findings.store import store
from dissect.nats.audit.run import columns_of, queries_of, run, tables_of
from dissect.nats.audit.sigma.rule_files import load_rules
from dissect.nats.audit.sql.dialect import Dialect

from tests.support.audit import detection_text, frame, rules


def test_a_rule_whose_tables_are_absent_is_named() -> None:
    text = "---\n".join(
        [
            detection_text("  selection: {op: PUB}", number=1),
            detection_text("  selection: {op: put}", "kv", number=2),
            detection_text("  selection: {session.user: x}", number=3),
        ]
    )
    queries = queries_of(rules(text), Dialect.DUCKDB)
    assert tables_of(queries) == {"frames", "kv", "sessions"}
    with over_records({"frames"}, lambda tables: (frame(n) for n in (1, 2))) as engine:
        with store() as kept:
            outcome = run(queries, engine, kept)
            assert [finding.number for finding in kept.findings()] == [1, 2]
    assert (outcome.ran, outcome.not_run) == (1, {"rule-2": ["kv"], "rule-3": ["sessions"]})


def test_every_rule_runs_over_the_columns_that_it_names() -> None:
    queries = queries_of(load_rules(), Dialect.DUCKDB)
    columns = columns_of(queries)
    assert "payload_bytes" in columns["frames"] and "sid" not in columns["frames"]
    with over_records(tables_of(queries), lambda tables: (_ for _ in ()), columns) as engine:
        with store() as kept:
            assert run(queries, engine, kept).ran > 80
