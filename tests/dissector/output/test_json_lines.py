"""Records as JSON lines."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats import Options, Payload, records
from dissect.nats.number_formats import time_text
from dissect.nats.output.csv_lines import column_cells
from dissect.nats.output.json_lines import json_line
from dissect.nats.output.writer import Layout, column_names
from dissect.nats.schema.declaration import Type
from dissect.nats.schema.records import FrameRecord, Record, SubscriptionRecord
from dissect.nats.tables import TABLE_OF, TABLES

from tests.support.paths import CAPTURES
from tests.support.records import frame_record


def plainly(row: Record) -> dict[str, object]:
    """What the JSON object of a row has to say."""
    values = {}
    for column in TABLE_OF[row.__class__].columns:
        value = getattr(row, column.field)
        is_time = column.type is Type.TIME and value is not None
        values[column.name] = time_text(value) if is_time else value
    return {name: value for name, value in values.items() if value is not None}


# Controls beyond JSON's own, line ends of Unicode, and marks of text direction.
ESCAPED = {
    code: f"\\u{code:04x}"
    for code in (*range(127, 160), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F))
}
ESCAPED |= {code: f"\\u{code:04x}" for code in range(0x2066, 0x206A)}


def encoded(row: Record) -> str:
    """Its line, by the standard library alone."""
    line = json.dumps(plainly(row), ensure_ascii=False, separators=(",", ":"))
    return line.translate(ESCAPED) + "\n"


def test_json_lines_leave_absent_values_out() -> None:
    line = json_line("frames", column_names("frames", Layout()))(frame_record())
    values = json.loads(line)
    assert values["headers"] == {"A": ["1", "2"]}
    assert values["subject"] == 'a\x1b"\u2028'
    assert "reply" not in values and values["offset"] == 0
    assert list(values)[:3] == ["session", "number", "ts_ns"]


@pytest.mark.parametrize("name", sorted(path.name for path in CAPTURES.glob("*.pcap*")))
def test_json_lines_are_what_the_encoder_says_of_every_sample(name: str) -> None:
    line_of = {table: json_line(table, column_names(table, Layout())) for table in TABLES}
    for row in records([str(CAPTURES / name)], [*TABLES], Options(payload=Payload.TEXT)):
        assert line_of[TABLE_OF[row.__class__].name](row) == encoded(row)


_VALUES: dict[Type, st.SearchStrategy[object]] = {
    Type.TEXT: st.text(),
    Type.INTEGER: st.integers(),
    Type.BOOLEAN: st.booleans(),
    Type.TEXTS: st.lists(st.text(), min_size=1),
    Type.COUNTS: st.dictionaries(st.text(), st.integers(), min_size=1),
    Type.HEADERS: st.dictionaries(st.text(), st.lists(st.text()), min_size=1),
}


@given(st.data())
def test_json_lines_are_what_the_encoder_says_of_any_frame(data: st.DataObject) -> None:
    values = {}
    for column in [item for item in TABLES["frames"].columns if item.type is not Type.TIME]:
        value = _VALUES[column.type]
        values[column.name] = data.draw(st.none() | value if column.optional else value)
    row = FrameRecord(**values)  # type: ignore[arg-type]  # of the types that are declared
    assert json_line("frames", column_names("frames", Layout()))(row) == encoded(row)


@pytest.mark.parametrize(
    "ts_ns, text",
    [
        (1_795_226_503_300_000_001, "2026-11-21T02:01:43.300000001Z"),
        (0, "1970-01-01T00:00:00.000000000Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (1 << 80, "1208925819614629.174706176"),
    ],
)
def test_the_time_beside_the_nanoseconds_is_iso_8601(ts_ns: int, text: str) -> None:
    row = frame_record()
    row.ts_ns = ts_ns
    assert json.loads(json_line("frames", ["ts_ns", "time"])(row)) == {
        "ts_ns": ts_ns,
        "time": text,
    }
    assert column_cells("frames", ["time", "ts_ns"])(row) == [text, ts_ns]


def test_a_time_that_is_absent_is_left_out() -> None:
    row = SubscriptionRecord(session="s", sender="originator")
    assert json_line("subscriptions", ["time", "session"])(row) == '{"session":"s"}\n'
    assert column_cells("subscriptions", ["time", "session"])(row) == [None, "s"]


def test_a_row_without_any_of_the_columns_is_an_empty_object() -> None:
    assert json_line("frames", ["reply", "sid"])(frame_record()) == "{}\n"
    assert json_line("frames", ["op", "reply", "op"])(frame_record()) == '{"op":"HPUB"}\n'


def test_json_lines_are_lines_to_every_reader() -> None:
    values = frame_record()
    values.subject = "a\u2028b\x85c\x9b31m\u0416"
    (line,) = json_line("frames", ["subject"])(values).splitlines()
    assert "\u0416" in line and "\x9b" not in line
    assert json.loads(line) == {"subject": values.subject}


def test_nothing_that_commands_a_terminal_stands_there_raw() -> None:
    values = frame_record()
    for text in ("a\x7fb", "a\x1b[2Jb", "a\x9b2Jb", "a\u202eb\u2066c\u200fd\u0416"):
        values.subject = text
        line = json_line("frames", ["subject"])(values)
        assert line.removesuffix("\n").isprintable()
        assert json.loads(line) == {"subject": text}
