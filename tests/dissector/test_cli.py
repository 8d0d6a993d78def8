"""`nats-dissect`: output, exit statuses, one line for what is wrong, and never a traceback."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dissect.nats.capture import files
from dissect.nats.cli import cli
from dissect.nats.tables import FROM_ENGINE

from tests.support.damage import cut
from tests.support.paths import CAPTURES, ROOT

CORE = str(CAPTURES / "core-2.15.1.pcap")


def run(*args: str, data: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, list(args), input=data)


TABLES = sorted(FROM_ENGINE)


def on_a_terminal(columns: int, *args: str) -> str:
    """What a person sees."""
    ours, theirs = pty.openpty()
    here = {"COLUMNS": str(columns), "TERM": "xterm", "PYTHONPATH": str(ROOT)}
    program = [sys.executable, "-m", "dissect.nats", *args]
    seen = b""
    with subprocess.Popen(program, stdout=theirs, stderr=theirs, env={**os.environ, **here}):
        os.close(theirs)
        with suppress(OSError):  # Linux says EIO where the other end is closed
            while data := os.read(ours, 1 << 16):
                seen += data
    os.close(ours)
    return seen.decode()


def process(*args: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "dissect.nats", *args],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_sessions_for_a_person() -> None:
    done = run("sessions", CORE)
    assert done.exit_code == 0
    head, *lines = done.stdout.splitlines()
    assert head.startswith("session") and len(lines) == 7
    assert done.stderr.startswith("nats-dissect: 7 sessions, ")
    assert done.stderr.endswith(" packets of 1 file\n")


def test_frames_for_a_program() -> None:
    done = run("frames", "--format", "jsonl", CORE)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows[0]["op"] == "INFO"
    assert done.stderr == ""
    assert [row["ts_ns"] for row in rows] == sorted(row["ts_ns"] for row in rows)


@pytest.mark.parametrize("table", TABLES)
def test_every_table_in_every_format(table: str) -> None:
    path = str(CAPTURES / "snap96.pcap" if table == "anomalies" else CORE)
    rows = [json.loads(line) for line in run(table, "--format", "jsonl", path).stdout.splitlines()]
    assert rows and all(row["session"] for row in rows)
    assert len(run(table, "--format", "csv", path).stdout.splitlines()) == len(rows) + 1
    text = run(table, path)
    assert len(text.stdout.splitlines()) == len(rows) + (table != "frames")
    assert text.stderr.startswith(f"nats-dissect: {len(rows)} ")
    assert rows[0]["session"] in text.stdout
    fields = run(table, "--columns", "session", path).stdout.splitlines()
    assert fields == ["session", *(row["session"] for row in rows)]


def test_a_terminal_gets_colours_and_its_width() -> None:
    seen = on_a_terminal(90, "sessions", CORE)
    assert "\x1b[1msession" in seen and "\x1b[31mfc207271" in seen
    assert "not shown in 90 columns: " in seen
    assert "\x1b[36m" in on_a_terminal(90, "frames", "--limit", "3", CORE)
    assert "client session 7294" in on_a_terminal(90, "follow", "7294", CORE)


def test_a_bar_when_it_is_asked_for() -> None:
    done = run("sessions", "--progress", CORE)
    assert done.exit_code == 0 and "7 sessions" in done.stderr
    assert done.stdout == run("sessions", "--no-progress", CORE).stdout


def test_follow_shows_a_conversation_and_its_payloads_if_asked() -> None:
    done = run("follow", "7294", CORE)
    assert done.exit_code == 0 and "Station: north" in done.stdout and done.stderr == ""
    done = run("follow", "7294", "--payload", "none", "--format", "jsonl", CORE)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["session"] for row in rows} == {"729480e87f22a93d"}
    assert not any("payload" in row for row in rows)
    assert run("follow", "7294", "--columns", "op", "--limit", "1", CORE).stdout == "op\nINFO\n"


@pytest.mark.parametrize("form", ["text", "jsonl", "csv"])
@pytest.mark.parametrize("command", [("follow",), ("sessions", "--session")])
def test_an_id_that_is_not_clear(command: tuple[str, ...], form: str) -> None:
    for start, expected in (
        ("", "7 sessions begin with : e6a840a4fdcb5c2c, "),
        ("zz", "no session zz"),
    ):
        done = run(*command, start, "--format", form, CORE)
        assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert expected in done.stderr


def test_what_is_in_the_files(tmp_path: Path) -> None:
    done = run("info", CORE)
    assert done.exit_code == 0 and "TCP connections     nats 7" in done.stdout
    *_, total = map(json.loads, run("info", "--format", "jsonl", str(CAPTURES)).stdout.splitlines())
    assert total["files"] > 20
    path = tmp_path / "cut.pcap"
    path.write_bytes(cut(Path(CORE).read_bytes(), 60, 20))
    done = run("info", str(path))
    assert done.exit_code == 3 and "damage" in done.stdout and str(path) in done.stderr


def test_chosen_columns_and_rows() -> None:
    done = run("frames", "--format", "csv", "--columns", "op,subject", "--limit", "2", CORE)
    assert done.stdout == "op,subject\nINFO,\nCONNECT,\n"
    done = run("frames", "--columns", "op", "--limit", "1", CORE)
    assert done.stdout == "op\nINFO\n"
    assert run("frames", "--limit", "0", CORE).stdout == ""


def test_payloads_when_they_are_asked_for() -> None:
    done = run("frames", "--format", "jsonl", "--payload", "text", CORE)
    assert any("payload" in json.loads(line) for line in done.stdout.splitlines())
    done = run("frames", "--payload", "sha256", "--columns", "payload_sha256", CORE)
    assert max(map(len, done.stdout.splitlines())) == 64


def test_output_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    done = run("sessions", "--format", "jsonl", "-o", str(path), CORE)
    assert done.stdout == ""
    assert len(path.read_text().splitlines()) == 7
    assert run("sessions", "-o", "-", CORE).stdout == run("sessions", CORE).stdout


def test_one_session_in_full() -> None:
    first = json.loads(run("sessions", "--format", "jsonl", CORE).stdout.splitlines()[0])
    done = run("sessions", "--session", first["session"][:8], CORE)
    assert done.exit_code == 0
    assert first["session"] in done.stdout and "timeline" in done.stdout
    done = run("sessions", "--session", first["session"], "--format", "jsonl", CORE)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [first]
    done = run("sessions", "--session", "zz", CORE)
    assert (done.exit_code, done.stdout) == (2, "")


def test_secrets_only_when_they_are_asked_for() -> None:
    auth = str(CAPTURES / "auth-2.15.1.pcap")
    assert "hunter2" not in run("frames", "--format", "jsonl", auth).output
    assert "hunter2" in run("frames", "--format", "jsonl", "--no-redact", auth).output


def test_a_hint_for_a_port() -> None:
    done = run("sessions", "--port", "8222=client", str(CAPTURES / "http.pcap"))
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) > 1


@pytest.mark.parametrize(
    "args",
    [
        ("sessions",),
        ("sessions", "--columns", "nope", CORE),
        ("sessions", "--port", "x=client", CORE),
        ("sessions", "--port", "1=nope", CORE),
        ("frames", "--payload", "nope", CORE),
        ("frames", "--format", "xml", CORE),
        ("frames", "--limit", "-1", CORE),
        ("nope", CORE),
        ("frames", "-o", "/nowhere/at/all", CORE),
    ],
)
def test_wrong_usage_is_status_2_with_a_text(args: tuple[str, ...]) -> None:
    done = run(*args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr


def bad_inputs(folder: Path) -> dict[str, Path]:
    (folder / "empty.pcap").write_bytes(b"")
    (folder / "text.txt").write_text("dear diary\n" * 50)
    (folder / "folder").mkdir()
    (folder / "folder" / "notes.txt").write_text("dear diary\n")
    names = ("empty.pcap", "text.txt", "folder", "missing.pcap")
    return {name: folder / name for name in names}


@pytest.mark.parametrize("name", ["empty.pcap", "text.txt", "folder", "missing.pcap"])
@pytest.mark.parametrize("command", ["sessions", "frames"])
def test_an_input_that_is_no_capture(name: str, command: str, tmp_path: Path) -> None:
    path = bad_inputs(tmp_path)[name]
    done = run(command, str(path))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"nats-dissect: {path}: ")


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_a_capture_that_is_cut_short(form: str, tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(cut(Path(CORE).read_bytes(), 60, 20))
    done = run("frames", "--format", form, str(path))
    assert done.exit_code == 3
    whole = run("frames", "--format", form, CORE).stdout.splitlines()
    kept = done.stdout.splitlines()
    assert len(kept) > 5
    if form == "text":
        assert kept == whole[: len(kept)]
    damage = [line for line in done.stderr.splitlines() if str(path) in line]
    assert len(damage) == 1 and "packet 61" in damage[0]


def test_a_capture_without_nats() -> None:
    done = run("sessions", "--format", "jsonl", str(CAPTURES / "http.pcap"))
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith("nats-dissect: no NATS found in ")
    assert done.stderr.count("\n") == 1


def test_a_dash_reads_standard_input() -> None:
    done = run("frames", "--format", "jsonl", "-", data=Path(CORE).read_bytes())
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) > 50


def test_frames_come_while_packets_arrive() -> None:
    data = Path(CORE).read_bytes()
    with process("frames", "--format", "jsonl", "-") as running:
        assert running.stdin and running.stdout
        running.stdin.write(data[: len(data) // 2])
        running.stdin.flush()
        assert json.loads(running.stdout.readline())["op"] == "INFO"
        assert running.poll() is None
        running.stdin.close()
        rest = running.stdout.read()
        assert running.stderr and running.stderr.read().count(b"\n") == 1
    assert rest and running.returncode == 3


def test_a_closed_pipe_ends_quietly() -> None:
    with process("frames", "--format", "jsonl", *[str(CAPTURES)] * 3) as running:
        assert running.stdout and running.stderr
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 0


def test_an_interrupted_command_ends_with_130() -> None:
    with process("frames", "--format", "jsonl", "-") as running:
        assert running.stdin and running.stdout and running.stderr
        running.stdin.write(Path(CORE).read_bytes())
        running.stdin.flush()
        assert running.stdout.readline()
        running.send_signal(signal.SIGINT)
        assert b"Traceback" not in running.stderr.read()
        running.stdout.read()
    assert running.returncode == 130


def test_an_interruption_tells_what_is_open() -> None:
    with process("sessions", "--format", "jsonl", "-") as running:
        assert running.stdin and running.stdout and running.stderr
        data = Path(CORE).read_bytes()
        assert len(data) > 65536  # more than a pipe holds: when it is written, reading has begun
        running.stdin.write(data)
        running.stdin.flush()
        running.send_signal(signal.SIGINT)
        rows = [json.loads(line) for line in running.stdout.read().splitlines()]
        assert b"Traceback" not in running.stderr.read()
    assert running.returncode == 130
    assert len(rows) == 7 and [row["end"] for row in rows].count("open") == 1


def test_a_capture_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(Path(CORE).read_bytes())
    for inputs in ([str(path)], [str(tmp_path)], [CORE, str(tmp_path / "*.pcap")]):
        done = run("frames", "-o", str(path), *inputs)
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
        assert path.read_bytes() == Path(CORE).read_bytes()
    out = tmp_path / "out.csv"
    for _ in range(2):  # the second one finds the first one's output in the folder
        assert run("frames", "--format", "csv", "-o", str(out), str(tmp_path)).exit_code == 0
        assert len(out.read_text().splitlines()) == 211


def test_an_output_is_kept_where_an_input_is_bad(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("dear diary")
    for command in (
        ["frames"],
        ["sessions"],
        ["sessions", "--session", "a"],
        ["frames", "--limit", "0"],
    ):
        done = run(*command, "-o", str(out), CORE, str(tmp_path / "missing.pcap"))
        assert (done.exit_code, out.read_text()) == (2, "dear diary")


@pytest.mark.parametrize("form", ["text", "jsonl", "csv"])
def test_an_output_that_is_full(form: str) -> None:
    line = "nats-dissect: {}: cannot be written: No space left on device\n"
    for command in TABLES:
        path = str(CAPTURES / "snap96.pcap" if command == "anomalies" else CORE)
        done = run(command, "--format", form, "-o", "/dev/full", path)
        assert (done.exit_code, done.stderr) == (2, line.format("/dev/full"))
    with open("/dev/full", "wb") as full:
        program = [sys.executable, "-m", "dissect.nats", "frames", "--format", form, CORE]
        ended = subprocess.run(program, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (ended.returncode, ended.stderr) == (2, line.format("standard output"))


def test_help_on_an_output_that_is_full() -> None:
    with open("/dev/full", "wb") as full:
        program = [sys.executable, "-c", "from dissect.nats.cli import main; main()", "--help"]
        ended = subprocess.run(program, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 2
    assert ended.stderr == (
        "nats-dissect: standard output: cannot be written: No space left on device\n"
    )


@pytest.mark.parametrize("what, closed", [("output", ">&-"), ("input", "<&-")])
def test_a_closed_standard_stream(what: str, closed: str) -> None:
    capture = "-" if what == "input" else CORE
    program = f"{shlex.quote(sys.executable)} -m dissect.nats frames {capture} {closed}"
    ended = subprocess.run(program, shell=True, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert f"standard {what} is closed" in ended.stderr


def test_an_unknown_session_is_wrong_usage_in_every_format() -> None:
    for form in ("text", "jsonl", "csv"):
        done = run("sessions", "--session", "zz", "--format", form, CORE)
        assert done.exit_code == 2 and "no session zz" in done.stderr


def test_a_name_does_nothing_to_a_terminal() -> None:
    done = run("sessions", "missing\x07\x9b31m.pcap")
    assert done.stderr == "nats-dissect: missing\\x07\\x9b31m.pcap: no such file\n"


def test_help_and_version() -> None:
    version = run("--version").stdout
    assert "nats-dissect" in version
    assert "kernel" in version or "numba is not installed" in version
    for command in (*TABLES, "follow", "info"):
        assert "CAPTURE..." in run(command, "--help").stdout


def test_what_few_commands_need_is_not_loaded_at_the_start() -> None:
    code = "import sys, dissect.nats.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    late = "cryptography dpkt duckdb importlib.metadata multiprocessing pandas pyarrow pyspark ssl"
    assert not set(late.split()) & set(done.stdout.split())


def test_a_file_in_a_folder_that_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.pcap", "b.pcap"):
        (tmp_path / name).write_bytes(Path(CORE).read_bytes())

    def refuse(path: str, mode: str) -> object:
        if path.endswith("b.pcap"):
            raise PermissionError(13, "Permission denied")
        return open(path, mode)

    monkeypatch.setattr(files, "open", refuse, raising=False)
    done = run("sessions", str(tmp_path))
    assert done.exit_code == 3
    assert f"{tmp_path / 'b.pcap'}: cannot be opened (Permission denied)" in done.stderr
    assert "7 sessions" in done.stderr
