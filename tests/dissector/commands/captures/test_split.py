"""`nats-dissect split`: what it writes, what it says, and what it never does."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dissect.nats import FrameRecord
from dissect.nats.cli import cli

from tests.dissector.samples.rows import rows, values_of
from tests.support.paths import CAPTURES, ROOT
from tests.support.pcapwriter import START_NS, Conversation, Record, pcap_file


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["split", *map(str, arguments)])


def frames(path: Path) -> list[tuple[object, ...]]:
    return values_of(rows([path]), FrameRecord, {"capture", "packet"})


@pytest.mark.parametrize("name", ["core-2.15.1.pcap", "dumpcap.pcapng", "lossy.pcap"])
def test_pieces_say_what_the_capture_says(name: str, tmp_path: Path) -> None:
    done = run(CAPTURES / name, "-o", tmp_path / "pieces", "--size", "4096")
    files = sorted(os.listdir(tmp_path / "pieces"))
    assert done.exit_code == 0 and done.stdout == ""
    assert done.stderr == (
        f"nats-dissect: {len(files)} pieces of 1 file in {tmp_path / 'pieces'}\n"
    )
    stem, suffix = name.rsplit(".", 1)
    assert files == [f"{number:08}-{stem}.{suffix}" for number in range(len(files))]
    assert len(files) > 1
    assert frames(tmp_path / "pieces") == frames(CAPTURES / name) != []


def test_several_captures_are_written_in_their_order(tmp_path: Path) -> None:
    conversation = Conversation().handshake().from_client(b"PING\r\n")
    conversation.now_ns += 10**9
    early, late = conversation.records[:3], conversation.records[3:]
    (tmp_path / "a.pcap").write_bytes(pcap_file(late))
    (tmp_path / "b.pcap.gz").write_bytes(gzip.compress(pcap_file(early), mtime=0))
    done = run(tmp_path / "*.pcap*", "-o", tmp_path / "pieces")
    assert done.exit_code == 0 and "2 pieces of 2 files" in done.stderr
    files = sorted((tmp_path / "pieces").iterdir())
    assert [file.name for file in files] == ["00000000-b.pcap", "00000001-a.pcap"]
    assert [file.read_bytes() for file in files] == [pcap_file(early), pcap_file(late)]


def test_captures_that_overlap_are_reported(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(pcap_file([Record(START_NS, b"x")]))
    done = run(tmp_path / "a", tmp_path / "b", "-o", tmp_path / "pieces")
    assert done.exit_code == 0 and "captures overlap" in done.stderr


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    kept = tmp_path / "pieces" / "kept"
    kept.parent.mkdir()
    kept.write_bytes(b"kept")
    done = run(CAPTURES / "core-2.15.1.pcap", "-o", kept.parent)
    assert done.exit_code == 2 and "is not empty, and nothing is overwritten" in done.stderr
    assert list(kept.parent.iterdir()) == [kept] and kept.read_bytes() == b"kept"
    done = run(CAPTURES / "core-2.15.1.pcap", "-o", kept)
    assert done.exit_code == 2 and "cannot be written" in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_is_damaged_is_kept_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "damaged.pcap"
    path.write_bytes((CAPTURES / "core-2.15.1.pcap").read_bytes()[:-5])
    done = run(path, "-o", tmp_path / "pieces")
    assert done.exit_code == 3
    assert f"{path}: the file is cut short in packet" in done.stderr
    assert frames(tmp_path / "pieces") == frames(path) != []


@pytest.mark.parametrize("inputs", [["-"], ["nothing"], ["letter"]])
def test_what_is_no_capture_leaves_no_folder(
    inputs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "letter").write_bytes(b"Dear all")
    done = run(*inputs, "-o", "pieces")
    assert done.exit_code == 2 and done.stderr.count("\n") == 1
    assert not (tmp_path / "pieces").exists()


def test_sizes_are_bounded(tmp_path: Path) -> None:
    done = run(CAPTURES / "core-2.15.1.pcap", "-o", tmp_path / "pieces", "--size", "1")
    assert done.exit_code == 2 and "--size" in done.stderr
    assert run(CAPTURES / "core-2.15.1.pcap").exit_code == 2


def test_names_of_captures_are_kept_in_a_locale_without_their_characters(tmp_path: Path) -> None:
    capture = tmp_path / "g\u00e4ste \u20ac.pcap"
    capture.write_bytes((CAPTURES / "core-2.15.1.pcap").read_bytes())
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "dissect.nats", "split", capture, "-o", tmp_path / "pieces"],
        env={**os.environ, "PYTHONPATH": str(ROOT), **ascii_only},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (piece,) = (tmp_path / "pieces").iterdir()
    assert piece.name.endswith("-g\u00e4ste \u20ac.pcap")
    assert piece.read_bytes() == capture.read_bytes()
