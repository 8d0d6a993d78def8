"""What all formats share: chosen columns, and lines written as they are."""

from __future__ import annotations

import io

import pytest

from dissect.nats.output.writer import (
    Layout,
    LineWriter,
    Rendered,
    chosen_columns,
    column_names,
    first_rendered,
    rendered_count,
)
from dissect.nats.tables import TABLES


def test_lines_are_written_as_they_are() -> None:
    output = io.StringIO()
    writer = LineWriter(output, "head\n")
    writer.write(["a\n", "b\n"])
    writer.close()
    assert output.getvalue() == "head\na\nb\n"


@pytest.mark.parametrize("count, left", [(0, 0), (2, 2), (4, 4), (5, 5)])
def test_the_first_rows_of_lines_and_of_batches(count: int, left: int) -> None:
    arrow = pytest.importorskip("pyarrow")
    lines: list[Rendered] = ["a\n"] * 5
    batches: list[Rendered] = [
        arrow.RecordBatch.from_pydict({"a": list(range(size))}) for size in (3, 2)
    ]
    for rows in (lines, batches):
        assert rendered_count(first_rendered(rows, count)) == left


def test_columns_are_chosen_by_name() -> None:
    assert chosen_columns("frames", "op, subject") == ("op", "subject")
    assert chosen_columns("frames", None) is None
    with pytest.raises(ValueError, match="sessions has no column 'subject'"):
        chosen_columns("sessions", "subject")


def test_a_column_is_not_named_twice() -> None:
    with pytest.raises(ValueError, match="op is named twice"):
        chosen_columns("frames", "op,subject,op")


def test_without_a_choice_all_columns_count() -> None:
    assert column_names("frames", Layout()) == tuple(item.name for item in TABLES["frames"].columns)
    assert column_names("frames", Layout(("op",))) == ("op",)
