"""The rules of the package: each finds what it is about, and does not find what resembles it."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

import pytest

from dissect.nats import records
from dissect.nats.audit.run import tables_of
from dissect.nats.audit.sigma.rule_files import load_rules
from dissect.nats.audit.sql.compiler import compiled, reporting
from dissect.nats.audit.sql.dialect import Dialect
from dissect.nats.audit.sql.query import COLUMNS
from dissect.nats.schema.records import Record
from dissect.nats.tables import TABLES

from tests.dissector.audit import cases, cases_data
from tests.support.audit import in_memory
from tests.support.nats_session import capture
from tests.support.paths import CAPTURES, INCIDENTS
from tests.support.pcapwriter import Conversation

RULES = load_rules()
REPORTING = sorted(reporting(RULES))
CASES = {**cases.CASES, **cases_data.CASES}
FEWEST = 35


def rows_of(case: cases.Case, folder: Path, tables: Collection[str]) -> list[Record]:
    """The rows of a case."""
    if isinstance(case, str):
        (path,) = (path for folder in (CAPTURES, INCIDENTS) for path in folder.glob(f"{case}.pcap"))
        return list(records([str(path)], list(tables)))
    conversations = [each for each in case if isinstance(each, Conversation)]
    if conversations:
        return list(records([str(capture(folder / "made.pcap", conversations))], list(tables)))
    wanted = tuple(TABLES[table].row for table in tables)
    return [each for each in case if isinstance(each, wanted)]


def findings(rule: str, case: cases.Case, folder: Path) -> int:
    """How many findings a rule has in a case."""
    (query,) = compiled(RULES, [rule], Dialect.DUCKDB, cases.VARIABLES)
    tables = tables_of([query])
    with in_memory(rows_of(case, folder, tables), tables) as engine:
        found = list(engine.rows(query.sql))
        names = [name for name, *_ in engine._connection.description]
        assert tuple(names[: len(COLUMNS)]) == COLUMNS
        return len(found)


@pytest.mark.parametrize("rule", REPORTING)
def test_a_rule_finds_what_it_is_about(rule: str, tmp_path: Path) -> None:
    found, passed = CASES[rule]
    assert findings(rule, found, tmp_path) > 0
    assert findings(rule, passed, tmp_path) == 0


def test_every_case_has_its_rule() -> None:
    assert sorted(CASES) == REPORTING and len(REPORTING) >= FEWEST


@pytest.mark.parametrize("rule", REPORTING)
def test_a_rule_says_what_to_do(rule: str) -> None:
    declared = RULES[rule]
    assert declared.description.endswith(".") and declared.remedy.endswith(".")
    assert isinstance(declared.document.value, dict) and "harm" in declared.document.value
    assert declared.false_positives and declared.references
    assert all(each.startswith("https://") for each in declared.references)
    for tag in declared.tags:
        assert re.fullmatch(r"attack\.(t\d{4}(\.\d{3})?|[a-z-]+)|cve\.\d{4}-\d{4,}", tag), tag


@pytest.mark.parametrize(
    "err_code, error, advice",
    [
        (10077, "maximum messages exceeded", "raise the limit"),
        (10168, "message counters is disabled", "allow_msg_counter"),
        (10169, "message counter increment is missing", "Nats-Incr"),
        (10188, "message schedules is disabled", "allow_msg_schedules"),
        (10189, "message schedules pattern is invalid", "Nats-Schedule"),
        (10166, "per-message TTL is disabled", "allow_msg_ttl"),
        (10174, "atomic publish is disabled", "allow_atomic"),
        (10176, "atomic publish batch is incomplete", "publish all of it again"),
        (10205, "batch publish is disabled", "allow_batched"),
    ],
)
def test_a_refused_publication_has_advice_for_its_error(
    err_code: int, error: str, advice: str, tmp_path: Path
) -> None:
    assert (
        findings(
            "publish-refused",
            cases_data.published(error=cases_data.fault(400, err_code, error)),
            tmp_path,
        )
        == 1
    )
    assert advice in RULES["publish-refused"].remedy


def test_correlations_count_rules_that_are_no_findings_of_their_own() -> None:
    silent = sorted(RULES.keys() - set(REPORTING))
    assert {RULES[name].level.name for name in silent} == {"informational"}
