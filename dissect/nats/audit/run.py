"""Runs an audit: compiles rules, runs their queries on an engine, and collects the findings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from ..output.duckdb import columns_named
from .copies import with_copies
from .findings.finding import Finding, findings_of
from .findings.store import Store
from .sigma.rules import Correlation, Detection
from .sql.compiler import Variables, compiled, reporting
from .sql.dialect import Dialect
from .sql.query import Answers, Query


class Engine(Protocol):
    """An engine that runs SQL over tables. `lacking` are columns of them that have no values, see
    `DuckDb`; `copies` is the number of sessions that are left out, see `audit.copies`."""

    dialect: Dialect
    tables: frozenset[str]
    lacking: Mapping[str, Sequence[str]]
    copies: int

    def answers(self, queries: Sequence[Query]) -> Answers:
        """Runs queries, whose tables all exist: yields each one with its rows. Read all of these before the
        next query."""


@dataclass(slots=True)
class Outcome:
    """The result of an audit: the number of rules that ran, and the rules that did not. `not_run` has the
    tables that each one lacks, `unset` to the placeholders that have no values."""

    ran: int = 0
    not_run: dict[str, list[str]] = field(default_factory=dict)
    unset: dict[str, list[str]] = field(default_factory=dict)


def queries_of(
    rules: Mapping[str, Detection | Correlation],
    dialect: Dialect,
    variables: Variables = MappingProxyType({}),
) -> list[Query]:
    """The queries of all rules that make findings; `variables` are the values of placeholders."""
    return compiled(rules, reporting(rules), dialect, variables)


def check_variables(
    rules: Mapping[str, Detection | Correlation], variables: Collection[str]
) -> None:
    """Raises ValueError for a variable that no rule uses, such as a misspelt one."""
    if not variables:
        return  # compiling all rules once more takes a tenth of a second
    known = {name for query in queries_of(rules, Dialect.DUCKDB) for name in query.unset}
    for name in variables:
        if name not in known:
            raise ValueError(
                f"no rule has the placeholder %{name}%; rules have"
                f" {', '.join(f'%{each}%' for each in sorted(known)) or 'none'}"
            )


def tables_of(queries: Sequence[Query]) -> frozenset[str]:
    """The tables that the queries read."""
    return frozenset().union(*(query.tables for query in queries if not query.unset))


def columns_of(queries: Sequence[Query]) -> dict[str, list[str]]:
    """The columns that the queries read, by table, and those that tell which connections count once."""
    texts: dict[str, list[str]] = {table: [] for table in tables_of(queries)}
    for query in queries:
        if not query.unset:
            for table in query.tables:
                texts[table].append(query.sql)
    return with_copies({table: columns_named(table, some) for table, some in texts.items()})


def run(
    queries: Sequence[Query],
    engine: Engine,
    store: Store,
    reviewed: Callable[[Iterable[Finding]], Iterable[Finding]] = iter,
) -> Outcome:
    """Runs the queries and puts their findings, as `reviewed` returns them, into the store."""
    outcome = Outcome()
    able = []
    for query in queries:
        if query.unset:
            outcome.unset[query.rule.name] = sorted(query.unset)
        elif lacking := sorted(query.tables - engine.tables):
            outcome.not_run[query.rule.name] = lacking
        else:
            able.append(query)
    with closing(engine.answers(able)) as answers:
        for query, rows in answers:
            outcome.ran += 1
            store.add(reviewed(findings_of(query, rows)))
    return outcome
