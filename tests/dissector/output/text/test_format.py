"""Text for people: frames are lines, other tables are aligned."""

from __future__ import annotations

import io

import pytest

from dissect.nats.output.terminal import Terminal
from dissect.nats.output.text.format import Text
from dissect.nats.output.text.table import GridWriter
from dissect.nats.output.writer import Layout
from dissect.nats.tables import TABLES

from tests.support.records import frame_record


def written(layout: Layout, *subjects: str | None) -> list[str]:
    form = Text().table("frames", layout)
    output = io.StringIO()
    writer = form.writer(output)
    for subject in subjects:
        row = frame_record()
        row.subject = subject
        writer.write([form.render(row)])
    writer.close()
    return output.getvalue().splitlines()


def test_frames_are_lines() -> None:
    (line,) = written(Layout(), "a.b")
    assert " s > HPUB " in line
    bad = frame_record()
    bad.anomalies = ["lost"]
    painted = Text().table("frames", Layout(terminal=Terminal(None, True))).render(bad)
    assert str(painted).startswith("\x1b[31m")


@pytest.mark.parametrize("table", [table for table in TABLES if table != "frames"])
def test_other_tables_are_grids(table: str) -> None:
    form = Text().table(table, Layout())
    assert isinstance(form.writer(io.StringIO()), GridWriter)


def test_chosen_columns_are_aligned_and_all_there() -> None:
    layout = Layout(("op", "subject", "reply", "number"))
    assert written(layout, "a.longer.one", None) == [
        "op    subject       reply  number",
        "HPUB  a.longer.one              1",
        "HPUB                            1",
    ]


def test_chosen_columns_do_nothing_to_a_terminal() -> None:
    assert written(Layout(("subject",)), "a\x1b\u202e") == ["subject", "a\\x1b\\u202e"]
