"""Records as JSON lines, CSV and fields."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats import Options, Payload, records
from dissect.nats.output.lines import (
    LineWriter,
    chosen_columns,
    csv_line,
    csv_lines,
    field_lines,
    json_lines,
)
from dissect.nats.records import COLUMNS, FrameRecord, Record, Type, printable

CAPTURES = Path(__file__).parents[2] / "samples" / "captures"


def record() -> FrameRecord:
    return FrameRecord(
        session="s",
        number=1,
        ts_ns=2,
        packet=3,
        capture="c,1",
        sender="originator",
        kind="client",
        op="HPUB",
        subject='a\x1b"\u2028',
        headers={"A": ["1", "2"]},
        total_bytes=9,
        offset=0,
    )


def plainly(row: Record) -> dict[str, object]:
    """What the JSON object of a row has to say."""
    values = {item.name: getattr(row, item.name) for item in fields(row)}
    return {name: value for name, value in values.items() if value is not None}


ESCAPED = {code: f"\\u{code:04x}" for code in (*range(128, 160), 0x2028, 0x2029)}


def encoded(row: Record) -> str:
    """Its line, by the standard library alone."""
    line = json.dumps(plainly(row), ensure_ascii=False, separators=(",", ":"))
    return line.translate(ESCAPED) + "\n"


def test_json_lines_leave_absent_values_out() -> None:
    line = json_lines("frames", chosen_columns("frames", None))(record())
    values = json.loads(line)
    assert values["headers"] == {"A": ["1", "2"]}
    assert values["subject"] == 'a\x1b"\u2028'
    assert "reply" not in values and values["offset"] == 0
    assert list(values)[:3] == ["session", "number", "ts_ns"]


@pytest.mark.parametrize("name", sorted(path.name for path in CAPTURES.glob("*.pcap*")))
def test_json_lines_are_what_the_encoder_says_of_every_sample(name: str) -> None:
    for table in COLUMNS:
        line_of = json_lines(table, chosen_columns(table, None))
        for row in records([str(CAPTURES / name)], [table], Options(payload=Payload.TEXT)):
            assert line_of(row) == encoded(row)


_VALUES: dict[Type, st.SearchStrategy[object]] = {
    Type.TEXT: st.text(),
    Type.INTEGER: st.integers(),
    Type.TEXTS: st.lists(st.text(), min_size=1),
    Type.COUNTS: st.dictionaries(st.text(), st.integers(), min_size=1),
    Type.HEADERS: st.dictionaries(st.text(), st.lists(st.text()), min_size=1),
}


@given(st.data())
def test_json_lines_are_what_the_encoder_says_of_any_frame(data: st.DataObject) -> None:
    values = {}
    for column in COLUMNS["frames"]:
        value = _VALUES[column.type]
        values[column.name] = data.draw(st.none() | value if column.optional else value)
    row = FrameRecord(**values)  # type: ignore[arg-type]  # of the types that are declared
    assert json_lines("frames", chosen_columns("frames", None))(row) == encoded(row)


def test_a_row_without_any_of_the_columns_is_an_empty_object() -> None:
    assert json_lines("frames", ["reply", "sid"])(record()) == "{}\n"
    assert json_lines("frames", ["op", "reply", "op"])(record()) == '{"op":"HPUB"}\n'


def test_json_lines_are_lines_to_every_reader() -> None:
    values = record()
    values.subject = "a\u2028b\x85c\x9b31m\u0416"
    (line,) = json_lines("frames", ["subject"])(values).splitlines()
    assert "\u0416" in line and "\x9b" not in line
    assert json.loads(line) == {"subject": values.subject}


def test_a_carriage_return_is_no_new_row() -> None:
    values = record()
    values.subject = "a\rb\nc"
    assert csv_lines("frames", ["subject"])(values) == '"a\rb\nc"\n'


def test_csv() -> None:
    columns = ["capture", "reply", "headers"]
    text = csv_line(columns) + csv_lines("frames", columns)(record())
    assert list(csv.reader(io.StringIO(text))) == [columns, ["c,1", "", '{"A":["1","2"]}']]


def test_fields_do_nothing_to_a_terminal() -> None:
    line = field_lines("frames", ["op", "reply", "subject", "number"])(record())
    assert line == 'HPUB\t\ta\\x1b"\\u2028\t1\n'
    assert printable("a\tb\x9bc") == "a\\x09b\\x9bc"
    assert printable("a\u202eb\u2066c\u0416") == "a\\u202eb\\u2066c\u0416"


def test_lines_are_written_as_they_are() -> None:
    output = io.StringIO()
    writer = LineWriter(output, "head\n")
    writer.write(["a\n", "b\n"])
    writer.close()
    assert output.getvalue() == "head\na\nb\n"


def test_columns_are_chosen_by_name() -> None:
    assert chosen_columns("frames", "op, subject") == ["op", "subject"]
    with pytest.raises(ValueError, match="sessions has no column 'subject'"):
        chosen_columns("sessions", "subject")


def test_a_column_is_not_named_twice() -> None:
    with pytest.raises(ValueError, match="op is named twice"):
        chosen_columns("frames", "op,subject,op")
