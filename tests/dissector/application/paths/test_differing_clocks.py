"""Captures of several hosts whose clocks differ: the same paths, in the same order, as with one clock."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from dissect.nats.application.paths.rows import PathRecord
from dissect.nats.pipeline import records
from dissect.nats.schema.records import SessionRecord

from tests.support.damage import pcap_bytes, read_pcap
from tests.support.paths import CAPTURES
from tests.support.pcapwriter import START_NS, Conversation, pcap_file

MS = 1_000_000
# Ethernet without tags, IPv4 without options, and the port from which a packet comes.
PORTS = struct.Struct("!34x2H")

Hop = tuple[str, int, str | None, str | None]


def split(name: str, server: str, folder: Path, shift_ns: int) -> list[str]:
    """The capture as two files: `here` has the connections that `server` accepted, on a shifted clock,
    and `there` has the others."""
    pcap = read_pcap((CAPTURES / name).read_bytes())
    accepted = set()
    for row in records([str(CAPTURES / name)], ["sessions"]):
        assert isinstance(row, SessionRecord)
        if row.server_name == server:
            accepted.add(int(row.originator.rpartition(":")[2]))
    here, there = [], []
    for record in pcap.records:
        ports = PORTS.unpack_from(record.data)
        if accepted.isdisjoint(ports):
            there.append(record)
        else:
            here.append(replace(record, ts_ns=record.ts_ns + shift_ns))
    folder.mkdir()
    for title, some in (("here", here), ("there", there)):
        (folder / f"{title}.pcap").write_bytes(pcap_bytes(pcap.with_records(some)))
    return [str(folder)]


def paths(captures: list[str]) -> tuple[list[list[Hop]], list[PathRecord]]:
    """Each message's hops in order, sessions by the port of their originators; and all rows."""
    ports = {}
    for row in records(captures, ["sessions"]):
        assert isinstance(row, SessionRecord)
        ports[row.session] = row.originator
    found: dict[str, list[PathRecord]] = {}
    rows = []
    for hop in records(captures, ["paths"]):
        assert isinstance(hop, PathRecord)
        found.setdefault(hop.message, []).append(hop)
        rows.append(hop)
    ways = []
    for each in found.values():
        each.sort(key=lambda row: row.hop)
        ways.append(
            [(ports[row.session], row.number, row.from_server, row.to_server) for row in each]
        )
    return sorted(ways, key=lambda way: way[0][:2]), rows


SERVERS = [
    ("cluster-2.15.1.pcap", "shop-3"),
    ("leafcluster-2.15.1.pcap", "hub"),
    ("leafcluster-2.15.1.pcap", "spoke"),
    ("gateway-2.15.1.pcap", "west-1"),
]


@pytest.mark.parametrize("shift_ns", [-300 * MS, 300 * MS])
@pytest.mark.parametrize("name, server", SERVERS)
def test_a_shifted_clock_changes_no_path(
    name: str, server: str, shift_ns: int, tmp_path: Path
) -> None:
    right, rows = paths(split(name, server, tmp_path / "right", 0))
    assert all(row.clock_ns is None for row in rows)
    shifted, rows = paths(split(name, server, tmp_path / "shifted", shift_ns))
    assert shifted == right and max(map(len, right)) > 2
    corrections = {(row.clock_ns, row.clock_error_ns) for row in rows if row.clock_ns is not None}
    ((clock_ns, error_ns),) = corrections
    assert error_ns is not None and error_ns < MS
    assert abs(abs(clock_ns) - abs(shift_ns)) <= error_ns
    assert not [row for row in rows if (row.since_ns or 0) < 0]


def test_one_direction_proves_the_smallest_correction(tmp_path: Path) -> None:
    """Of two connections, in a capture each, one publishes and the other one gets it, 300 ms before."""
    conversations = Conversation(("10.0.0.1", 40_000)), Conversation(
        ("10.0.0.1", 40_001), now_ns=START_NS - 300 * MS
    )
    for conversation in conversations:
        conversation.from_server(b'INFO {"server_id": "NA", "max_payload": 100}\r\n')
        conversation.from_client(b"CONNECT {}\r\n")
    conversations[0].from_client(b"PUB a 5\r\nhello\r\n")
    conversations[1].now_ns += 7 * MS
    conversations[1].from_server(b"MSG a 1 5\r\nhello\r\n")
    for name, conversation in zip(("here", "there"), conversations):
        (tmp_path / f"{name}.pcap").write_bytes(pcap_file(conversation.records))
    _, rows = paths([str(tmp_path)])
    published, got = sorted(rows, key=lambda row: row.hop)
    assert (published.clock_ns, got.clock_ns, got.clock_error_ns) == (None, 293 * MS, None)
    assert (got.since_ns, got.matched_by) == (0, "unique")
