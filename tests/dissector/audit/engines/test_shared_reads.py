"""One pass over a table for several rules, as SQL; test_spark.py runs it."""

from __future__ import annotations

from dissect.nats.audit.engines.shared_reads import SharedReads
from dissect.nats.audit.sql.compiler import compiled
from dissect.nats.audit.sql.dialect import Dialect
from dissect.nats.audit.sql.query import Query

from tests.support.audit import detection_text, rules


def queries(*texts: str) -> list[Query]:
    made = rules("---\n".join(detection_text(text, number=n) for n, text in enumerate(texts, 1)))
    return compiled(made, made, Dialect.SPARK)


def sql(made: list[Query]) -> tuple[list[tuple[str, str]], list[str]]:
    """The views, and the queries over them."""
    shared = SharedReads(made)
    return [*shared.views()], [query.sql_with(shared.clauses) for query in made]


def test_a_single_rule_reads_the_table() -> None:
    made = queries("  selection: {op: PUB}", "  selection: {op: SUB, session.user: x}")
    assert sql(made) == ([], [query.sql for query in made])
    assert "\0" not in made[0].sql and "\nFROM frames AS r\nWHERE " in made[0].sql


def test_rules_over_one_source_share_a_view() -> None:
    made = queries("  selection: {op: PUB}", "  selection: {op: SUB}", "  selection: {op: PUB}")
    ((name, view),), found = sql(made)
    assert [query.partition("FROM ")[2] for query in found] == [
        f"{name}\nWHERE matched_1",
        f"{name}\nWHERE matched_2",
        f"{name}\nWHERE matched_1",
    ]
    assert view.startswith("SELECT * FROM (\nSELECT struct(r.session, r.number, ")
    assert "r.reply" not in view and view.endswith(" AS q\nWHERE matched_1 OR matched_2")


def test_the_row_of_the_session_is_part_of_the_view() -> None:
    ((_, view),), found = sql(
        queries("  selection: {session.user: a}", "  selection: {session.auth: b}")
    )
    assert (
        "r.subject) AS r, struct(s.auth, s.user) AS s, coalesce(" in view
        and "LEFT JOIN sessions AS s ON" in view
    )
    assert "s.user AS f1" in found[0]
