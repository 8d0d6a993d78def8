"""The journal of a stream; what it makes of files that come is in test_stream.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dissect.nats.errors import MissingLibrary, SparkError
from dissect.nats.output.arrow.types import pyarrow
from dissect.nats.partition.complete_files import NewFiles, TakenFile
from dissect.nats.spark.structured_streaming.file_log import FileLog
from dissect.nats.spark.structured_streaming.state_store import StateStore

from tests.support.pcapwriter import START_NS, Record, pcap_file
from tests.support.requirements import missing

try:
    pyarrow()
except MissingLibrary as lack:
    missing("pyarrow", str(lack))

NOW_NS = 2_000_000_000 * 10**9


def capture(path: Path, first_ns: int) -> TakenFile:
    path.write_bytes(pcap_file([Record(first_ns, b"x")], nanoseconds=True))
    os.utime(path, (1_900_000_000, 1_900_000_000))
    return TakenFile(str(path), path.stat().st_size, first_ns)


def test_entries_are_kept_as_they_were(tmp_path: Path) -> None:
    store = StateStore(str(tmp_path / "state"))
    second = capture(tmp_path / "a.pcap", START_NS + 1)
    first = capture(tmp_path / "b.pcap", START_NS)
    journal = FileLog(store, "1")
    assert journal.record([str(tmp_path)], NOW_NS, 0) == NewFiles((first, second))
    assert journal.record([str(tmp_path)], NOW_NS, 0) is None
    (tmp_path / "a.pcap").unlink()
    assert FileLog(store, "1").entries() == [NewFiles((first, second))]


def test_patterns_and_files(tmp_path: Path) -> None:
    files = [capture(tmp_path / f"{name}.pcap", START_NS) for name in "ab"]
    store = StateStore(str(tmp_path / "state"))
    paths = [str(tmp_path / "nothing.pcap"), str(tmp_path / "[a-b].pcap")]
    assert FileLog(store, "").record(paths, NOW_NS, 0) == NewFiles(tuple(files))


def test_the_newest_waits_longest(tmp_path: Path) -> None:
    first, _ = (capture(tmp_path / f"{name}.pcap", START_NS + at) for at, name in enumerate("ab"))
    changed_ns = 1_900_000_000 * 10**9
    journal = FileLog(StateStore(str(tmp_path / "state")), "")
    minute_ns = 60 * 10**9
    assert journal.record([str(tmp_path)], changed_ns + 4 * 10**9, minute_ns) is None
    assert journal.record([str(tmp_path)], changed_ns + 5 * 10**9, minute_ns) == NewFiles((first,))
    assert journal.record([str(tmp_path)], changed_ns + minute_ns - 1, minute_ns) is None
    assert journal.record([str(tmp_path)], changed_ns + minute_ns, minute_ns) is not None


def test_a_file_that_grows_is_kept_once(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    whole = capture(path, START_NS)
    journal = FileLog(StateStore(str(tmp_path / "state")), "")
    content = path.read_bytes()
    for size in range(len(content) + 1):
        path.write_bytes(content[:size])
        assert journal.record([str(tmp_path)], 0, 0) is None
    assert len(journal._complete._heads) == 1
    assert journal.record([str(tmp_path)], 3 * NOW_NS, 0) == NewFiles((whole,))
    assert not journal._complete._heads


def test_the_journal_of_another_stream(tmp_path: Path) -> None:
    store = StateStore(str(tmp_path / "state"))
    capture(tmp_path / "a.pcap", START_NS)
    FileLog(store, "1").record([str(tmp_path)], NOW_NS, 0)
    with pytest.raises(SparkError, match="other options, or of another version; start again"):
        FileLog(store, "2").entries()
