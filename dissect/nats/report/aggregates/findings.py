"""The findings of the audit's rules, from the same pass over the rows as the rest of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import islice

from ...audit.engines.duckdb import over_folder, over_records
from ...audit.findings.finding import Finding
from ...audit.findings.store import store
from ...audit.libraries import check_libraries
from ...audit.run import Engine, queries_of, run, tables_of
from ...audit.sigma.rule_files import load_rules
from ...audit.sql.dialect import Dialect
from ...audit.sql.query import Query
from ...errors import MissingLibrary
from ...schema.records import Record
from ...tables import TABLE_OF
from .aggregate import TABLES, Aggregate

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


def wanted_tables(queries: list[Query] | Findings) -> list[str]:
    """The tables that a report with these rules reads."""
    more = tables_of(queries) if isinstance(queries, list) else frozenset()
    return [*TABLES, *sorted(more - set(TABLES))]


def audited(
    queries: list[Query] | Findings, found: Aggregate, rows: Generator[Record, None, None]
) -> Findings:
    """Adds rows of `wanted_tables` to an aggregate, and runs the rules over them."""
    if isinstance(queries, Findings):
        found.add_all(rows)
        return queries
    tables = tables_of(queries)

    def source(names: Collection[str]) -> Generator[Record, None, None]:
        try:
            yield from _aggregating(rows, found, names)
        finally:
            rows.close()

    with over_records(tables, source) as engine:
        return _findings(queries, engine)


def audited_folder(queries: list[Query] | Findings, folder: str) -> Findings:
    """Runs the rules over Parquet tables."""
    if isinstance(queries, Findings):
        return queries
    with over_folder(tables_of(queries), folder) as engine:
        return _findings(queries, engine)


def _aggregating(
    rows: Iterable[Record], found: Aggregate, names: Collection[str]
) -> Iterator[Record]:
    """Adds the rows of the report's tables to the aggregate, and yields the rows of the tables in `names`."""
    for row in rows:
        table = TABLE_OF[type(row)].name
        if table in TABLES:
            found.add(row)
        if table in names:
            yield row


def _findings(queries: list[Query], engine: Engine) -> Findings:
    with store() as kept:
        outcome = run(queries, engine, kept)
        worst_first = sorted(kept.counts.items(), reverse=True)
        levels = Counter({level.name: count for level, count in worst_first})
        worst = list(islice(kept.findings(), SHOWN))
        return Findings(worst, levels, outcome.ran, outcome.not_run, outcome.unset)
