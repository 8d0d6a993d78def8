"""Folders as sources of an archive; the rows that they give are in test_archiving.py."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from dissect.nats import Options
from dissect.nats.archive import source as module
from dissect.nats.archive.record import ArchiveCounts
from dissect.nats.archive.source import CaptureFolder

from tests.support.archives import LONG_AGO, parts_of, put

SECOND_NS = 10**9


def opened(folder: Path, settle_ns: int = 0) -> CaptureFolder:
    return CaptureFolder(str(folder), ["sessions"], Options(), ArchiveCounts(), settle_ns)


def files_read(source: CaptureFolder) -> int:
    rows = source.batch()
    if rows is None:
        return 0
    before = source._counts.totals["files"]
    for _ in rows:
        pass
    return source._counts.totals["files"] - before


def test_a_batch_has_some_of_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BATCH_FILES", 2)
    put(tmp_path / "captures", parts_of("core-2.15.1", 5))
    source = opened(tmp_path / "captures")
    assert [files_read(source) for _ in range(4)] == [2, 2, 1, 0]
    monkeypatch.setattr(module, "_BATCH_BYTES", 1)
    source = opened(tmp_path / "captures")
    assert [files_read(source) for _ in range(2)] == [1, 1]


def test_the_lag_is_that_behind_the_newest_file(tmp_path: Path) -> None:
    first, second = put(tmp_path / "captures", parts_of("core-2.15.1", 2))
    now = time.time()
    os.utime(first, (now - 60, now - 60))
    os.utime(second, (now - 50, now - 50))
    source = opened(tmp_path / "captures", settle_ns=1000 * SECOND_NS)
    assert source.lag_ns() // SECOND_NS in (9, 10)
    assert files_read(source) == 1  # the newest may still grow
    assert source.lag_ns() // SECOND_NS in (9, 10)
    os.utime(second, LONG_AGO)
    assert files_read(source) == 1
    assert source.lag_ns() == 0
