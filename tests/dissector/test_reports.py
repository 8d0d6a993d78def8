"""Text for people."""

from __future__ import annotations

import io
import re

import pytest

from dissect.nats.capture import CaptureReport, FileReport
from dissect.nats.reports import (
    FrameLines,
    SessionTable,
    frame_line,
    story_text,
    time_text,
    totals,
)

from tests.dissector.test_sessions_identity import blank
from tests.dissector.test_writers import record


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_frame_on_a_line() -> None:
    frame = record()
    frame.reply, frame.payload_bytes, frame.header_bytes = "_INBOX.1", 5, 12
    frame.status, frame.anomalies = 503, ["lost"]
    assert frame_line(frame) == (
        '1970-01-01T00:00:00.000000002Z s > HPUB    a\\x1b"\\u2028 reply _INBOX.1 [12+5] 503 !lost'
    )


def test_frames_elsewhere_are_plain_and_on_a_terminal_coloured() -> None:
    plain, terminal = io.StringIO(), Terminal()
    for output in (plain, terminal):
        lines = FrameLines(output)
        frame = record()
        frame.op, frame.error = "-ERR", "x"
        lines.write(frame)
        lines.close()
    assert plain.getvalue() == frame_line(frame) + "\n"
    assert "-ERR" in terminal.getvalue()


@pytest.mark.parametrize("columns", [60, 80, 100, 130, 200])
def test_a_terminal_shows_a_session_a_line(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    output = Terminal()
    table = SessionTable(output)
    for name in ("warehouse of the east", "shop"):
        session = blank()
        session.client_name, session.errors = name, ["Permissions Violation for Publish"] * 9
        session.end, session.ended_by = "fin", "originator"
        table.write(session)
    table.close()
    head, rule, *lines = re.sub("\x1b\\[[0-9;]*m", "", output.getvalue()).splitlines()
    hidden = [line for line in lines if line.startswith("not shown in")]
    assert len(lines) - len(hidden) == 2 and all(len(line) <= columns for line in lines[:2])
    for name in ("began", "user", "end"):
        assert (name in head) or name == "user" or name in hidden[0]
    assert bool(hidden) == (columns < 125)
    assert ("fin >" if columns < 190 else "fin by originator") in lines[0] or columns < 95


def test_sessions_are_a_table() -> None:
    session = blank()
    session.client_name, session.errors, session.missing_bytes = "c[bold]\x1b", ["x", "y"], 7
    session.user = "U" * 56
    output = io.StringIO()
    table = SessionTable(output)
    table.write(session)
    table.close()
    head, line = output.getvalue().splitlines()
    assert head.split() == (
        "session began originator responder kind name user sent received lost end errors".split()
    )
    assert "c[bold]\\x1b" in line and "7 B" in line and "x; y" in line
    assert "U" * 21 + "..." in line


def test_columns_without_values_are_left_out() -> None:
    output = io.StringIO()
    table = SessionTable(output)
    table.write(blank())
    table.close()
    assert output.getvalue().splitlines()[0].split()[-3:] == ["sent", "received", "end"]
    empty = io.StringIO()
    SessionTable(empty).close()
    assert empty.getvalue() == ""


def test_one_session_in_full() -> None:
    text = story_text(blank(), [record()])
    assert "originator           a:1\n" in text
    assert "first_ns             1970-01-01T00:00:00.000000001Z\n" in text
    assert text.endswith('  1970-01-01T00:00:00.000000002Z > HPUB    a\\x1b"\\u2028\n')
    assert "timeline" not in story_text(blank(), [])


def test_totals() -> None:
    report = CaptureReport(files=[FileReport("a", "a", packets=7), FileReport("b", "b", packets=1)])
    assert totals("sessions", 1, 5, report) == "1 session, 5 messages in 8 packets of 2 files"
    assert totals("frames", 2, 0, report) == "2 frames in 8 packets of 2 files"
    assert totals("frames", 0, 0, report) == "no NATS found in 8 packets of 2 files"
    report.passed_over.append("notes.txt: not a capture")
    assert totals("frames", 2, 0, report).endswith("of 2 files; 1 other file no capture")


def test_times_of_any_size() -> None:
    assert time_text(1_700_000_000_123_456_789) == "2023-11-14T22:13:20.123456789Z"
    assert time_text(10**30).endswith(".000000000")
