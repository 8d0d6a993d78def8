"""Every format that is registered, over every table; a new one takes part by its line in the registry."""

from __future__ import annotations

import io
import pickle
from functools import partial

import pytest

from dissect.nats.cli import cli
from dissect.nats.output.formats import FORMATS
from dissect.nats.output.writer import (
    Layout,
    LineWriter,
    OutputFormat,
    QueryFormat,
    Render,
)
from dissect.nats.tables import TABLES

from tests.support.records import frame_record


def render_of(name: str, table: str) -> Render:
    return FORMATS[name].table(table, Layout()).render


def text(name: str, columns: tuple[str, ...]) -> str:
    form = FORMATS[name].table("frames", Layout(columns))
    output = io.StringIO()
    writer = form.writer(output)
    writer.write([form.render(frame_record())])
    writer.close()
    return output.getvalue()


def test_formats_for_people_and_programs() -> None:
    assert text("jsonl", ("op", "number")) == '{"op":"HPUB","number":1}\n'
    assert text("csv", ("op", "number")) == "op,number\nHPUB,1\n"
    assert text("text", ("op", "number")) == "op    number\nHPUB       1\n"


@pytest.mark.parametrize("name", FORMATS)
def test_rows_can_be_rendered_elsewhere(name: str) -> None:
    there = pickle.loads(pickle.dumps(partial(render_of, name, "frames")))()
    assert there(frame_record()) == render_of(name, "frames")(frame_record())


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_writes_every_table_without_rows(name: str) -> None:
    for table in TABLES:
        output = io.TextIOWrapper(io.BytesIO())
        writer = FORMATS[name].table(table, Layout()).writer(output)
        writer.write([])
        writer.close()


class Shouted:
    """A format that somebody adds: upper-case operations."""

    meaning = "operations in upper case"
    binary = False

    def table(self, table: str, layout: Layout) -> OutputFormat:
        return OutputFormat(lambda row: f"{getattr(row, 'op', table).upper()}!\n", LineWriter)

    def query(self, columns: object, layout: Layout) -> QueryFormat:
        return QueryFormat(lambda batch: ["ROW!\n"] * batch.num_rows, LineWriter)


def test_a_new_format_is_its_class_and_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMATS, "shouted", Shouted())
    form = FORMATS["shouted"].table("frames", Layout())
    output = io.StringIO()
    form.writer(output).write([form.render(frame_record())])
    assert output.getvalue() == "HPUB!\n"
    assert cli.get_command(None, "frames") is not None  # type: ignore[arg-type]  # needs no context
