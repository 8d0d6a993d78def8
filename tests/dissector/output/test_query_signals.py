"""A signal ends a query that runs: exit status, no traceback, no temporary folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

import pytest

from dissect.nats.output.query_signals import interruptible

from tests.support.paths import CAPTURES, ROOT

duckdb = pytest.importorskip("duckdb")

CORE = str(CAPTURES / "core-2.15.1.pcap")


def test_what_was_set_before_is_set_again() -> None:
    before = threading.active_count()
    with duckdb.connect() as connection, pytest.raises(ZeroDivisionError):
        with interruptible(connection):
            raise ZeroDivisionError  # without a signal, errors stay
    assert threading.active_count() == before
    assert signal.set_wakeup_fd(-1) == -1


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux which files are open")
@pytest.mark.parametrize(
    "number, status, rows",
    [
        (signal.SIGTERM, 143, "count(*)"),
        (signal.SIGHUP, 129, "count(*)"),
        (signal.SIGINT, 130, "count(*)"),
        (signal.SIGTERM, 143, "a.op"),
    ],
)
def test_a_signal_ends_a_query_that_runs(
    tmp_path: Path, number: signal.Signals, status: int, rows: str
) -> None:
    query = f"SELECT {rows} FROM frames a, frames b, frames c, frames d, frames e"
    command = [sys.executable, "-m", "dissect.nats", "sql", "--format", "csv", query, CORE]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        deadline = monotonic() + 50
        while not _is_read_only(process.pid):
            assert process.poll() is None and monotonic() < deadline
            sleep(0.01)
        sleep(0.2)  # the query begins; what it asserts also holds before that
        process.send_signal(number)
        _, err = process.communicate(timeout=50)
    assert (process.returncode, err) == (status, b"")
    assert list(tmp_path.iterdir()) == []


def _is_read_only(pid: int) -> bool:
    """Whether a process has opened its tables for the query, which must not write them."""
    for each in Path(f"/proc/{pid}/fdinfo").iterdir():
        with suppress(OSError):
            flags = int(each.read_text().split()[3], 8)
            name = os.readlink(f"/proc/{pid}/fd/{each.name}")
            if name.endswith("tables.duckdb") and flags & os.O_ACCMODE == os.O_RDONLY:
                return True
    return False
