"""Sessions that show a connection again (`copy_of`): engines leave their rows out, so that rules and reports
count each connection once. What each place has of its own, `flows` and `anomalies`, stays."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..tables import TABLES

SESSIONS, COPY_OF = "sessions", "copy_of"
_OF_PLACES = frozenset({"flows", "anomalies"})


def counted_once(tables: Collection[str]) -> list[str]:
    """Those of the tables from which the rows of these sessions are left out: none without `sessions`."""
    return sorted(filter(_is_counted_once, tables)) if SESSIONS in tables else []


def with_copies(columns: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The columns of these tables, and those that tell which rows are left out."""
    found = {table: [*names] for table, names in columns.items()}
    for table in counted_once(found):
        needed = ["session", COPY_OF] if table == SESSIONS else ["session"]
        found[table] += [name for name in needed if name not in found[table]]
    return found


def _is_counted_once(table: str) -> bool:
    names = {column.name for column in TABLES[table].columns}
    return "session" in names and table not in _OF_PLACES
