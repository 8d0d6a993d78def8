"""Segments to talks: what is released when, and in which order."""

from __future__ import annotations

from pathlib import Path

from dissect.nats import Options
from dissect.nats.engine.connections import PacketEvents, packet_events
from dissect.nats.pipeline import segments
from natsync.protocol import Kind

from tests.support.conversations import CONNECT, INFO
from tests.support.pcapwriter import Talk, pcap_file


def groups(tmp_path: Path, *said: Talk) -> list[PacketEvents]:
    path = tmp_path / "t.pcap"
    records = sorted((r for talk in said for r in talk.records), key=lambda record: record.ts_ns)
    path.write_bytes(pcap_file(records))
    return list(packet_events(segments([str(path)]), Options()))


def test_every_flow_ends_once_nats_or_not(tmp_path: Path) -> None:
    nats = Talk().handshake().from_server(INFO).from_client(CONNECT)
    other = Talk(client=("10.0.0.9", 50000)).handshake().from_client(b"GET / HTTP/1.1\r\n\r\n")
    silent = Talk(client=("10.0.0.8", 50000)).handshake()
    last = [connections for _, connections in groups(tmp_path, nats, other, silent)][-3:]
    assert [len(connections) for connections in last] == [1, 1, 1]
    assert sorted(talk.is_nats for connections in last for talk, _ in connections) == [
        False,
        False,
        True,
    ]


def test_releases_never_go_back(tmp_path: Path) -> None:
    said = [
        Talk(client=("10.0.0.1", port)).handshake().from_server(INFO).from_client(CONNECT)
        for port in (40001, 40002, 40003)
    ]
    releases = [group.release for group in groups(tmp_path, *said)]
    assert releases == sorted(releases)


def test_a_talk_begins_in_the_file_of_its_first_packet(tmp_path: Path) -> None:
    ((_, [(talk, _)]),) = groups(tmp_path, Talk().handshake())[-1:]
    assert talk.capture == talk.flow.capture == "t.pcap"


def test_a_hint_is_about_the_port_of_who_listens(tmp_path: Path) -> None:
    path = tmp_path / "t.pcap"
    path.write_bytes(pcap_file(Talk().handshake().records))
    for hints, kind in (
        ({4222: Kind.ROUTE, 40000: Kind.GATEWAY}, Kind.ROUTE),
        ({5: Kind.ROUTE}, None),
    ):
        ((_, [(talk, _)]),) = packet_events(segments([str(path)]), Options(hints=hints))
        assert talk.framing.kind is kind
