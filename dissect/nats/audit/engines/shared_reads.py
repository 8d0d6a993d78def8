"""One pass over a table for all rules that read it, as SQL for Spark.

A source that several rules read becomes a view of the rows that any of them matches, with the columns that
their findings show and, for each condition, whether it is true. So a table, joined with `sessions` where
rules name columns of the session, is read once, however many rules there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ...tables import TABLES
from ..sql.query import ROW, SESSION, Query, QuerySource, TableRead

_COLUMN = re.compile(rf"\b({ROW}|{SESSION})\.(\w+)", re.ASCII)


@dataclass(slots=True)
class _View:
    """`flags` has, by condition, the name of the column that is true where the condition is; `used` has the
    aliases and names of the columns that queries use apart from that."""

    name: str
    flags: dict[str, str] = field(default_factory=dict)
    used: set[tuple[str, str]] = field(default_factory=set)


class SharedReads:
    """The views for some queries. In a view, the rows of the table and of the session are the structs `r` and
    `s`, so that the SQL of fields is the same over the view as over the tables."""

    def __init__(self, queries: Sequence[Query]) -> None:
        self._views: dict[QuerySource, _View] = {}
        for query in queries:
            used = _COLUMN.findall(query.sql_with(lambda read: ""))  # outside conditions
            for source, condition in query.reads:
                view = self._views.setdefault(source, _View(f"shared_read_{len(self._views) + 1}"))
                view.flags.setdefault(condition, f"matched_{len(view.flags) + 1}")
                view.used.update(used)

    def views(self) -> Iterator[tuple[str, str]]:
        """The names of the views, and the SQL of their rows."""
        for source, view in self._views.items():
            if _is_shared(view):
                yield view.name, _sql(source, view)

    def clauses(self, read: TableRead) -> str:
        """The FROM and WHERE clauses of a read: over a view, if there is one for it."""
        view = self._views[read.source]
        if _is_shared(view):
            return f"FROM {view.name}\nWHERE {view.flags[read.condition]}"
        return read.sql


def _is_shared(view: _View) -> bool:
    return len(view.flags) > 1  # a single rule reads the table itself


def _sql(source: QuerySource, view: _View) -> str:
    columns = []
    for alias, table in source.aliases.items():
        names = [each.name for each in TABLES[table].columns if (alias, each.name) in view.used]
        if names:
            columns.append(f"struct({', '.join(f'{alias}.{name}' for name in names)}) AS {alias}")
    columns += [f"{condition} AS {flag}" for condition, flag in view.flags.items()]
    rows = f"SELECT {', '.join(columns)}\n{source.sql}"
    return f"SELECT * FROM (\n{rows}\n) AS q\nWHERE {' OR '.join(view.flags.values())}"
