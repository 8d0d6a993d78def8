"""`nats-dissect top` on a real terminal, and printed once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dissect.nats import CaptureReport, Options, records
from dissect.nats.cli import cli
from dissect.nats.commands.top.command import count, open_dissection
from dissect.nats.commands.top.traffic import TopTraffic
from dissect.nats.schema.records import RequestRecord, SessionRecord

from tests.support.paths import CAPTURES
from tests.support.pcapwriter import START_NS, Record
from tests.support.sightings import CLIENT, POD, capture_of, proxied, seen, translated
from tests.support.terminals import terminal

CORE = CAPTURES / "core-2.15.1.pcap"
TOP = ("-m", "dissect.nats", "top", "--interval", "0.1")
LEFT = b"\x1b[?1049l"  # the alternate screen
pytestmark = pytest.mark.timeout(240)  # each wait for the terminal has its own limit


def run(*args: str, data: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["top", *args], input=data)


def counted(path: Path) -> TopTraffic:
    traffic, report = TopTraffic(), CaptureReport()
    dissection = open_dissection(Options(), report)
    count(dissection.packets([str(path)], report), dissection, traffic)
    traffic.measure(1.0)
    return traffic


def test_a_file_that_grows_until_q(tmp_path: Path) -> None:
    whole = CORE.read_bytes()
    growing = tmp_path / "growing.pcap"
    growing.write_bytes(whole[:10_000])  # in the middle of a packet
    with terminal(*TOP, str(growing)) as shown, growing.open("ab", buffering=0) as file:
        shown.shows("warehouse")
        assert b"268 packets" not in shown.seen
        file.write(whole[10_000:])
        shown.shows("268 packets")
        for key, text in (
            ("s", "[subjects]"),
            ("/created", "filter: created_"),
            ("\r", "filter: created"),
            (">", "*published"),
            ("\t", "[requests]"),
            ("\x1b", "price.get"),
            (" ", "paused"),
        ):
            shown.press(key)
            shown.shows(text)
        shown.press("q")
        assert shown.left() == (0, True)
        assert shown.seen.endswith(LEFT)


def test_a_stream_until_ctrl_c() -> None:
    read, write = os.pipe()
    with terminal(*TOP, "-", stdin=read) as shown, os.fdopen(write, "wb", buffering=0) as source:
        os.close(read)
        shown.shows("no packets")
        source.write(CORE.read_bytes())
        shown.shows("268 packets")
        shown.press("\x03")
        assert shown.left() == (130, True)
        assert LEFT in shown.seen


def test_a_stream_that_ends_in_a_packet() -> None:
    with open(CORE, "rb") as file:
        short = file.read()[:-7]
    read, write = os.pipe()
    with terminal(*TOP, "-", stdin=read) as shown:
        os.close(read)
        with os.fdopen(write, "wb") as source:
            source.write(short)
        shown.shows("the input has ended")
        shown.press("q")
        assert shown.left() == (3, True)
        assert LEFT in shown.seen and b"everything before it was read" in shown.seen


def test_what_is_no_capture(tmp_path: Path) -> None:
    text = tmp_path / "notes.pcap"
    text.write_bytes(b"Dear diary, today there were no packets at all.")
    with terminal(*TOP, str(text)) as shown:
        assert shown.left() == (2, True)
        assert b"not a capture" in shown.seen


def test_without_a_terminal_the_tables_are_printed_once() -> None:
    done = run(str(CORE))
    assert done.exit_code == 0
    assert done.output == run("--once", str(CORE)).output
    assert done.output == run("-", data=CORE.read_bytes()).output
    titles = [line for line in done.output.splitlines() if line and " " not in line]
    assert titles == ["connections", "subjects", "requests", "problems"]
    assert "111 messages" in done.output and "\x1b" not in done.output


def test_one_view_in_json_lines() -> None:
    done = run(
        "--format",
        "jsonl",
        "--view",
        "connections",
        "--sort",
        "sent:desc",
        "--limit",
        "2",
        str(CORE),
    )
    first, second = map(json.loads, done.output.splitlines())
    assert first["view"] == "connections" and first["name"] == "shop"
    assert (first["sent"], first["received"], first["kind"]) == (42, 6, "client")
    assert first["sent"] > second["sent"]
    assert first["time"].startswith("2026-11-21T02:01:4")


def test_options_that_are_wrong_and_captures_that_are_cut(tmp_path: Path) -> None:
    done = run("--sort", "colour", str(CORE))
    assert done.exit_code == 2
    assert "--sort: connections has no column 'colour'; it has session, kind," in done.output
    assert run("--sort", "sent:up", str(CORE)).exit_code == 2
    short = tmp_path / "short.pcap"
    short.write_bytes(CORE.read_bytes()[:5000])
    done = run("--once", str(short))
    assert done.exit_code == 3 and "everything before it was read" in done.output


@pytest.mark.parametrize(
    "name", ["core-2.15.1", "leafnode-2.15.1", "orders-2.15.1", "lossy", "services-2.15.1"]
)
def test_the_counts_are_those_of_the_tables(name: str) -> None:
    path = CAPTURES / f"{name}.pcap"
    traffic = counted(path)
    lines = {line.session: line for line in traffic.connections}
    tables = ["sessions", "requests"]
    found = list(records([str(path)], tables))
    sessions = [row for row in found if isinstance(row, SessionRecord)]
    requests = [row for row in found if isinstance(row, RequestRecord)]
    assert {row.session for row in sessions} == set(lines)
    for row in sessions:
        line = lines[row.session]
        assert (line.kind, line.state) == (row.kind, row.end)
        assert (line.originator, line.responder) == (row.originator, row.responder)
        assert (line.sent, line.received) == (row.messages_originator, row.messages_responder)
        assert line.bytes == row.bytes_originator + row.bytes_responder
        assert line.lost_bytes == row.missing_bytes
        assert line.errors == len(row.errors or ())
        if row.kind == "client":
            assert (line.name, line.server) == (row.client_name, row.server_name)
    asked = {line.subject: line for line in traffic.requests}
    assert sum(line.requests for line in asked.values()) == len(requests)
    failed = sum(row.outcome != "ok" for row in requests)
    assert sum(line.failed for line in asked.values()) == failed


@pytest.mark.parametrize("places", [translated, proxied])
def test_a_connection_that_is_seen_twice_counts_once(
    tmp_path: Path, places: Callable[[], list[list[Record]]]
) -> None:
    once = counted(capture_of(tmp_path / "once.pcap", places()[:1]))
    path = capture_of(tmp_path / "twice.pcap", places())
    twice = counted(path)
    assert (once.copies, twice.copies) == (0, 1)
    assert twice.totals == once.totals and twice.totals["messages"] == 12
    for table in ("connections", "subjects", "problems"):
        assert twice.lines(table) == once.lines(table)
    assert [(line.requests, line.failed) for line in twice.requests] == [(1, 1)]
    text = run("--once", str(path)).output
    assert "\n1 session seen twice, and counted once\n" in text


def test_another_connection_with_the_number_of_an_earlier_one_counts(tmp_path: Path) -> None:
    later = seen((CLIENT[0], CLIENT[1] + 1), POD, START_NS + 30 * 10**9)
    traffic = counted(capture_of(tmp_path / "seen.pcap", [seen(), later, proxied(number=8)[1]]))
    assert (len(traffic.connections), traffic.copies) == (3, 0)
    assert not traffic._shown and not traffic._numbers and not traffic._copies
