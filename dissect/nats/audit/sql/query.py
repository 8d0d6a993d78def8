"""A rule compiled to SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from ..sigma.rules import Rule

COLUMNS = ("ts_ns", "session", "number", "subject", "count", "capture", "packet")
"""The columns that every query has, in this order; those of its `fields` follow as `f1`, `f2` ..."""

Row: TypeAlias = tuple[Any, ...]
"""A row of a query: Python's values, and a dictionary for a map."""


class Query(NamedTuple):
    """The SQL of one rule: its rows are findings. `tables` are those that it reads, `fields` the names of
    its further columns, `facts` what holds for all findings (how a correlation counts, for one), `unset` the
    placeholders of the rule that have no values: without them it cannot run."""

    rule: Rule
    sql: str
    tables: frozenset[str]
    fields: tuple[str, ...]
    facts: dict[str, str]
    unset: frozenset[str]
