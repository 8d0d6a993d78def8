"""From segments to the events of connections: what is released when, and in which order."""

from __future__ import annotations

from pathlib import Path

from dissect.nats import Options
from dissect.nats.engine.connections import PacketEvents
from natsync.protocol import Kind

from tests.support.conversations import CONNECT, INFO
from tests.support.pcapwriter import Conversation, pcap_file
from tests.support.segments import packet_events, segments


def groups(tmp_path: Path, *conversations: Conversation) -> list[PacketEvents]:
    path = tmp_path / "t.pcap"
    records = sorted(
        (r for conversation in conversations for r in conversation.records),
        key=lambda record: record.ts_ns,
    )
    path.write_bytes(pcap_file(records))
    return list(packet_events(segments([str(path)]), Options()))


def test_every_flow_ends_once_nats_or_not(tmp_path: Path) -> None:
    nats = Conversation().handshake().from_server(INFO).from_client(CONNECT)
    other = (
        Conversation(client=("10.0.0.9", 50000)).handshake().from_client(b"GET / HTTP/1.1\r\n\r\n")
    )
    silent = Conversation(client=("10.0.0.8", 50000)).handshake()
    last = [connections for _, connections in groups(tmp_path, nats, other, silent)][-3:]
    assert [len(connections) for connections in last] == [1, 1, 1]
    assert sorted(
        conversation.is_nats for connections in last for conversation, _ in connections
    ) == [
        False,
        False,
        True,
    ]


def test_releases_never_go_back(tmp_path: Path) -> None:
    conversations = [
        Conversation(client=("10.0.0.1", port)).handshake().from_server(INFO).from_client(CONNECT)
        for port in (40001, 40002, 40003)
    ]
    releases = [group.release for group in groups(tmp_path, *conversations)]
    assert releases == sorted(releases)


def test_a_connection_begins_in_the_file_of_its_first_packet(tmp_path: Path) -> None:
    ((_, [(conversation, _)]),) = groups(tmp_path, Conversation().handshake())[-1:]
    assert conversation.capture == conversation.flow.capture == "t.pcap"


def test_a_hint_is_about_the_port_of_who_listens(tmp_path: Path) -> None:
    path = tmp_path / "t.pcap"
    path.write_bytes(pcap_file(Conversation().handshake().records))
    for hints, kind in (
        ({4222: Kind.ROUTE, 40000: Kind.GATEWAY}, Kind.ROUTE),
        ({5: Kind.ROUTE}, None),
    ):
        ((_, [(conversation, _)]),) = packet_events(segments([str(path)]), Options(port=hints))
        assert conversation.framing.kind is kind
