"""Rows on their way to the output: counted, limited, and what is reported in the end."""

from __future__ import annotations

import lzma
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from dissect.nats.capture import embedded_secrets
from dissect.nats.cli import cli
from dissect.nats.commands.command_options import CommandOptions
from dissect.nats.commands.run import (
    Command,
    RenderedRows,
    print_chunks,
    print_conversation,
    print_rows,
    print_session,
)
from dissect.nats.errors import MissingLibrary
from dissect.nats.output.terminal import PLAIN
from natsync._extras import pip_install

from tests.support.paths import CAPTURES

CORE = str(CAPTURES / "core-2.15.1.pcap")


def chunks(*sizes: int) -> Iterator[RenderedRows]:
    number = 0
    for size in sizes:
        yield RenderedRows([f"{number + at}\n" for at in range(size)], size)
        number += size


def printed(capsys: pytest.CaptureFixture[str], *sizes: int, limit: int | None = None) -> str:
    run = Command("frames", CommandOptions(captures=(CORE,), limit=limit, format="jsonl"))
    print_chunks(run, run.format, chunks(*sizes), silent=True)
    return capsys.readouterr().out


def test_a_limit_cuts_wherever_it_falls(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, 2, 3) == "0\n1\n2\n3\n4\n"
    assert printed(capsys, 2, 3, limit=3) == "0\n1\n2\n"
    assert printed(capsys, 2, 3, limit=2) == "0\n1\n"
    assert printed(capsys, 2, 3, limit=0) == ""
    assert printed(capsys, limit=5) == ""


def test_nothing_is_read_beyond_a_limit(capsys: pytest.CaptureFixture[str]) -> None:
    def endless() -> Iterator[RenderedRows]:
        yield from chunks(2)
        raise AssertionError("was asked for more")

    run = Command("frames", CommandOptions(captures=(CORE,), limit=2, format="jsonl"))
    print_chunks(run, run.format, endless())
    assert capsys.readouterr() == ("0\n1\n", "")


def test_totals_are_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(Command("sessions", CommandOptions(captures=(CORE,))))
    assert capsys.readouterr().err == (
        "nats-dissect: 7 sessions, 111 messages in 268 packets of 1 file\n"
    )
    print_rows(Command("sessions", CommandOptions(captures=(CORE,), format="jsonl")))
    assert capsys.readouterr().err == ""


def test_the_start_of_an_id_and_the_whole_give_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = CommandOptions(
        captures=(CORE,), format="csv", columns="session,op", dissecting={"payload": "text"}
    )
    seen = []
    for start in ("7294", "729480e87f22a93d"):
        print_conversation(Command("frames", options), start)
        seen.append(capsys.readouterr().out)
    assert seen[0] == seen[1] and seen[0].count("729480e87f22a93d") == len(seen[0].splitlines()) - 1
    for start in ("7294", "729480e87f22a93d"):
        print_session(Command("sessions", CommandOptions(captures=(CORE,), format="jsonl")), start)
        assert capsys.readouterr().out.startswith('{"session":"729480e87f22a93d"')


def test_without_a_terminal_text_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Command("frames", CommandOptions(captures=(CORE,))).layout.terminal == PLAIN
    monkeypatch.setattr(sys, "stdout", None)
    assert Command("frames", CommandOptions(captures=(CORE,))).layout.terminal == PLAIN


def test_a_compressed_bomb_is_read_up_to_a_limit(tmp_path: Path) -> None:
    capture = Path(CORE).read_bytes()
    bomb, small = tmp_path / "bomb.pcap.xz", tmp_path / "small.pcap.xz"
    for path, size in ((bomb, 20 << 20), (small, 2 << 20)):
        path.write_bytes(lzma.compress(capture + bytes(size), preset=1))
    whole = CliRunner().invoke(cli, ["sessions", CORE])
    for path, options, limit in (
        (bomb, (), "500 times its size"),
        (bomb, ("--max-expanded=1M",), "1048576 bytes"),
        (small, ("--max-expanded=1M",), "1048576 bytes"),
    ):
        done = CliRunner().invoke(cli, ["sessions", "--jobs=1", *options, str(path)])
        assert (done.exit_code, done.stdout.count("\n")) == (3, whole.stdout.count("\n"))
        assert f"the file expands to more than {limit} (see --max-expanded)" in done.stderr
        assert done.stderr.count(str(path)) == 1
    done = CliRunner().invoke(cli, ["info", "--max-expanded=1G", str(small)])
    assert done.exit_code == 0


def test_records_of_pcapng_that_lie_are_reported_once(tmp_path: Path) -> None:
    capture = (Path(CORE).parent / "dumpcap.pcapng").read_bytes()
    bad = struct.pack("<7I", 6, 32, 99, 0, 0, 0, 0) + struct.pack("<I", 32)  # interface 99
    path = tmp_path / "a.pcapng"
    path.write_bytes(capture + 3 * bad)
    for command in ("sessions", "frames", "info"):
        done = CliRunner().invoke(cli, [command, str(path)])
        assert done.exit_code == 3
        warning = f"{path}: unusable records were left out: unknown interface (3)"
        assert done.stderr.count(warning) == 1


@pytest.mark.parametrize("command", ["frames", "info", "follow e6a8", "slice", "top --once"])
def test_a_key_log_is_no_output(command: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    secret = f"CLIENT_RANDOM {'00' * 32} 00\n"
    keys.write_text(secret)
    done = CliRunner().invoke(cli, [*command.split(), CORE, "--keylog", str(keys), "-o", str(keys)])
    assert done.stderr == f"nats-dissect: {keys}: is an input, and stays as it is\n"
    assert done.exit_code == 2 and keys.read_text() == secret


@pytest.mark.parametrize("command", ["sessions --format jsonl", "info", "audit", "slice"])
def test_a_key_log_without_a_secret_is_said_once(command: str, tmp_path: Path) -> None:
    words = [*command.split(), "-o", str(tmp_path / "out"), str(CAPTURES / "tls-2.15.1.pcap")]
    keys = tmp_path / "keys.txt"
    said = f"nats-dissect: {keys}: the key log has no TLS secret\n"
    keys.write_text("# SSL/TLS secrets log file, generated by NSS\n")
    done = CliRunner().invoke(cli, [*words, "--keylog", str(keys)])
    assert done.stderr.count(said) == 1
    done = CliRunner().invoke(cli, [*words, "--keylog", str(CAPTURES / "tls-links.keylog")])
    assert "has no TLS secret" not in done.stderr


@pytest.mark.parametrize("command", ["sessions --format jsonl", "info", "audit", "slice"])
def test_secrets_that_cannot_be_used_are_said(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the extra `tls`, as with `--keylog`."""
    lack = MissingLibrary("cryptography", "tls")
    monkeypatch.setattr(embedded_secrets, "decryption_lack", lambda: lack)
    words = [*command.split(), "-o", str(tmp_path / "out")]
    said = (
        "nats-dissect: decryption secrets in the captures are not used: cryptography is not installed;"
        f" {pip_install('tls')}\n"
    )
    for name, expected in (("tls-links.pcapng", True), ("core-2.15.1.pcap", False)):
        done = CliRunner().invoke(cli, [*words, str(CAPTURES / name)])
        assert done.exit_code in (0, 1) and (said in done.stderr) == expected, done.stderr
