"""What the report shows of some rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from dissect.nats.audit.engines.duckdb import DuckDb
from dissect.nats.questions.ask import tables_read
from dissect.nats.report.answers import QUESTIONS, Answers, answers_of
from dissect.nats.schema.records import Record

from tests.support.audit import in_memory


@contextmanager
def engine_over(rows: Iterable[Record]) -> Iterator[DuckDb]:
    """An engine over some rows, which has all tables that the report reads."""
    with in_memory(rows, tables_read(QUESTIONS)) as engine:
        yield engine


def answers(rows: Iterable[Record] = ()) -> Answers:
    """The answers to all questions of the report."""
    with engine_over(rows) as engine:
        return answers_of(engine)
