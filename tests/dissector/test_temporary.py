"""Temporary data that cannot be written: one line that blames neither the capture nor the output."""

from __future__ import annotations

import pickle
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from dissect.nats.cli import cli
from dissect.nats.commands import run as command_run
from dissect.nats.commands import sorting
from dissect.nats.errors import StoreError
from dissect.nats.temporary import storing, temporary_folder

from tests.support.paths import CAPTURES, ROOT
from tests.support.requirements import missing

try:
    import duckdb
except ImportError as lack:
    missing("duckdb", str(lack))

CORE = str(CAPTURES / "core-2.15.1.pcap")
REMEDY = "; set TMPDIR to a writable folder with more room"
LIMITED = """
import resource, sys
from dissect.nats.cli import main
# Else Python keeps what it can write of a compiled module, and each later import of it fails.
sys.dont_write_bytecode = True
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)), -1))
main()
"""


def test_an_error_is_one_line_and_survives_pickling() -> None:
    with pytest.raises(StoreError) as caught, storing(duckdb.Error):
        raise duckdb.IOException("no\nroom")
    assert str(pickle.loads(pickle.dumps(caught.value))) == f"temporary data: no room{REMEDY}"


def test_a_folder_is_removed() -> None:
    with temporary_folder() as folder:
        Path(folder, "x").touch()
    assert not Path(folder).exists()


@pytest.mark.parametrize("size", [4096, 14_000, 30_000])
@pytest.mark.parametrize(
    "command", [["audit"], ["report", "-o", "/dev/null"], ["sql", "FROM frames"]], ids=str
)
def test_a_full_disk_ends_a_query_with_one_line(command: list[str], size: int) -> None:
    program = [sys.executable, "-c", LIMITED, str(size), *command, CORE]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("nats-dissect: temporary data: ")
    assert done.stderr.endswith(f"File too large{REMEDY}\n") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [["frames", "--sort", "op"], ["follow", "e6a840a4"]])
def test_rows_that_wait_on_a_full_disk(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "_RUN_ROWS", 8)
    monkeypatch.setattr(command_run, "_SPOOLED", 1)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # as in LIMITED
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 10, before[1]))
    try:
        done = CliRunner().invoke(cli, [*command, CORE])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    line = f"nats-dissect: temporary data: File too large{REMEDY}\n"
    assert (done.exit_code, done.stderr) == (2, line)


@pytest.mark.parametrize("command", [["audit"], ["sql", "FROM frames"]])
def test_no_folder_for_temporary_data(
    command: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    done = CliRunner().invoke(cli, [*command, CORE])
    line = f"nats-dissect: temporary data: No such file or directory{REMEDY}\n"
    assert (done.exit_code, done.stderr) == (2, line)
