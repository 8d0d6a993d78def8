"""Rows from one process and from several, and `--where`, at the command line."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dissect.nats.capture import CaptureReport
from dissect.nats.cli import cli
from dissect.nats.commands.command_options import CommandOptions
from dissect.nats.commands.rows import messages_of, rows_of, shared_rows
from dissect.nats.output.writer import Layout
from dissect.nats.schema.records import FrameRecord

from tests.support.conversations import CONNECT, INFO
from tests.support.paths import CAPTURES, ROOT
from tests.support.pcapwriter import Conversation, pcap_file
from tests.support.requirements import missing

try:
    import duckdb  # noqa: F401  # whether it is there
    from pyarrow import parquet
except ImportError as lack:
    missing("duckdb or pyarrow", str(lack))

pytestmark = pytest.mark.usefixtures("worker_processes")

CORE = str(CAPTURES / "core-2.15.1.pcap")


def run(*args: str, data: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, list(args), input=data)


def test_rows_for_which_it_is_true() -> None:
    report = CaptureReport()
    rows = list(rows_of("frames", CommandOptions(captures=(CORE,), where="op = 'SUB'"), report))
    assert {row.op for row in rows if isinstance(row, FrameRecord)} == {"SUB"}
    assert len(rows) == 15 and report.files[0].packets > 100


def test_shared_rows_come_rendered_with_their_messages() -> None:
    options = CommandOptions(captures=(CORE,), format="jsonl", where="subscriptions > 0")
    layout = Layout(("client_name",))
    everything = rows_of("sessions", options, CaptureReport())
    shared = list(shared_rows("sessions", options, layout, 2, CaptureReport()))
    assert [messages for _, messages, _ in shared] == list(map(messages_of, everything))
    assert {row for row, _, _ in shared} >= {'{"client_name":"warehouse"}\n'}


@pytest.mark.parametrize(
    ("table", "form"),
    [
        ("frames", "text"),
        ("frames", "jsonl"),
        ("frames", "parquet"),
        ("sessions", "text"),
        ("flows", "csv"),
    ],
)
def test_jobs_change_no_byte(table: str, form: str, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    alone = run(table, CORE, "--format", form, "-o", str(one))
    shared = run(table, CORE, "--format", form, "-o", str(two), "--jobs", "2")
    assert shared.stderr == alone.stderr and shared.exit_code == alone.exit_code == 0
    assert two.read_bytes() == one.read_bytes()


def test_a_condition_may_use_columns_that_are_not_shown() -> None:
    result = run("frames", CORE, "--where", "op = 'SUB'", "--columns", "sid", "--format", "csv")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 1 + 15


def test_a_limit_counts_the_rows_that_are_kept() -> None:
    result = run("frames", CORE, "--where", "op = 'SUB'", "--limit", "3", "--columns", "op")
    assert result.stdout.splitlines() == ["op", "SUB", "SUB", "SUB"]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_wrong_condition_is_reported_on_one_line(jobs: str) -> None:
    result = run("frames", CORE, "--where", "opp = 1", "--jobs", jobs)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "nats-dissect: SQL: there is no column 'opp'; is it 'op'?\n"


def test_standard_input_has_one_reader() -> None:
    data = Path(CORE).read_bytes()
    result = run("sessions", "-", "--jobs", "2", "--format", "jsonl", data=data)
    assert result.exit_code == 0 and len(result.stdout.splitlines()) == 7
    assert "one process: --jobs does nothing" in result.stderr


def test_jobs_0_gives_the_rows_of_one_process() -> None:
    result = run("sessions", CORE, "--jobs", "0", "--format", "jsonl")
    assert result.exit_code == 0 and len(result.stdout.splitlines()) == 7


def test_live_rows_that_are_kept_come_at_once() -> None:
    """The capture ends after the rows were seen."""
    data = Path(CORE).read_bytes()
    program = [sys.executable, "-m", "dissect.nats", "frames", "-", "--where", "op = 'INFO'"]
    with subprocess.Popen(
        program, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin and process.stdout
        process.stdin.write(data)
        process.stdin.flush()
        assert b" INFO " in process.stdout.readline()
        process.stdin.close()
        process.stdout.read()
    assert process.returncode == 0


def test_parquet_on_standard_output() -> None:
    program = [sys.executable, "-m", "dissect.nats", "flows", CORE, "--format", "parquet"]
    done = subprocess.run(program, cwd=ROOT, check=True, capture_output=True)
    assert parquet.read_table(io.BytesIO(done.stdout)).num_rows == 7


def many_frames(tmp_path: Path) -> str:
    """More than are kept back, and more than a pipe holds."""
    conversations = [Conversation(client=("10.0.0.1", port)) for port in (1001, 1002, 1003, 1004)]
    for conversation in conversations:
        conversation.handshake().from_server(INFO).from_client(CONNECT)
        for _ in range(4):
            conversation.from_client(b"PUB orders.created 5\r\nhello\r\n" * 2000)
    path = tmp_path / "many.pcap"
    records = sorted(
        (r for conversation in conversations for r in conversation.records),
        key=lambda record: record.ts_ns,
    )
    path.write_bytes(pcap_file(records))
    return str(path)


def started(path: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "dissect.nats", "frames", path, "--jobs", "2"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def test_an_interrupt_ends_all_processes_without_a_word(tmp_path: Path) -> None:
    """All of them get it, as from a terminal; standard output, which nobody reads, holds them up."""
    with started(many_frames(tmp_path)) as process:
        assert process.stdout and process.stderr
        process.stdout.read(1)
        os.killpg(process.pid, signal.SIGINT)
        process.stdout.close()
        err = process.stderr.read()
    assert (process.returncode, err) == (130, b"")


def test_a_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    with started(many_frames(tmp_path)) as process:
        assert process.stdout and process.stderr
        process.stdout.read(100)
        process.stdout.close()
        err = process.stderr.read()
    assert (process.returncode, err) == (0, b"")
