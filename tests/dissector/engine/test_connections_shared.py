"""Connections spread over several readers: the same groups in the same order as with one."""

from __future__ import annotations

import random
from heapq import merge
from pathlib import Path

import pytest

from dissect.nats import CaptureReport, Options
from dissect.nats.capture import read_runs
from dissect.nats.engine.connections import PacketEvents, ReleaseKey
from dissect.nats.packet import PacketParser

from tests.support.conversations import CONNECT, INFO
from tests.support.paths import CAPTURES
from tests.support.pcapwriter import Conversation, Record, pcap_file
from tests.support.segments import packet_events

SECOND = 10**9

GroupValue = tuple[ReleaseKey, list[tuple[str, str, bool, str]]]


def value_of(group: PacketEvents) -> GroupValue:
    """A group as a value."""
    connections = [
        (conversation.flow.id, conversation.flow.end.value, conversation.over, repr(events))
        for conversation, events in group.connections
    ]
    return group.release, connections


def groups(path: Path, options: Options, mine: int = 0, readers: int = 1) -> list[GroupValue]:
    parser = PacketParser(lambda flow: flow % readers == mine)
    source = parser.segments(read_runs([str(path)], CaptureReport()))
    return [value_of(group) for group in packet_events(source, options)]


def check(path: Path, options: Options) -> list[GroupValue]:
    whole = groups(path, options)
    releases = [release for release, _ in whole]
    assert releases == sorted(set(releases))
    for readers in (2, 3):
        parts = [groups(path, options, mine, readers) for mine in range(readers)]
        assert list(merge(*parts, key=lambda group: group[0])) == whole
    return whole


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.pcap")), ids=lambda path: path.name)
def test_the_groups_of_each_sample_are_those_of_one_reader(path: Path) -> None:
    assert check(path, Options())


def life(port: int, rng: random.Random) -> list[Record]:
    """A connection that may be closed, reset, or left alone, at any time of an hour."""
    conversation = Conversation(("10.0.0.1", port), now_ns=rng.randrange(3600) * SECOND)
    conversation.handshake().from_server(INFO).from_client(CONNECT)
    for _ in range(rng.randrange(4)):
        conversation.now_ns += rng.randrange(400) * SECOND
        conversation.from_client(b"PING\r\n", skip=rng.random() < 0.2).from_server(b"PONG\r\n")
    if rng.random() < 0.5:
        conversation.close()
    elif rng.random() < 0.5:
        conversation.packet(conversation.server, 4)
    return conversation.records


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ordered", [True, False])
def test_flows_that_end_by_the_time_of_others(tmp_path: Path, seed: int, ordered: bool) -> None:
    rng = random.Random(seed)
    records = [record for port in range(1, 60) for record in life(port % 40 + 1, rng)]
    records.sort(key=lambda record: record.ts_ns)
    if not ordered:
        for _ in range(30):
            at = rng.randrange(len(records) - 1)
            records[at], records[at + 1] = records[at + 1], records[at]
    path = tmp_path / "t.pcap"
    path.write_bytes(pcap_file(records))
    whole = check(path, Options(idle_seconds="5m"))
    packets = {release.packet for release, _ in whole}
    assert sum(release.session != "" and release.packet < len(records) for release, _ in whole) > 20
    assert len(packets) > 20
