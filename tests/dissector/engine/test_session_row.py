"""The row of a session: columns from TCP, from INFO and CONNECT, and from frames; absent ones are None."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from dissect.nats import sessions
from dissect.nats.pipeline import records
from dissect.nats.schema.records import FlowRecord, SessionRecord

from tests.support.paths import CAPTURES
from tests.support.pcapwriter import RAW, pcap_file
from tests.support.tenants import said


def row_of(capture: str, **wanted: object) -> SessionRecord:
    """The first session of a sample with these values."""
    with sessions(CAPTURES / capture) as rows:
        for row in rows:
            if all(getattr(row, name) == value for name, value in wanted.items()):
                return row
    raise AssertionError(f"no such session in {capture}")


def test_tcp_peers_and_frames_meet_in_one_row() -> None:
    row = row_of("auth-2.15.1.pcap", client_name="bob's desk")
    assert (row.kind, row.start, row.end, row.ended_by) == (
        *("client", "handshake", "fin"),
        "originator",
    )
    assert (row.auth, row.user, row.server_version) == ("user_password", "bob", "2.15.1")
    assert row.frames_originator == {"CONNECT": 1, "PING": 1, "PUB": 2, "SUB": 2}
    assert row.messages_originator == 2 and len(row.errors or ()) == 3


def test_an_error_that_closes_the_connection_is_its_end() -> None:
    row = row_of("auth-2.15.1.pcap", client_name="intruder")
    assert (row.end, row.ended_by, row.errors) == (
        *("error", "responder"),
        ["Authorization Violation"],
    )


def test_columns_of_servers_are_absent_for_clients() -> None:
    row = row_of("core-2.15.1.pcap", kind="client")
    absent = {item.name for item in fields(row) if getattr(row, item.name) is None}
    assert {"remote_name", "remote_cluster", "proxied_for", "proxied_to", "lame_duck_ns"} <= absent


@pytest.mark.parametrize(
    ("lost", "start"),
    [
        (range(0), "handshake"),
        (range(1), "handshake"),  # the SYN
        (range(3), "midstream"),
        (range(3, 4), "midstream"),  # the INFO
        (range(2, 4), "midstream"),
        (range(4), "midstream"),
    ],
)
def test_sessions_and_flows_agree_on_the_start(lost: range, start: str, tmp_path: Path) -> None:
    packets = [each for at, each in enumerate(said(b"a", (1000, 5000))) if at not in lost]
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_file(packets, RAW))
    rows = list(records([str(path)], ["sessions", "flows"]))
    starts = [row.start for row in rows if isinstance(row, (SessionRecord, FlowRecord))]
    assert starts == [start] * 2
