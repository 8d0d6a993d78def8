"""Tables of cells: aligned text, or as wide as a terminal."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len

from dissect.nats.output.terminal import PLAIN, Terminal
from dissect.nats.output.text.table import GridWriter
from dissect.nats.schema.declaration import TextColumn

FIELDS = (
    TextColumn("id", 4),
    TextColumn("when", 10, shorter=lambda cell: cell[5:], rank=1),
    TextColumn("bytes", 5, right=True, short="B"),
    TextColumn("text", 12, may_cut=True, alarm=True),
)


def table(*rows: tuple[str, ...], look: Terminal = PLAIN, live: bool = False) -> list[str]:
    output = io.StringIO()
    writer = GridWriter(output, FIELDS, look, live)
    for row in rows:
        writer.write([row])
    writer.close()
    return output.getvalue().splitlines()


def test_plain_text_is_aligned_and_never_cut() -> None:
    assert table(("a", "2026-11-21", "5", "x" * 50), ("bcd", "2026-11-22", "12345", "")) == [
        "id   when        bytes  text",
        "a    2026-11-21      5  " + "x" * 50,
        "bcd  2026-11-22  12345",
    ]


def test_nothing_is_nothing() -> None:
    assert table() == []


def test_columns_without_values_are_left_out_until_one_comes() -> None:
    assert table(("a", "", "1", "")) == ["id  bytes", "a       1"]
    output = io.StringIO()
    writer = GridWriter(output, FIELDS, PLAIN, live=False)
    writer.write([("a", "", "1", "")] * 1000)
    writer.write([("b", "", "2", "late")])
    writer.close()
    lines = output.getvalue().splitlines()
    assert lines[0] == "id  bytes"
    assert lines[1001:] == ["id  bytes  text", "b       2  late"]


def test_what_comes_later_is_shown_whole_where_lines_may_be_long() -> None:
    rows = [("a", "w", "1", "t")] * 1000
    assert table(*rows, ("long id", "w", "1", "t"))[-1] == "long id  w         1  t"


@pytest.mark.parametrize("width", [10, 15, 20, 24, 30, 80])
def test_a_terminal_is_never_too_narrow(width: int) -> None:
    row = ("a", "2026-11-21", "5", "\u6f22\u5b57 and other things")
    lines = table(row, look=Terminal(width))
    head, rule, line, *notes = lines
    assert cell_len(line) <= width and cell_len(head) <= width and cell_len(rule) <= width
    assert ("when" in head) != any("when" in note for note in notes)
    if width == 80:
        assert line.split() == ["a", "2026-11-21", "5", "\u6f22\u5b57", "and", "other", "things"]
    if width == 30:
        assert "11-21" in line and "2026" not in line and "B" in head


def test_what_alarms_is_red() -> None:
    look = Terminal(80, colour=True)
    head, rule, bad = table(("a", "w", "1", "oh"), look=look)
    assert head.startswith("\x1b[1m") and bad.startswith("\x1b[31m")
    assert not table(("a", "w", "1", ""), look=look)[-1].startswith("\x1b")


def test_control_characters_do_nothing() -> None:
    assert "\\x1b[2J" in table(("a", "w", "1", "\x1b[2J"))[-1]


def test_live_rows_are_shown_at_once_below_all_columns() -> None:
    output = io.StringIO()
    writer = GridWriter(output, FIELDS, PLAIN, live=True)
    writer.write([("a", "", "1", "")])
    head, line = output.getvalue().splitlines()
    assert head.split() == ["id", "when", "bytes", "text"]
    assert line.index("1") == head.index("bytes") + 4
    writer.write([("b", "", "2", "x")])
    writer.close()
    assert output.getvalue().count("when") == 1


@pytest.mark.parametrize("width", range(6, 60, 3))
def test_no_column_vanishes_without_being_named(width: int) -> None:
    fields = tuple(
        TextColumn(name, 9, alarm=name == "errors") for name in ("one", "two", "errors", "four")
    )
    output = io.StringIO()
    writer = GridWriter(output, fields, Terminal(width), live=False)
    writer.write([("123456789",) * 4])
    writer.close()
    head, *_, last = output.getvalue().splitlines()
    hidden = last.partition(" columns: ")[2]
    for name in ("two", "errors", "four"):
        assert (name in head) != (name in hidden)
    assert head.startswith("one") and ("errors" in head) >= ("two" in head)


def test_a_column_that_was_chosen_is_shown_without_values() -> None:
    output = io.StringIO()
    writer = GridWriter(output, (TextColumn("a", 4, always=True),), PLAIN, live=False)
    writer.write([("",), ("",)])
    writer.close()
    assert output.getvalue() == "a\n\n\n"
