"""The command in processes of its own, which are killed while they work."""

from __future__ import annotations

import fcntl
import random
import signal
import subprocess
import sys
import termios
import time
from array import array
from pathlib import Path
from typing import IO

import pytest
from click.testing import CliRunner

from dissect.nats.cli import cli
from dissect.nats.errors import MissingLibrary
from dissect.nats.output.arrow.types import pyarrow

from tests.support.archives import archived, one_pass, parts_of, put
from tests.support.paths import CAPTURES, ROOT
from tests.support.requirements import missing
from tests.support.waiting import eventually

try:
    pyarrow()
except MissingLibrary as lack:
    missing("pyarrow", str(lack))

TABLES = ("frames", "sessions", "requests", "flows", "deliveries", "subscriptions")
KILLS = 10
WAIT_SECONDS = 60
pytestmark = pytest.mark.timeout(600)  # eleven processes begin, one after the other


def start(*arguments: str, stdin: IO[bytes] | int | None = None) -> subprocess.Popen[bytes]:
    chosen = ("--tables", ",".join(TABLES), "--settle", "0", "--every", "0.02")
    command = [sys.executable, "-m", "dissect.nats", "archive", *chosen, *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdin=stdin, stderr=subprocess.PIPE)


def is_working(out: Path) -> bool:
    """Whether a batch is on its way into the archive."""
    return any((out / "_nats-dissect.archive" / "staged").glob("*"))


def test_ten_kills_while_captures_come_lose_and_double_no_row(tmp_path: Path) -> None:
    captures, out = tmp_path / "captures", tmp_path / "out"
    parts = parts_of("cluster-2.15.1", 3 * KILLS)
    chance = random.Random(seed := random.randrange(1 << 32))
    caught = 0
    for kill in range(KILLS):
        put(captures, parts[3 * kill : 3 * kill + 2], 3 * kill)
        process = start(str(captures), "--out", str(out))
        until = time.monotonic() + WAIT_SECONDS
        while not is_working(out) and time.monotonic() < until:
            time.sleep(0.001)
        put(captures, parts[3 * kill + 2 : 3 * kill + 3], 3 * kill + 2)
        time.sleep(chance.uniform(0, 0.1))
        caught += is_working(out)
        process.kill()
        process.communicate()
        assert process.returncode == -9
    assert caught, "no process was killed at work"
    last = start(str(captures), "--out", str(out), "--finish")
    assert last.wait(WAIT_SECONDS) == 0
    last.communicate()
    assert archived(out, TABLES) == one_pass(sorted(captures.iterdir()), TABLES), f"seed {seed}"


def test_connections_go_on_from_pipe_to_pipe(tmp_path: Path) -> None:
    out = tmp_path / "out"
    paths = put(tmp_path / "captures", parts_of("core-2.15.1", 2))
    for path, more in zip(paths, ([], ["--finish"])):
        with path.open("rb") as pipe:
            process = start("-", "--out", str(out), *more, stdin=pipe)
            _, said = process.communicate(timeout=WAIT_SECONDS)
        assert process.returncode == 0, said
    expected = one_pass(paths, TABLES)
    for table, rows in archived(out, TABLES).items():
        capture = [
            row.replace("part000.pcap", "-").replace("part001.pcap", "-") for row in expected[table]
        ]
        assert rows == sorted(capture)


def unread(pipe: IO[bytes] | None) -> int:
    """How many bytes of a pipe its reader has not taken yet."""
    assert pipe
    left = array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, left)
    return left[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_was_read_of_a_pipe_is_committed_at_the_end(
    number: signal.Signals, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    (path,) = put(tmp_path / "captures", parts_of("core-2.15.1", 2)[:1])
    process = start("-", "--out", str(out), "--every", "1000", stdin=subprocess.PIPE)
    assert process.stdin
    process.stdin.write(path.read_bytes())
    process.stdin.flush()
    eventually(lambda: not unread(process.stdin))
    process.send_signal(number)
    _, said = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 128 + number, said
    assert b"batch 1: 0 files, 134 packets" in said
    assert archived(out, TABLES)["frames"]


def test_an_archive_has_one_writer(tmp_path: Path) -> None:
    captures, out = tmp_path / "captures", tmp_path / "out"
    captures.mkdir()
    first = start(str(captures), "--out", str(out))
    until = time.monotonic() + WAIT_SECONDS
    while not (out / "_nats-dissect.archive" / "lock").exists() and time.monotonic() < until:
        time.sleep(0.01)
    second = start(str(captures), "--out", str(out), "--once")
    _, said = second.communicate(timeout=WAIT_SECONDS)
    first.terminate()
    first.communicate(timeout=WAIT_SECONDS)
    assert (second.returncode, first.returncode) == (2, 143)
    assert b"another process writes this archive" in said


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["captures", "--out", ""], "is no local folder"),
        (["captures", "--out", "s3://bucket/tables"], "is no local folder"),
        (["-", "captures", "--out", "out"], "standard input is the only source of an archive"),
        (["captures", "--out", "out", "--until", "1"], "an archive has all packets"),
        (["captures", "--out", "out", "--tables", "frames,servers"], "no table servers: its rows"),
        (["captures", "--out", "out"], "captures: no such file or folder"),
        (["captures", "--out", "out", "--sort", "op"], "the rows are in order of time"),
        (["captures", "--out", str(CAPTURES)], "has files that this program has not written"),
        (["captures", "--out", str(CAPTURES / "core-2.15.1.pcap")], "is not a folder"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["archive", *arguments])
    assert result.exit_code == 2 and text in result.output and result.output.count("\n") == 1
