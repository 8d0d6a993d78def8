"""Rules made at random: the SQL of DuckDB finds what the rules mean."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dissect.nats.audit.engines.duckdb import DuckDb
from dissect.nats.audit.sql.compiler import compiled
from dissect.nats.audit.sql.dialect import Dialect
from dissect.nats.audit.sql.query import COLUMNS

from tests.support import audit_windows
from tests.support.audit import detection_text, in_memory, rules
from tests.support.audit_evaluator import Rule, rows

FRAMES = rows(Random(7), 60)
SERIES = audit_windows.rows(Random(7), 60)


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckDb]:
    with in_memory(FRAMES, {"frames"}) as made:
        yield made


@pytest.fixture(scope="module")
def series() -> Iterator[DuckDb]:
    with in_memory(SERIES, {"frames"}) as made:
        yield made


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 1 << 32))
def test_a_rule_finds_the_rows_that_it_means(engine: DuckDb, seed: int) -> None:
    rule = Rule(Random(seed))
    made = rules(detection_text(rule.yaml))
    (query,) = compiled(made, made, Dialect.DUCKDB)
    meant = [frame.number for frame in FRAMES if rule.holds(frame)]
    found = [row[COLUMNS.index("number")] for row in engine.rows(query.sql)]
    assert sorted(found) == meant, rule.yaml


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 1 << 32))
def test_a_correlation_finds_the_windows_that_it_means(series: DuckDb, seed: int) -> None:
    correlation = audit_windows.Correlation(Random(seed), 1)
    (query,) = compiled(rules(correlation.text), [correlation.name], Dialect.DUCKDB)
    found = audit_windows.found_in(series.rows(query.sql))
    assert sorted(found) == correlation.found(SERIES), correlation.text
