"""Where output goes, and what may end it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dissect.nats.errors import CaptureError
from dissect.nats.output.sink import Fault, OutputFile, say, sink_of, writing

from tests.support.paths import CAPTURES, ROOT


def put(path: Path, text: str, binary: bool = False) -> None:
    sink = sink_of(str(path), (), binary)
    with writing(sink):
        sink.writer(lambda output: output.write(text))


def test_a_file_keeps_what_it_has_until_inputs_are_readable(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("dear diary")
    with pytest.raises(Fault, match="a.pcap: no such file"), writing(OutputFile(str(path), ())):
        raise CaptureError("a.pcap", "no such file")
    assert path.read_text() == "dear diary"
    put(path, "a\n")
    assert path.read_bytes() == b"a\n"


@pytest.mark.parametrize("binary", [False, True])
def test_work_that_fails_leaves_no_new_file(binary: bool, tmp_path: Path) -> None:
    path = tmp_path / "out"
    with pytest.raises(Fault), writing(sink_of(str(path), (), binary)):
        raise CaptureError("a.pcap", "no such file")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("binary", [False, True])
def test_a_capture_is_no_output_by_whatever_name(binary: bool, tmp_path: Path) -> None:
    path, link, soft = tmp_path / "a.pcap", tmp_path / "b.pcap", tmp_path / "c.pcap"
    path.write_bytes(b"x")
    os.link(path, link)
    soft.symlink_to(path)
    for output in (path, link, soft):
        with pytest.raises(Fault, match="stays as it is"):
            with writing(sink_of(str(output), (str(path),), binary)):
                raise AssertionError("was opened")
    assert path.read_bytes() == b"x" and len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("binary", [False, True])
def test_what_a_command_reads_beside_captures_is_no_output(binary: bool, tmp_path: Path) -> None:
    """Such as a key log, or a folder of tables. There a file is an output like any other, unless it is read
    like a table, or would be."""
    file, inside = tmp_path / "keys.txt", tmp_path / "tables" / "frames" / "part.parquet"
    inside.parent.mkdir(parents=True)
    link = tmp_path / "link"
    for path in (file, inside):
        path.write_bytes(b"x")
    os.link(inside, link)
    others = [str(tmp_path / "none"), "s3a://bucket/tables", str(file), str(tmp_path / "tables")]
    for output in (file, inside, link):
        with pytest.raises(Fault, match="is an input, and stays as it is$"):
            sink_of(str(output), (), binary, others)
        assert output.read_bytes() == b"x"
    (tmp_path / "soft").symlink_to(inside.parent)
    for output in (inside.parent / "new.parquet", tmp_path / "soft" / "new.yml"):
        with pytest.raises(Fault, match=f"would be read .* outside {others[-1]}$"):
            sink_of(str(output), (), binary, others)
    page = inside.parent.parent / "page.html"
    for _ in range(2):
        sink_of(str(page), (), binary, others)
        page.touch()
    sink_of(str(tmp_path / "new.parquet"), (), binary, others)
    sink_of(None, (), binary, others)
    sink_of("/dev/null", (), binary, ["/dev/null"])


def test_redirected_standard_input_is_no_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(b"x")
    with path.open() as redirected:
        monkeypatch.setattr(sys, "stdin", redirected)
        with pytest.raises(Fault, match="stays as it is"), writing(sink_of(str(path), ("-",))):
            raise AssertionError("was opened")
    assert path.read_bytes() == b"x"


def test_an_output_that_cannot_be_opened(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "where"):
        with pytest.raises(Fault, match="cannot be written: ") as raised:
            with writing(sink_of(str(path), ())):
                raise AssertionError("was opened")
        assert raised.value.exit_code == 2


def test_an_interruption_has_its_status() -> None:
    with pytest.raises(SystemExit) as raised, writing(sink_of(None, ())):
        raise KeyboardInterrupt
    assert raised.value.code == 130


def test_a_file_has_its_name_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "f"
    sink = OutputFile(str(path), ())
    with writing(sink) as output:
        assert sink.writer(lambda made: made) is output
        output.write("new")
        assert not path.exists()
    assert path.read_bytes() == b"new" and os.listdir(tmp_path) == ["f"]


def test_work_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    with pytest.raises(SystemExit), writing(OutputFile(str(path), ())) as output:
        output.write("half")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize("form", ["text", "jsonl", "csv"])
def test_a_run_that_is_killed_leaves_the_old_file(form: str, tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("dear diary")
    program = [
        sys.executable,
        "-m",
        "dissect.nats",
        "frames",
        "--format",
        form,
        "-o",
        str(path),
        "-",
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(program, cwd=ROOT, stdin=pipe, stderr=pipe) as running:
        assert running.stdin
        running.stdin.write((CAPTURES / "core-2.15.1.pcap").read_bytes())
        running.stdin.flush()
        part = tmp_path / f"out.{running.pid}.part"
        deadline = time.monotonic() + 60
        while not part.exists() or not part.stat().st_size:  # rows are written as packets arrive
            assert running.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        running.kill()
    assert path.read_text() == "dear diary"


def test_a_link_leads_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "f")
    put(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "f").read_bytes() == b"new"


def test_a_new_file_has_the_mode_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.touch(0o600)
    put(path, "new")
    assert path.stat().st_mode & 0o777 == 0o600


def test_special_files_are_written_directly(tmp_path: Path) -> None:
    put(Path("/dev/null"), "new")
    assert not os.path.isfile("/dev/null")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    put(pipe, "new")
    assert os.read(reader, 9) == b"new" and os.listdir(tmp_path) == ["pipe"]
    os.close(reader)


def test_an_open_descriptor_is_written_directly_also_if_it_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("head\n")
    with path.open("a") as opened:
        before = path.stat().st_ino
        put(Path(f"/dev/fd/{opened.fileno()}"), "new\n")
    assert path.read_text() == "head\nnew\n" and path.stat().st_ino == before


def test_a_file_in_a_folder_without_room_for_another_is_written_directly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    monkeypatch.setattr(
        os, "access", lambda name, mode: name != str(tmp_path)
    )  # tests may run as root
    with pytest.raises(Fault), writing(sink_of(str(path), ())):
        raise CaptureError("a.pcap", "no such file")
    assert path.read_text() == "old"
    put(path, "a\n")
    assert path.read_text() == "a\n"


def test_a_message_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\nb\x1b[2J")
    assert capsys.readouterr() == ("", "nats-dissect: a b\\x1b[2J\n")
    say("\udcff.pcap")
    assert capsys.readouterr() == ("", "nats-dissect: \\xff.pcap\n")
