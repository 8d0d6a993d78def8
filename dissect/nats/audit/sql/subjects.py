"""Subjects of subscriptions, with the wildcards `*` and `>`, and the subjects that they match, as SQL.

This is the one place where rules compare subjects. As in `sessions.interest`, wildcards are found by their
shape: where they stand, and how many tokens there are. For each subject and each shape there is only one
subject of a subscription that can match, so a table of 500,000 subjects is not compared with each of
500,000 subscriptions, but looked up once for each shape.
"""

from __future__ import annotations

from collections.abc import Sequence

from .dialect import Dialect

SHAPES = 256
"""The most shapes: of more, only those of the most subscriptions are matched. Real systems have dozens."""
TOKENS = 16
"""The most tokens of a subject with wildcards that is matched."""

_PATTERNS = {("subscriptions", "subject"), ("services", "subject")}
_WILDCARD = r"(^|[.])([*]([.]|$)|>$)"
_MISPLACED = r"(^|[.])>[.]"  # matches nothing; servers refuse it


def may_have_wildcards(table: str, column: str) -> bool:
    """Whether the values of a column are subjects that subscriptions have."""
    return (table, column) in _PATTERNS


def matches(
    key: str, subjects: Sequence[str], patterns: Sequence[str], dialect: Dialect
) -> tuple[str, list[str]]:
    """The name of a table with the columns `subject` and `pattern`, and the common table expressions that
    make it: each value of the column `key` in the tables `subjects`, with itself and with each value of `key`
    in the tables `patterns` that has wildcards and matches it."""
    wild = [dialect.matches(key, _WILDCARD), f"NOT {dialect.matches(key, _MISPLACED)}"]
    wild.append(f"{_count(key)} <= {TOKENS}")
    # One letter a token, as x*x> for orders.*.new.>
    letters = " || ".join(_letter(place) for place in range(1, TOKENS + 1))
    # The subject with the wildcards of the shape.
    tokens = ", ".join(_token(place) for place in range(1, TOKENS + 1))
    fits = "s.tokens = length(h.shape) OR (h.shape LIKE '%>' AND s.tokens > length(h.shape))"
    return f"matches_{key}", [
        f"subjects_{key} AS (SELECT DISTINCT {key} AS subject, {_count(key)} AS tokens"
        f" FROM ({_union(key, subjects)}) AS q)",
        f"patterns_{key} AS (SELECT DISTINCT {key} AS pattern FROM ({_union(key, patterns)}) AS q"
        f" WHERE {' AND '.join(wild)})",
        f"shapes_{key} AS (SELECT shape FROM (SELECT {letters} AS shape FROM patterns_{key}) AS q"
        f" GROUP BY shape ORDER BY count(*) DESC, shape LIMIT {SHAPES})",
        f"""matches_{key} AS (
SELECT subject, subject AS pattern FROM subjects_{key}
UNION
SELECT s.subject, p.pattern FROM subjects_{key} AS s JOIN shapes_{key} AS h ON {fits}
JOIN patterns_{key} AS p ON p.pattern = concat_ws('.', {tokens})
)""",
    ]


def _count(subject: str) -> str:
    return f"length({subject}) - length(replace({subject}, '.', '')) + 1"


def _letter(place: int) -> str:
    token = f"split_part(pattern, '.', {place})"
    return (
        f"CASE WHEN {token} IN ('*', '>') THEN {token}"
        f" WHEN {_count('pattern')} >= {place} THEN 'x' ELSE '' END"
    )


def _token(place: int) -> str:
    """A token; NULL, which `concat_ws` leaves out, after the last one."""
    letter = f"substr(h.shape, {place}, 1)"
    return (
        f"CASE {letter} WHEN 'x' THEN split_part(s.subject, '.', {place})"
        f" WHEN '*' THEN '*' WHEN '>' THEN '>' END"
    )


def _union(key: str, tables: Sequence[str]) -> str:
    return " UNION ALL ".join(f"SELECT {key} FROM {table}" for table in tables)
