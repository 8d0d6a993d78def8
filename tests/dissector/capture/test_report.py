"""Reports: what was read, and where reading ended."""

from __future__ import annotations

from dissect.nats.capture.report import ALL, DUPLICATE, CaptureReport, FileReport
from dissect.nats.output.text.lines import input_lines


def test_damage_is_reported_with_its_place() -> None:
    file = FileReport("in/t.pcap", "t.pcap", packets=3)
    file.break_off("the file is cut short", 99)
    assert file.damage == (
        "the file is cut short in packet 4, at byte 99; everything before it was read"
    )


def test_damaged_files_are_found() -> None:
    good, bad = FileReport("a", "a"), FileReport("b", "b", broken="bad")
    assert CaptureReport([good, bad]).damaged == [bad]
    assert CaptureReport([good]).damaged == []


def test_reports_share_nothing() -> None:
    one, two = FileReport("a", "a"), FileReport("b", "b")
    one.linktypes[1] += 1
    one.skipped["x"] += 1
    assert not two.linktypes and not two.skipped


def test_packets_that_came_twice_are_told_once() -> None:
    report = CaptureReport()
    assert report.doubled is None
    report.tcp_bytes.update({ALL: 1000, DUPLICATE: 390})
    assert report.doubled is None
    report.tcp_bytes[DUPLICATE] = 500
    assert "50% of the bytes are duplicates" in str(report.doubled)
    assert [line for line in input_lines(report) if "duplicates" in line] == [report.doubled]
