"""`nats-dissect top --interface`: the program that captures, and what it says where it cannot."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from dissect.nats.cli import cli
from dissect.nats.commands.top.sniffer import sniffing
from dissect.nats.errors import DissectError

from tests.support.paths import CAPTURES
from tests.support.terminals import terminal

CORE = CAPTURES / "core-2.15.1.pcap"


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in which programs are looked for."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_dumpcap_comes_before_tcpdump(path: Path) -> None:
    program(path, "tcpdump", "echo tcpdump $@; exec /bin/sleep 60")
    with sniffing("eth7") as (first, _):
        assert first == b"tcpdump -U -w - -i eth7\n"
    program(path, "dumpcap", "echo dumpcap $@; exec /bin/sleep 60")
    with sniffing("eth7") as (first, descriptor):
        assert first == b"dumpcap -q -P -w - -i eth7\n"
        os.fstat(descriptor)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'tcpdump: eth7: No such device exists' >&2; exit 1", "eth7: No such device exists"),
        ("echo \"Capturing on 'eth7'\" >&2; echo 'no permission' >&2; exit 1", "no permission"),
        ("exit 0", "it ended without a packet"),
    ],
)
def test_why_there_are_no_packets_is_one_line(path: Path, script: str, reason: str) -> None:
    program(path, "tcpdump", script)
    with pytest.raises(DissectError) as raised, sniffing("eth7"):
        pass
    assert str(raised.value) == f"eth7: tcpdump: {reason}"


def test_without_a_program(path: Path) -> None:
    with pytest.raises(DissectError, match="eth7: neither dumpcap nor tcpdump is installed"):
        with sniffing("eth7"):
            pass


@pytest.mark.timeout(240)
def test_an_interface_on_a_terminal_until_q(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(path, "dumpcap", f"/bin/cat {CORE}; exec /bin/sleep 600")
    monkeypatch.setenv("PATH", f"{path}:/usr/bin:/bin")
    top = ("-m", "dissect.nats", "top", "--interval", "0.1", "-i", "eth7")
    with terminal(*top) as shown:
        shown.shows("warehouse")
        shown.shows("268 packets")
        shown.press("q")
        assert shown.left() == (0, True)


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ((), "top takes captures, --interface"),
        (("a.pcap", "-i", "lo"), "top takes captures, --interface"),
        (("--once", "-i", "lo"), "--interface needs a terminal, and no --once"),
    ],
)
def test_wrong_usage_is_one_line(args: tuple[str, ...], reason: str) -> None:
    done = CliRunner().invoke(cli, ["top", *args])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert reason in done.stderr
