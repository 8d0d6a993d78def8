"""Text for people."""

from __future__ import annotations

from rich.cells import cell_len

from dissect.nats.capture import CaptureReport, FileReport
from dissect.nats.output.terminal import PLAIN, Terminal
from dissect.nats.output.text.lines import (
    anomaly_line,
    frame_line,
    frame_lines,
    story_text,
    totals,
    undecoded_text,
)
from dissect.nats.schema.records import AnomalyRecord

from tests.support.records import frame_record, session_record


def odd() -> AnomalyRecord:
    return AnomalyRecord(
        session="s", ts_ns=2, packet=1, sender="responder", anomaly="lost", offset=0, bytes=9
    )


def test_a_frame_on_a_line() -> None:
    frame = frame_record()
    frame.reply, frame.payload_bytes, frame.header_bytes = "_INBOX.1", 5, 12
    frame.status, frame.anomalies = 503, ["lost"]
    assert frame_line(frame) == (
        '1970-01-01T00:00:00.000000002Z s > HPUB    a\\x1b"\\u2028 reply _INBOX.1 [12+5] 503 !lost'
    )


def test_long_json_is_cut() -> None:
    frame = frame_record()
    frame.op, frame.subject, frame.json = "INFO", None, "x" * 200
    assert frame_line(frame).endswith(" INFO    " + "x" * 120 + "...")


def test_frames_elsewhere_are_plain_and_on_a_terminal_coloured() -> None:
    frame = frame_record()
    frame.op, frame.error = "-ERR", "x"
    assert frame_lines(PLAIN)(frame) == frame_line(frame) + "\n"
    assert frame_lines(Terminal(None, True))(frame) == f"\x1b[1;31m{frame_line(frame)}\x1b[0m\n"
    frame.op, frame.error = "PUB", None
    assert frame_lines(Terminal(None, True))(frame) == frame_line(frame) + "\n"
    frame.anomalies = ["lost"]
    assert frame_lines(Terminal(None, True))(frame).startswith("\x1b[31m")


def test_a_line_fits_the_terminal_also_with_wide_characters() -> None:
    frame = frame_record()
    for frame.subject in ("a" * 99, "数据" * 99):
        for width in (50, 51, 60):
            line = frame_lines(Terminal(width, False))(frame)
            assert cell_len(line.removesuffix("\n")) == width


def test_an_oddity_on_a_line() -> None:
    assert anomaly_line(odd()) == "1970-01-01T00:00:00.000000002Z < !lost 9 bytes"


def test_one_session_in_full() -> None:
    row = session_record()
    row.rtt_ns, row.lame_duck_ns = 56_000, 1_000_000_005
    text = story_text(row, [frame_record(), odd()])
    assert "  a:1\n" in text and "  56.0 us\n" in text
    assert "  1970-01-01T00:00:01.000000005Z\n" in text
    assert "  1970-01-01T00:00:00.000000001Z\n" in text
    assert text.endswith(
        '  1970-01-01T00:00:00.000000002Z > HPUB    a\\x1b"\\u2028\n'
        "  1970-01-01T00:00:00.000000002Z < !lost 9 bytes\n"
    )
    assert "timeline" not in story_text(row, [])
    assert "above NATS" not in text
    lines = story_text(row, [], [("kv", "1: 1 put"), ("subjects", "Raft 1 message (\x1b B)")])
    assert lines.partition("\nabove NATS\n")[2].split() == [
        *("kv", "1:", "1", "put", "subjects", "Raft", "1", "message", "(\\x1b", "B)"),
    ]


def test_totals_count_rows_packets_and_files() -> None:
    report = CaptureReport(files=[FileReport("a", "a", packets=7), FileReport("b", "b", packets=1)])
    assert totals("sessions", 1, 5, report) == "1 session, 5 messages in 8 packets of 2 files"
    assert totals("frames", 2, 0, report) == "2 frames in 8 packets of 2 files"
    assert totals("frames", 0, 0, report) == "no NATS found in 8 packets of 2 files"
    assert totals("requests", 0, 0, report) == "no requests in 8 packets of 2 files"
    report.passed_over.append("notes.txt: not a capture")
    assert totals("frames", 2, 0, report).endswith("of 2 files; 1 other file is not a capture")
    assert totals("anomalies", 1, 0, report).startswith("1 anomaly in ")


def test_a_line_is_no_wider_than_the_terminal() -> None:
    line = frame_lines(Terminal(40))(frame_record())
    assert len(line) == 41 and line == frame_line(frame_record())[:37] + "...\n"


def test_packets_that_are_not_decoded_are_named() -> None:
    report = CaptureReport()
    assert undecoded_text(report) == ""
    report.no_tcp.update({"ip fragment, joined with others": 3})
    assert undecoded_text(report) == ""
    report.no_tcp.update({"link type 127, IEEE802_11_RADIOTAP": 268})
    text = undecoded_text(report)
    assert text == "268 packets not decoded: link type 127, IEEE802_11_RADIOTAP"
    report.no_tcp.update({"udp": 2})
    report.udp_ports.update({53: 1, 9999: 2})
    assert undecoded_text(report).endswith("IEEE802_11_RADIOTAP (268); udp, most on port 9999 (2)")
