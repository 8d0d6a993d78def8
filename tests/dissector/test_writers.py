"""Records as JSON lines, CSV and fields."""

from __future__ import annotations

import csv
import io
import json

import pytest

from dissect.nats.records import FrameRecord, printable
from dissect.nats.writers import (
    CsvWriter,
    FieldsWriter,
    JsonLinesWriter,
    chosen_columns,
)


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


def test_json_lines_leave_absent_values_out() -> None:
    output = io.StringIO()
    JsonLinesWriter(output, chosen_columns("frames", None)).write(record())
    (line,) = output.getvalue().split("\n")[:-1]
    values = json.loads(line)
    assert values["headers"] == {"A": ["1", "2"]}
    assert values["subject"] == 'a\x1b"\u2028'
    assert "reply" not in values and values["offset"] == 0
    assert list(values)[:3] == ["session", "number", "ts_ns"]


def test_json_lines_are_lines_to_every_reader() -> None:
    output = io.StringIO()
    values = record()
    values.subject = "a\u2028b\x85c\x9b31m\u0416"
    JsonLinesWriter(output, ["subject"]).write(values)
    (line,) = output.getvalue().splitlines()
    assert "\u0416" in line and "\x9b" not in line
    assert json.loads(line) == {"subject": values.subject}


def test_a_carriage_return_is_no_new_row() -> None:
    output = io.StringIO(newline="")
    values = record()
    values.subject = "a\rb\nc"
    CsvWriter(output, ["subject"]).write(values)
    assert output.getvalue() == 'subject\n"a\rb\nc"\n'


def test_csv() -> None:
    output = io.StringIO(newline="")
    writer = CsvWriter(output, ["capture", "reply", "headers"])
    writer.write(record())
    writer.close()
    assert list(csv.reader(io.StringIO(output.getvalue()))) == [
        ["capture", "reply", "headers"],
        ["c,1", "", '{"A":["1","2"]}'],
    ]


def test_fields_do_nothing_to_a_terminal() -> None:
    output = io.StringIO()
    FieldsWriter(output, ["op", "subject"]).write(record())
    assert output.getvalue() == 'op\tsubject\nHPUB\ta\\x1b"\\u2028\n'
    assert printable("a\tb\x9bc") == "a\\x09b\\x9bc"
    assert printable("a\u202eb\u2066c\u0416") == "a\\u202eb\\u2066c\u0416"


def test_columns_are_chosen_by_name() -> None:
    assert chosen_columns("frames", "op, subject") == ["op", "subject"]
    with pytest.raises(ValueError, match="sessions has no column 'subject'"):
        chosen_columns("sessions", "subject")
