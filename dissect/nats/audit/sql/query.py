"""A rule compiled to SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from ..sigma.rules import Rule

COLUMNS = ("ts_ns", "session", "number", "subject", "count", "capture", "packet")
"""The columns that every query has, in this order; its `fields` follow as `f1`, `f2` ..."""

Row: TypeAlias = tuple[Any, ...]
"""A row of a query's result as Python values; a map is a dictionary."""


class Query(NamedTuple):
    """The SQL of one rule; each row of its result is a finding. `tables` are those that it reads, `fields`
    the names of its further columns, `facts` fields that are the same for all findings (for a correlation,
    what it counted), and `unset` the placeholders without values: a rule that has some cannot run.
    """

    rule: Rule
    sql: str
    tables: frozenset[str]
    fields: tuple[str, ...]
    facts: dict[str, str]
    unset: frozenset[str]
