"""The way of one message as text."""

from __future__ import annotations

from click.testing import CliRunner

from dissect.nats.cli import cli

from tests.support.paths import CAPTURES

CAPTURE = str(CAPTURES / "leafcluster-2.15.1.pcap")


def run(message: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["paths", "--message", message, CAPTURE])
    return done.exit_code, done.output


def test_a_line_a_hop_deeper_at_each_server() -> None:
    status, text = run("e7b344c684d1e23c:10")
    head, published, blank, *lines = text.splitlines()
    assert (status, head, blank) == (0, "message e7b344c684d1e23c:10 orders.new", "")
    assert published.startswith("published 2026-")
    ends = ["client > hub-2", "  hub-2 > hub", "    hub > spoke", "      spoke > client"]
    assert [line[10:].split("  +")[0].rstrip() for line in lines[1:]] == ends[1:]
    assert lines[0][10:].startswith(ends[0])
    assert all(line.endswith("unique") for line in lines[1:])


def test_the_start_of_the_session_is_enough() -> None:
    assert run("e7b3:10") == run("e7b344c684d1e23c:10")


def test_no_such_message_or_several() -> None:
    status, text = run("ffff:1")
    assert status == 2 and "no publication ffff:1 in the captures" in text
    gateway = str(CAPTURES / "gateway-2.15.1.pcap")
    done = CliRunner().invoke(cli, ["paths", "--message", ":6", gateway])
    assert done.exit_code == 2 and "2 messages begin with :6" in done.output
