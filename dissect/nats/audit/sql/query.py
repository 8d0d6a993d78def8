"""A rule compiled to SQL, and the rows of tables that it reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from ..sigma.rules import Rule

COLUMNS = ("ts_ns", "session", "number", "subject", "count", "capture", "packet")
"""The columns that every query has, in this order; its `fields` follow as `f1`, `f2` ..."""

ROW = "r"
SESSION = "s"
"""The SQL aliases of a row of a rule's table, and of the row of its session."""

Row: TypeAlias = tuple[Any, ...]
"""A row of a query's result as Python values; a map is a dictionary."""

_READ = re.compile("\0([^\0]*)\0([^\0]*)\0([^\0]*)\0")  # no literal of a rule contains NUL


class QuerySource(NamedTuple):
    """The table whose rows a rule reads. `joined` is `sessions` if the rule names a column of the row's
    session, else empty."""

    table: str
    joined: str = ""

    @property
    def sql(self) -> str:
        """The FROM clause."""
        if not self.joined:
            return f"FROM {self.table} AS {ROW}"
        join = f"LEFT JOIN {self.joined} AS {SESSION} ON {SESSION}.session = {ROW}.session"
        return f"FROM {self.table} AS {ROW} {join}"

    @property
    def aliases(self) -> dict[str, str]:
        """The tables by their aliases."""
        return {ROW: self.table, SESSION: self.joined} if self.joined else {ROW: self.table}


class TableRead(NamedTuple):
    """The rows that a rule reads: those of `source` for which `condition` is true."""

    source: QuerySource
    condition: str

    @property
    def sql(self) -> str:
        """The FROM and WHERE clauses."""
        return f"{self.source.sql}\nWHERE {self.condition}"

    @property
    def marked(self) -> str:
        """This as a part of `Query.text`."""
        return "\0".join(["", *self.source, self.condition, ""])


class Query(NamedTuple):
    """The SQL of one rule; each row of its result is a finding. `tables` are those that it reads, `fields`
    the names of its further columns, `facts` fields that are the same for all findings (for a correlation,
    what it counted), and `unset` the placeholders without values: a rule that has some cannot run. `text` is
    the SQL with marks in the place of FROM and WHERE clauses.
    """

    rule: Rule
    text: str
    tables: frozenset[str]
    fields: tuple[str, ...]
    facts: dict[str, str]
    unset: frozenset[str]

    @property
    def sql(self) -> str:
        """The SQL over the tables themselves."""
        return self.sql_with(lambda read: read.sql)

    @property
    def reads(self) -> list[TableRead]:
        """The rows that it reads."""
        return [_read(found) for found in _READ.finditer(self.text)]

    def sql_with(self, clauses: Callable[[TableRead], str]) -> str:
        """The SQL with the FROM and WHERE clauses that `clauses` returns for each read."""
        return _READ.sub(lambda found: clauses(_read(found)), self.text)


Answers: TypeAlias = Generator[tuple[Query, Iterator[Row]], None, None]
"""Queries, each with the rows of its result."""


def _read(found: re.Match[str]) -> TableRead:
    table, joined, condition = found.groups()
    return TableRead(QuerySource(table, joined), condition)
