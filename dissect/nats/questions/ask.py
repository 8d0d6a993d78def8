"""Questions about the tables: a text of SQL each, the `.sql` files of this folder. Everything that shows a
figure asks here: the report, plots and notebooks.

    for row in ask(engine, "talkers", limit=20):
        print(row.name, row.sent_bytes)

The texts run on DuckDB. Those that plots ask run on Spark SQL, too. `$name` stands for a value, or for one of
the expressions that are defined here, each from the one place with its rule: single-use subjects, buckets of
durations, bins of time, what is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from string import Template
from types import SimpleNamespace
from typing import Protocol

from ..outcomes import ERROR_STATUS
from ..output.duckdb import columns_named
from ..subjects import SINGLE_USE
from ..tables import TABLES
from .bins import LIMIT, WIDTHS

AnswerRow = SimpleNamespace
"""A row of an answer; its attributes are the columns."""

BAR_BITS = 3
"""A histogram has 8 buckets for each power of two."""

_FROM = re.compile(r"\b(FROM|JOIN) (\w+)")


class QueryEngine(Protocol):
    """An engine that runs SQL over tables. `list_size` is its function for the size of a list."""

    list_size: str

    def named(self, sql: str) -> list[dict[str, object]]:
        """The rows of a query, by column. Raises DissectError."""


def ask(engine: QueryEngine, question: str, **values: object) -> list[AnswerRow]:
    """The answer to a question, with these values."""
    return answer_of(engine, sql_of(question, engine.list_size, **values))


def answer_of(engine: QueryEngine, sql: str) -> list[AnswerRow]:
    """The rows of a query."""
    return [AnswerRow(**row) for row in engine.named(sql)]


def sql_of(question: str, list_size: str = "len", **values: object) -> str:
    """The text of a question with these values."""
    expressions = {**_EXPRESSIONS, "errors": _ERRORS.format(list_size)}
    for name, value in values.items():
        expressions[name] = str(value)
    return Template(_text(question)).substitute(expressions)


def tables_read(questions: Iterable[str]) -> list[str]:
    """The tables that questions read, in the order of their declaration."""
    named = {table for question in questions for _, table in _FROM.findall(_text(question))}
    return [table for table in TABLES if table in named]


def columns_read(questions: Iterable[str], table: str) -> list[str]:
    """The columns of a table that questions read."""
    texts = [_text(question) for question in questions]
    return columns_named(table, [*(text for text in texts if table in text), _FRAGMENTS])


def over(sql: str, views: dict[str, str]) -> str:
    """SQL that reads views in place of tables."""
    return _FROM.sub(lambda found: f"{found[1]} {views.get(found[2], found[2])}", sql)


@cache
def _text(question: str) -> str:
    return (files(__package__) / f"{question}.sql").read_text(encoding="utf-8")


def _generic(column: str) -> str:
    """`subjects.generic` as SQL."""
    cases = " ".join(
        f"WHEN left({column}, {len(prefix)}) = '{prefix}' THEN '{prefix}>'" for prefix in SINGLE_USE
    )
    return f"CASE {cases} ELSE {column} END"


def bucket(column: str, bits: int) -> str:
    """`durations.bucket_of` as SQL, for durations that are not negative."""
    width = f"CAST(power(2, greatest(0, length(bin({column})) - {bits + 1})) AS BIGINT)"
    return f"{column} - {column} % {width}"


def _bin(time: str, width: str) -> str:
    """The beginning of the bin of a time, which may be before 1970."""
    return f"{time} - (({time} % {width}) + {width}) % {width}"


_ERRORS = "CASE WHEN errors IS NULL THEN 0 ELSE {}(errors) END"
_EXPRESSIONS = {
    "generic_subject": _generic("subject"),
    "bucket": bucket("duration_ns", BAR_BITS),
    "bin": _bin("ts_ns", "width_ns"),
    "width_of_span": (
        f"SELECT min(width_ns) AS width_ns"
        f" FROM span CROSS JOIN (VALUES {', '.join(f'({width})' for width in WIDTHS)})"
        " AS widths(width_ns)"
        # Both are whole numbers of bins. The difference of the times may have more than 64 bits.
        f" WHERE ({_bin('last_ns', 'width_ns')}) / width_ns"
        f" - ({_bin('first_ns', 'width_ns')}) / width_ns < {LIMIT} - 0.5"
    ),
    "who": (
        "coalesce(nullif(client_name, ''), nullif(remote_name, ''),"
        " regexp_extract(originator, '^(.*):[^:]*$', 1))"
    ),
    "server": "coalesce(nullif(server_name, ''), nullif(server_id, ''), responder)",
    "is_error": f"code >= {ERROR_STATUS}",
}
_FRAGMENTS = " ".join([*_EXPRESSIONS.values(), _ERRORS])
