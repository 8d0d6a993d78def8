"""The way of one message as text."""

from __future__ import annotations

from dataclasses import replace

from click.testing import CliRunner

from dissect.nats.application.paths.rows import PathRecord
from dissect.nats.cli import cli
from dissect.nats.commands.ladder import ladder

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


def test_of_a_group_it_says_how_many_passed() -> None:
    about = {"kind": "client", "from_server": None, "to_server": "a", "subject": "s", "copies": 3}
    first = PathRecord(
        message="aa:1",
        hop=1,
        session="aa",
        number=1,
        sender="originator",
        op="PUB",
        ts_ns=5,
        **about,
    )
    hop = replace(
        first,
        hop=2,
        session="bb",
        op="MSG",
        from_server="a",
        to_server=None,
        matched_by="group",
        passed=2,
    )
    head, *_, line = ladder([first, hop], "aa:1")
    assert head == "message aa:1 s, one of 3 equal ones\n"
    assert line == "            a > client             MSG   bb:1  group, 2 of 3 passed\n"


def test_the_start_of_the_session_is_enough() -> None:
    assert run("e7b3:10") == run("e7b344c684d1e23c:10")


def test_no_such_message_or_several() -> None:
    status, text = run("ffff:1")
    assert status == 2 and "no publication ffff:1 in the captures" in text
    gateway = str(CAPTURES / "gateway-2.15.1.pcap")
    done = CliRunner().invoke(cli, ["paths", "--message", ":6", gateway])
    assert done.exit_code == 2 and "2 messages begin with :6" in done.output
