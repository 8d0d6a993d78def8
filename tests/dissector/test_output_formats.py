"""How rows of a table look."""

from __future__ import annotations

import io
import pickle
from functools import partial

import pytest

from dissect.nats.output.formats import format_of, render_of
from dissect.nats.output.terminal import PLAIN, Terminal
from dissect.nats.output.text_table import GridWriter
from dissect.nats.records import COLUMNS

from tests.dissector.test_output_lines import record


def text(name: str, columns: str | None = None, look: Terminal = PLAIN) -> str:
    form = format_of("frames", name, columns, look, False)
    output = io.StringIO()
    writer = form.writer(output)
    writer.write([form.render(record())])
    writer.close()
    return output.getvalue()


def test_each_format() -> None:
    assert text("jsonl", "op,number") == '{"op":"HPUB","number":1}\n'
    assert text("csv", "op,number") == "op,number\nHPUB,1\n"
    assert text("text", "op,number") == "op\tnumber\nHPUB\t1\n"
    assert " s > HPUB " in text("text")
    record_ = record()
    record_.anomalies = ["lost"]
    assert str(render_of("frames", "text", None, Terminal(None, True))(record_)).startswith(
        "\x1b[31m"
    )


@pytest.mark.parametrize("table", [table for table in COLUMNS if table != "frames"])
def test_other_tables_are_grids_for_people(table: str) -> None:
    form = format_of(table, "text", None, PLAIN, False)
    assert isinstance(form.writer(io.StringIO()), GridWriter)


@pytest.mark.parametrize("name", ["text", "jsonl", "csv"])
def test_rows_can_be_rendered_elsewhere(name: str) -> None:
    made = partial(render_of, "frames", name, None, PLAIN)
    there = pickle.loads(pickle.dumps(made))()
    assert there(record()) == format_of("frames", name, None, PLAIN, False).render(record())


def test_a_column_that_is_none() -> None:
    with pytest.raises(ValueError, match="frames has no column 'nope'"):
        format_of("frames", "jsonl", "nope", PLAIN, False)
