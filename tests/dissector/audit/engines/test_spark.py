"""Spark SQL finds what DuckDB finds, and both find what the rules mean."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path
from random import Random
from shutil import copy, rmtree
from typing import TYPE_CHECKING

import pytest

from dissect.nats.audit.engines.duckdb import over_folder, over_records
from dissect.nats.audit.engines.shared_reads import SharedReads
from dissect.nats.audit.findings.finding import Finding
from dissect.nats.audit.findings.store import store
from dissect.nats.audit.loading import loaded_records
from dissect.nats.audit.run import Engine, queries_of, run, tables_of
from dissect.nats.audit.sigma.rule_files import load_rules
from dissect.nats.audit.sigma.rules import Correlation
from dissect.nats.audit.sql.compiler import compiled
from dissect.nats.audit.sql.dialect import Dialect
from dissect.nats.capture import CaptureReport
from dissect.nats.errors import QueryError
from dissect.nats.options import Options
from dissect.nats.output.arrow.records import batch
from dissect.nats.pipeline import records
from dissect.nats.tables import TABLE_OF

from tests.dissector.audit import cases, cases_data
from tests.dissector.audit.sql import test_subjects
from tests.dissector.audit.test_pack import rows_of
from tests.support import audit_windows
from tests.support.audit import detection_text, frame, rules
from tests.support.audit_evaluator import Rule, rows
from tests.support.paths import CAPTURES, INCIDENTS
from tests.support.requirements import missing
from tests.support.sightings import capture_of, proxied

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dissect.nats.audit.sigma.rules import Detection
    from dissect.nats.schema.records import Record

try:
    from pyarrow import Table, parquet

    from dissect.nats.audit.engines.spark import Spark, over_views
except ImportError as lack:
    missing("pyarrow or pyspark", str(lack))

pytestmark = pytest.mark.usefixtures("worker_processes")

RULES = 40
CORRELATIONS = 8
FOUND = {"password-in-clear", "repeated-authentication-failures", "permission-violation"}
RUN = FOUND | {"transfer-above-baseline", "objects-exported", "backlog-growing"}
CAPTURED = [str(CAPTURES / f"{name}.pcap") for name in ("auth-2.15.1", "leafnode-2.15.1")]


def write(folder: Path, table: str, written: list[Record]) -> None:
    (folder / table).mkdir()
    arrow = Table.from_batches([batch(table, written)])
    parquet.write_table(arrow, folder / table / "part-0.parquet")


def found(made: dict[str, Detection | Correlation], engine: Engine) -> list[Finding]:
    with store() as kept:
        run(queries_of(made, engine.dialect, cases.VARIABLES), engine, kept)
        return list(kept.findings())


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_rules_made_at_random_mean_the_same_everywhere(spark: SparkSession, tmp_path: Path) -> None:
    """One pass over the rows for all of them, because a query of Spark takes long."""
    random = Random(18)
    frames = rows(random, 60)
    write(tmp_path, "frames", [*frames])
    meant, texts = {}, []
    for number in range(1, RULES + 1):
        rule = Rule(random)
        meant[number] = [frame.number for frame in frames if rule.holds(frame)]
        texts.append(detection_text(rule.yaml, number=number))
    made = rules("---\n".join(texts))
    queries = compiled(made, made, Dialect.SPARK)
    shared = SharedReads(queries)
    with over_views(spark, {"frames"}, str(tmp_path)):
        found = {name: spark.sql(sql).collect() for name, sql in shared.views()}
    for number, (query, text) in enumerate(zip(queries, texts, strict=True), 1):
        (read,) = query.reads
        view, matched = shared.clauses(read).removeprefix("FROM ").split("\nWHERE ")
        answer = [row.r.number for row in found[view] if row[matched]]
        assert sorted(answer) == meant[number], text


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_correlations_made_at_random_mean_the_same(spark: SparkSession, tmp_path: Path) -> None:
    random = Random(22)
    frames = audit_windows.rows(random, 40)
    write(tmp_path, "frames", [*frames])
    made = [audit_windows.Correlation(random, 10 * number) for number in range(1, CORRELATIONS + 1)]
    assert {one.kind for one in made} == set(audit_windows.KINDS)
    assert {one.how for one in made} >= {"gte", "lt"}
    with over_views(spark, {"frames"}, str(tmp_path)) as engine:
        for one in made:
            (query,) = compiled(rules(one.text), [one.name], Dialect.SPARK)
            assert sorted(audit_windows.found_in(engine.rows(query.sql))) == one.found(
                frames
            ), one.text


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_one_process_two_processes_and_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Spark understands all rules; some, one of each kind, are run, because a query takes long."""
    every = load_rules()
    queries = queries_of(every, Dialect.SPARK)
    tables = tables_of(queries)
    rows = list(loaded_records(CAPTURED, tables, Options(), CaptureReport()))
    tables_in(tmp_path, tables, rows)
    some = {name: rule for name, rule in every.items() if name in _with_referenced(every, RUN)}
    with over_folder(tables, str(tmp_path)) as engine:
        here = found(some, engine)
    names = tables_of(queries_of(some, Dialect.DUCKDB))
    together = partial(loaded_records, CAPTURED, options=Options(), report=CaptureReport(), jobs=2)
    with over_records(names, together) as engine:
        assert found(some, engine) == here
    with over_views(spark, tables, str(tmp_path)) as on_spark:
        assert on_spark.tables == tables
        for query in queries:
            spark.sql(query.sql)  # is parsed and resolved
        assert found(some, on_spark) == here
    assert {finding.rule for finding in here} >= FOUND
    assert not [table for table in tables if spark.catalog.tableExists(table)]


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_subjects_and_accounts_are_compared_in_the_same_way(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Wildcards, accounts that are known, unknown and another's, and a correlation inside another."""
    service, names = "00000000000000bb", ("SHOP", "BANK", None)
    wanted = {"interest-lost", "interest-missing", "message-id-reused"}
    every = load_rules()
    some = {name: every[name] for name in every if name in _all_referenced(every, wanted)}
    tables = tables_of(queries_of(some, Dialect.DUCKDB))
    rows: list[Record] = [
        test_subjects.lost(),
        test_subjects.ASKER,
        *test_subjects.refused(11, 12, 13),
    ]
    for pattern in ("orders.eu", "orders.*", "*.eu", "orders.>", ">", "orders", "orders.*.*"):
        rows += [test_subjects.of_link(pattern, account) for account in names]
        for place, account in enumerate(names):
            rows.append(test_subjects.subscribed(pattern, f"{service}{place}"))
    rows += [test_subjects.client(f"{service}{n}", "far", name) for n, name in enumerate(names)]
    rows += records([str(INCIDENTS / "duplicates.pcap")], sorted(tables))
    tables_in(tmp_path, tables, rows)
    with over_folder(tables, str(tmp_path)) as engine:
        here = found(some, engine)
    assert {one.rule for one in here} == wanted
    with over_views(spark, tables, str(tmp_path)) as on_spark:
        assert found(some, on_spark) == here


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_every_rule_of_the_package_finds_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """Over the rows of all cases at once, so that each rule has findings."""
    every = load_rules()
    queries = queries_of(every, Dialect.SPARK, cases.VARIABLES)
    tables = tables_of(queries)
    rows = [
        row
        for name, (case, _) in sorted((cases.CASES | cases_data.CASES).items())
        for row in rows_of(case, made_folder(tmp_path, name), tables)
    ]
    tables_in(tmp_path / "tables", tables, rows)
    with over_folder(tables, str(tmp_path / "tables")) as engine:
        here = found(every, engine)
    with over_views(spark, tables, str(tmp_path / "tables")) as on_spark:
        assert found(every, on_spark) == here
    assert {query.rule.name for query in queries} == {finding.rule for finding in here}


@pytest.mark.spark
def test_a_table_that_is_one_file(spark: SparkSession, tmp_path: Path) -> None:
    rows = list(loaded_records(CAPTURED[:1], {"sessions"}, Options(), CaptureReport()))
    tables_in(tmp_path, {"sessions"}, rows)
    (written,) = (tmp_path / "sessions").rglob("*.parquet")
    written.rename(tmp_path / "sessions.parquet")
    rmtree(tmp_path / "sessions")
    with over_views(spark, {"frames", "sessions"}, str(tmp_path)) as engine:
        assert (engine.tables, engine.lacking) == ({"sessions"}, {})
        assert list(engine.rows("SELECT count(*) FROM sessions")) == [(len(rows),)]
    whole = tmp_path / "sessions.parquet"
    parquet.write_table(parquet.read_table(whole).drop_columns(["stalled_ns", "auth"]), whole)
    with over_views(spark, {"sessions"}, str(tmp_path)) as engine:
        assert engine.lacking == {"sessions": ["auth", "stalled_ns"]}
        query = "SELECT count(*), count(stalled_ns), count(kind) FROM sessions"
        assert list(engine.rows(query)) == [(len(rows), 0, len(rows))]
    copy(whole, tmp_path / "subscriptions.parquet")
    with pytest.raises(QueryError, match="is not the table 'subscriptions'"):
        with over_views(spark, {"sessions", "subscriptions"}, str(tmp_path)):
            pass
    assert not spark.catalog.tableExists("sessions")
    whole.rename(tmp_path / "flows.parquet")
    with pytest.raises(QueryError, match="is not the table 'flows': it has no column community_id"):
        with over_views(spark, {"flows"}, str(tmp_path)):
            pass


@pytest.mark.spark
def test_rows_that_several_rules_match_are_stored_for_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    sent = [frame(number, op=op) for number, op in enumerate(("PUB", "SUB", "PING", "HPUB"), 1)]
    write(tmp_path, "frames", [*sent])
    ops = ("PUB", "SUB", ["PUB", "HPUB"])
    texts = [detection_text(f"  selection: {{op: {op}}}", number=n) for n, op in enumerate(ops, 1)]
    queries = queries_of(rules("---\n".join(texts)), Dialect.SPARK)
    kept, before = [], _stored(spark)
    with over_views(spark, {"frames"}, str(tmp_path)) as engine:
        for query, found in engine.answers(queries):
            kept.append((query.rule.name, [number for _, _, number, *_ in found]))
            assert spark.table("shared_read_1").count() == 3
            assert spark.catalog.isCached("shared_read_1")
    assert kept == [("rule-1", [1]), ("rule-2", [2]), ("rule-3", [1, 4])]
    assert not spark.catalog.tableExists("shared_read_1")
    assert _stored(spark) <= before  # which other tests left


@pytest.mark.spark
def test_many_findings_come_in_parts(spark: SparkSession) -> None:
    context = spark.sparkContext
    context.setJobGroup("parts", "each part is a job of its own")
    rows = Spark(spark, ()).rows("SELECT id AS n, 'x' AS text FROM range(0, 150000, 1, 3)")
    numbers = [next(rows)[0]]
    first = len(context.statusTracker().getJobIdsForGroup("parts"))
    numbers += [n for n, _ in rows]
    assert len(context.statusTracker().getJobIdsForGroup("parts")) > first
    assert sorted(numbers) == list(range(150_000))


def _stored(spark: SparkSession) -> set[int]:
    """The ids of the data that Spark stores."""
    return set(spark.sparkContext._jsc.getPersistentRDDs().keySet())


def _all_referenced(every: dict[str, Detection | Correlation], names: Collection[str]) -> set[str]:
    """These rules, and those that they count, directly or not."""
    more = _with_referenced(every, set(names))
    return more if more == names else _all_referenced(every, more)


def _with_referenced(every: dict[str, Detection | Correlation], names: set[str]) -> set[str]:
    return names | {
        reference.reference
        for rule in every.values()
        if isinstance(rule, Correlation) and rule.name in names
        for reference in rule.parsed_rule.rules
    }


def made_folder(above: Path, name: str) -> Path:
    (above / name).mkdir()
    return above / name


def tables_in(folder: Path, tables: Collection[str], rows: Iterable[Record]) -> None:
    """Writes rows as Parquet tables."""
    folder.mkdir(exist_ok=True)
    kept: dict[str, list[Record]] = {table: [] for table in tables}
    for row in rows:
        kept[TABLE_OF[type(row)].name].append(row)
    for table, written in kept.items():
        write(folder, table, written)


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_connection_that_is_seen_twice_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    capture = str(capture_of(tmp_path / "seen.pcap", proxied()))
    wanted = ("sessions", "requests", "flows")
    some: dict[str, list[Record]] = {table: [] for table in wanted}
    for row in records([capture], wanted):
        some[TABLE_OF[type(row)].name].append(row)
    (tmp_path / "tables").mkdir()
    for table, made in some.items():
        write(tmp_path / "tables", table, made)
    count = "SELECT count(*) AS rows FROM {}"
    counts = []
    with over_views(spark, wanted, str(tmp_path / "tables")) as there:
        with over_folder(wanted, str(tmp_path / "tables")) as here:
            for engine in (there, here):
                assert engine.copies == 1
                counts.append([engine.named(count.format(table)) for table in wanted])
    assert counts == [[[{"rows": 1}], [{"rows": 1}], [{"rows": 2}]]] * 2
