"""Spark SQL finds what DuckDB finds, and both find what the rules mean."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from dissect.nats.audit.compiler import compiled
from dissect.nats.audit.duckdb_engine import over_folder
from dissect.nats.audit.findings import Finding
from dissect.nats.audit.rule_files import load_rules
from dissect.nats.audit.rules import Correlation
from dissect.nats.audit.run import Engine, queries_of, run, tables_of
from dissect.nats.audit.sql_text import Dialect
from dissect.nats.audit.store import store
from dissect.nats.output.arrow import batch
from dissect.nats.pipeline import records
from dissect.nats.tables import TABLES

from tests.support.audit import detection_text, rules
from tests.support.audit_evaluator import Rule, rows
from tests.support.paths import CAPTURES
from tests.support.requirements import missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dissect.nats.audit.rules import Detection
    from dissect.nats.records import Record

try:
    from pyarrow import Table, parquet

    from dissect.nats.audit.spark_engine import over_views
except ImportError as lack:
    missing("pyarrow or pyspark", str(lack))

RULES = 40
RUN = {"password-in-clear", "repeated-authentication-failures", "permission-violation"}


def write(folder: Path, table: str, written: list[Record]) -> None:
    (folder / table).mkdir()
    arrow = Table.from_batches([batch(table, written)])
    parquet.write_table(arrow, folder / table / "part-0.parquet")


def found(made: dict[str, Detection | Correlation], engine: Engine) -> list[Finding]:
    with store() as kept:
        run(queries_of(made, engine.dialect), engine, kept)
        return list(kept.findings())


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_rules_made_at_random_mean_the_same_everywhere(spark: SparkSession, tmp_path: Path) -> None:
    """One query for all of them, because a query of Spark takes long."""
    random = Random(18)
    frames = rows(random, 60)
    write(tmp_path, "frames", [*frames])
    meant, texts = {}, []
    for number in range(1, RULES + 1):
        rule = Rule(random)
        meant[number] = [frame.number for frame in frames if rule.holds(frame)]
        texts.append(detection_text(rule.yaml, number=number))
    made = rules("---\n".join(texts))
    selects = [
        f"SELECT {number} AS rule, number FROM ({query.sql}) AS q"
        for number, query in enumerate(compiled(made, made, Dialect.SPARK), 1)
    ]
    answers: dict[int, list[int]] = {number: [] for number in meant}
    with over_views(spark, {"frames"}, str(tmp_path)) as engine:
        for part in engine.rows(" UNION ALL ".join(selects)):
            for number, frame in zip(*(column.to_pylist() for column in part.columns)):
                answers[number].append(frame)
    for number, text in enumerate(texts, 1):
        assert sorted(answers[number]) == meant[number], text


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_the_rules_of_the_package_mean_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """Spark understands all of them; some, one of each kind, are run, because a query takes long."""
    every = load_rules()
    queries = queries_of(every, Dialect.SPARK)
    tables = tables_of(queries)
    kept: dict[str, list[Record]] = {table: [] for table in tables}
    names = {TABLES[table].row: table for table in tables}
    captures = [str(CAPTURES / "auth-2.15.1.pcap"), str(CAPTURES / "leafnode-2.15.1.pcap")]
    for record in records(captures, tables):
        kept[names[type(record)]].append(record)
    for table, written in kept.items():
        write(tmp_path, table, written)
    run_too = RUN | {
        reference.reference
        for rule in every.values()
        if isinstance(rule, Correlation) and rule.name in RUN
        for reference in rule.parsed_rule.rules
    }
    some = {name: rule for name, rule in every.items() if name in run_too}
    with over_folder(tables, str(tmp_path)) as engine:
        here = found(some, engine)
    with over_views(spark, tables, str(tmp_path)) as on_spark:
        assert on_spark.tables == tables
        for query in queries:
            spark.sql(query.sql)  # is parsed and resolved
        there = found(some, on_spark)
    assert there == here
    assert {finding.rule for finding in here} >= RUN
    assert not [table for table in tables if spark.catalog.tableExists(table)]
