"""The findings of the audit's rules, over the tables that the report asks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from itertools import islice

from ..audit.copies import with_copies
from ..audit.findings.finding import Finding
from ..audit.findings.store import store
from ..audit.libraries import check_libraries
from ..audit.run import Engine, columns_of, queries_of, run
from ..audit.sigma.rule_files import load_rules
from ..audit.sql.dialect import Dialect
from ..audit.sql.query import Query
from ..errors import MissingLibrary
from ..questions.ask import columns_read, tables_read
from .answers import QUESTIONS

SHOWN = 500
"""The most findings that have a row on the page: the worst ones."""


@dataclass(slots=True)
class Findings:
    """Findings of an audit. `worst` are those with a row on the page, `levels` counts all by level; both
    begin with the worst. `not_run` are rules that lack tables, `unset` those that lack values.
    `why_not` is the reason if no audit ran.
    """

    worst: list[Finding] = field(default_factory=list)
    levels: Counter[str] = field(default_factory=Counter)
    ran: int = 0
    not_run: dict[str, list[str]] = field(default_factory=dict)
    unset: dict[str, list[str]] = field(default_factory=dict)
    why_not: str = ""

    @property
    def left_out(self) -> int:
        """The number of findings without a row."""
        return self.levels.total() - len(self.worst)


def rules() -> list[Query] | Findings:
    """The package's rules as queries, or `Findings` with the reason why no audit can run."""
    try:
        check_libraries()
    except MissingLibrary as error:
        return Findings(why_not=str(error))
    return _queries()


@cache
def _queries() -> list[Query]:
    return queries_of(load_rules(), Dialect.DUCKDB)


def wanted(queries: list[Query] | Findings) -> dict[str, list[str]]:
    """The tables that a report with these rules reads, and their columns."""
    columns = {table: columns_read(QUESTIONS, table) for table in tables_read(QUESTIONS)}
    if isinstance(queries, list):
        for table, names in columns_of(queries).items():
            columns[table] = list(dict.fromkeys([*columns.get(table, ()), *names]))
    return with_copies(columns)


def findings_in(queries: list[Query] | Findings, engine: Engine) -> Findings:
    """Runs the rules."""
    if isinstance(queries, Findings):
        return queries
    with store() as kept:
        outcome = run(queries, engine, kept)
        worst_first = sorted(kept.counts.items(), reverse=True)
        levels = Counter({level.name: count for level, count in worst_first})
        worst = list(islice(kept.findings(), SHOWN))
        return Findings(worst, levels, outcome.ran, outcome.not_run, outcome.unset)
