"""Held bytes: joined into runs, found by offset, and let go at the front."""

from __future__ import annotations

from dissect.nats.framing.resync.buffer import ResyncBuffer
from dissect.nats.types import Chunk, Gap


def chunk(offset: int, data: bytes) -> Chunk:
    return Chunk(1, 1, "t.pcap", offset, data)


def filled() -> ResyncBuffer:
    window = ResyncBuffer()
    for item in (chunk(0, b"abc"), chunk(3, b"def"), Gap(1, 1, "t.pcap", 6, 4), chunk(10, b"gh")):
        window.add(item)
    return window


def test_runs_end_at_gaps() -> None:
    window = filled()
    assert [(run.start, bytes(run.data)) for run in window.runs] == [(0, b"abcdef"), (10, b"gh")]
    assert (window.end, window.held_bytes, window.largest, window.last) == (12, 8, 3, 2)


def test_a_byte_is_in_a_run_or_was_not_captured() -> None:
    window = filled()
    first, second = window.runs
    assert window.run_at(5) is first
    assert window.run_at(6) is None
    assert window.run_at(11) is second
    assert window.run_at(12) is None
    assert not window.is_open(first) and window.is_open(second)


def test_bytes_that_were_not_captured_refute_nothing() -> None:
    window = ResyncBuffer()
    window.add(chunk(0, b"x\r\nyy"))
    window.add(Gap(1, 1, "t.pcap", 5, 4))
    assert window.ends_line(3)
    assert not window.ends_line(5)
    assert window.ends_line(8)
    assert not window.ends_line(6)  # the first of the two is there, and is no CR


def test_dropped_bytes_are_counted() -> None:
    window = filled()
    window.drop(4)
    assert [item.offset for item in window.items] == [3, 6, 10]
    assert (window.runs[0].start, bytes(window.runs[0].data)) == (3, b"def")
    assert window.rest(11) == [chunk(11, b"h")]
    assert (window.skipped, window.missing) == (7, 4)
