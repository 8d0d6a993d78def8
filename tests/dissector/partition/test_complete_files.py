"""Which files of growing folders are complete; the log of a stream is in tests/spark/structured_streaming."""

from __future__ import annotations

import os
from pathlib import Path

from dissect.nats.partition.complete_files import CompleteFiles, NewFiles, TakenFile

from tests.support.pcapwriter import START_NS, Record, pcap_file

SECOND_NS = 10**9
CHANGED = 1_900_000_000
NOW_NS = CHANGED * SECOND_NS
MINUTE_NS = 60 * SECOND_NS
LATER_NS = NOW_NS + MINUTE_NS


def write(path: Path, *times_ns: int, changed: int = CHANGED) -> TakenFile:
    """A capture of packets at these times, changed at a time in seconds."""
    path.write_bytes(pcap_file([Record(ts_ns, b"x") for ts_ns in times_ns], nanoseconds=True))
    os.utime(path, (changed, changed))
    return TakenFile(str(path), path.stat().st_size, times_ns[0])


def take(known: CompleteFiles, folder: Path, now_ns: int = LATER_NS) -> NewFiles:
    new = known.new([str(folder)], now_ns, MINUTE_NS)
    known.learn(new)
    return new


def test_older_files_wait_less_than_the_newest(tmp_path: Path) -> None:
    newest = write(tmp_path / "a.pcap", START_NS + 1)
    older = write(tmp_path / "b.pcap", START_NS)
    known = CompleteFiles()
    assert not take(known, tmp_path, NOW_NS + 4 * SECOND_NS)
    assert take(known, tmp_path, NOW_NS + 5 * SECOND_NS).files == (older,)
    assert not take(known, tmp_path, NOW_NS + MINUTE_NS - 1)
    assert take(known, tmp_path, NOW_NS + MINUTE_NS).files == (newest,)


def test_a_name_that_a_ring_uses_again_is_a_new_file(tmp_path: Path) -> None:
    known = CompleteFiles()
    write(tmp_path / "ring0.pcap", START_NS)
    take(known, tmp_path)
    again = write(tmp_path / "ring0.pcap", START_NS + SECOND_NS, changed=CHANGED + 9)
    assert take(known, tmp_path, LATER_NS + MINUTE_NS) == NewFiles((again,))


def test_a_file_that_grows_is_told_apart_from_a_new_one(tmp_path: Path) -> None:
    known = CompleteFiles()
    write(tmp_path / "a.pcap", START_NS)
    take(known, tmp_path)
    longer = write(tmp_path / "a.pcap", START_NS, START_NS + 1, changed=CHANGED + 9)
    assert not take(known, tmp_path)  # more may come
    assert take(known, tmp_path, LATER_NS + MINUTE_NS) == NewFiles((), (longer,))


def test_a_file_with_a_clock_in_the_future_makes_no_other_file_late(tmp_path: Path) -> None:
    known = CompleteFiles()
    wrong = write(tmp_path / "a.pcap", NOW_NS + 3 * 86_400 * SECOND_NS)
    right = write(tmp_path / "b.pcap", START_NS)
    files = take(known, tmp_path).files
    assert [(one.path, one.late) for one in files] == [(right.path, False), (wrong.path, True)]
    write(tmp_path / "c.pcap", START_NS + 1)
    assert [one.late for one in take(known, tmp_path).files] == [False]


def test_what_is_no_capture_is_refused_once_it_does_not_change(tmp_path: Path) -> None:
    known = CompleteFiles()
    (tmp_path / "notes.txt").write_text("these are notes, and longer than a header")
    os.utime(tmp_path / "notes.txt", (CHANGED, CHANGED))
    assert not take(known, tmp_path)
    assert not [*known.refused(NOW_NS, MINUTE_NS)]
    ((path, reason),) = known.refused(LATER_NS, MINUTE_NS)
    assert path.endswith("notes.txt") and "not a capture" in reason


def test_files_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    known = CompleteFiles()
    write(tmp_path / "a.pcap", START_NS)
    take(known, tmp_path)
    known.forget_all_but([])
    assert known.taken == {}
