"""Pieces of SQL, as DuckDB reads them; Spark reads them in test_spark_engine."""

from __future__ import annotations

import pytest

from dissect.nats.audit.sql.dialect import (
    Dialect,
    fold,
    like,
    like_escaped,
    like_field,
    literal,
)

from tests.support.requirements import missing

try:
    import duckdb
except ImportError as lack:
    missing("duckdb", str(lack))


def value(expression: str) -> object:
    return duckdb.connect().execute(f"SELECT {expression}").fetchall()[0][0]


@pytest.mark.parametrize(
    "text", ["", "plain", "it's", "\\", "a\\'b", "line\nend", "ü€😀", "''", "--"]
)
def test_a_literal_is_the_text(text: str) -> None:
    assert value(literal(text)) == text
    assert "\\" not in literal(text)


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_some_texts_cannot_be_written(text: str) -> None:
    with pytest.raises(ValueError, match="a text cannot contain"):
        literal(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("AbZ @[`{", "abz @[`{"), ("AbZ Ü İ \u212a", "abz Ü İ \u212a"), ("", "")],
)
def test_only_letters_of_ascii_are_folded(text: str, expected: str) -> None:
    assert value(Dialect.DUCKDB.folded(literal(text))) == fold(text) == expected


def test_a_text_that_is_absent_stays_absent() -> None:
    assert value(Dialect.DUCKDB.folded("CAST(NULL AS STRING)")) is None


def test_a_pattern_takes_its_own_signs_as_they_are() -> None:
    pattern = like_escaped("50%_!") + "%"
    assert value(like(literal("50%_! off"), pattern)) is True
    assert value(like(literal("50xx! off"), pattern)) is False


@pytest.mark.parametrize(
    ("starts", "ends", "text"),
    [(True, False, "a%b-"), (False, True, "-a%b"), (True, True, "-a%b-")],
)
def test_a_field_may_be_a_part_of_another(starts: bool, ends: bool, text: str) -> None:
    condition = like_field("x.one", "x.two", starts, ends)
    rows = f"(SELECT {literal(text)} AS one, 'a%b' AS two) AS x"
    assert duckdb.connect().execute(f"SELECT {condition} FROM {rows}").fetchall() == [(True,)]
    other = rows.replace("a%b-", "axb-").replace("-a%b", "-axb")
    assert duckdb.connect().execute(f"SELECT {condition} FROM {other}").fetchall() == [(False,)]


def test_what_is_no_json_has_no_values() -> None:
    for text, found in (('{"a": {"b": true}}', "true"), ("***", None), ('{"a": 1}', None)):
        assert value(Dialect.DUCKDB.json_text(literal(text), ["a", "b"])) == found
