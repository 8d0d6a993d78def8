"""Multipath TCP: bytes that travel on several subflows."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from pathlib import Path

import pytest

from dissect.nats.packet import PacketParser, ParserState, mptcp
from dissect.nats.packet.mptcp import Subflows, replayed
from dissect.nats.pipeline import records, released
from dissect.nats.schema.records import AnomalyRecord, FrameRecord, SessionRecord
from dissect.nats.types import ELSEWHERE, Packet, Segment, Share

from tests.support.crafted import crafted
from tests.support.damage import Record as Damaged
from tests.support.multipath import KEYS, Multipath, option
from tests.support.partitioned import in_one, in_partitions, in_shares
from tests.support.pcapwriter import RAW, Record, pcap_file
from tests.support.tcp_conversation import ACK, SYN


def written(packets: list[Record], tmp_path: Path) -> str:
    path = tmp_path / "mptcp.pcap"
    path.write_bytes(pcap_file(packets, RAW))
    return str(path)


@pytest.mark.parametrize("eight", [False, True])
@pytest.mark.parametrize("clients", [("10.0.0.1",) * 2, ("10.0.0.1", "10.1.1.1")])
def test_the_bytes_of_two_subflows_are_one_session(
    clients: tuple[str, str], eight: bool, tmp_path: Path
) -> None:
    path = written(Multipath(clients, eight).open().talk().close().records, tmp_path)
    rows = list(records([path], ["frames", "sessions", "anomalies"]))
    frames = [row for row in rows if isinstance(row, FrameRecord)]
    assert [row.op for row in frames[5:]] == ["PUB", "MSG"] * 6
    assert {row.total_bytes for row in frames if row.op == "PUB"} == {32}
    (session,) = [row for row in rows if isinstance(row, SessionRecord)]
    assert (session.start, session.end, session.missing_bytes) == ("handshake", "fin", 0)
    assert (session.retransmitted_bytes, session.duplicate_bytes) == (0, 0)
    assert not [row for row in rows if isinstance(row, AnomalyRecord)]


@pytest.mark.parametrize("drop", [3, 9])
def test_without_the_beginning_each_flow_says_that_bytes_travel_elsewhere(
    drop: int, tmp_path: Path
) -> None:
    packets = Multipath(("10.0.0.1", "10.1.1.1")).open().talk().records[drop:]
    path = written(packets, tmp_path)
    found = [row for row in records([path], ["anomalies"]) if isinstance(row, AnomalyRecord)]
    assert len({row.session for row in found if row.anomaly == "mptcp_elsewhere"}) == 2


def test_one_subflow_alone_is_no_anomaly(tmp_path: Path) -> None:
    talk = Multipath()
    for number in range(20):
        talk.say(0, 0, b"PUB a 1\r\nx\r\n")
    found = list(records([written(talk.records, tmp_path)], ["anomalies"]))
    assert "mptcp_elsewhere" not in {row.anomaly for row in found if isinstance(row, AnomalyRecord)}


def test_rows_are_the_same_in_partitions_shares_and_processes(tmp_path: Path) -> None:
    path = written(Multipath(("10.0.0.1", "10.1.1.1")).open().talk(40).close().records, tmp_path)
    whole = in_one([path])
    assert sum(isinstance(row, FrameRecord) for row in whole) == 85
    for size in (2_000, 9_000):
        assert in_partitions([path], size) == whole
    assert in_shares([path], 2_000, 3) == whole
    parts = [list(released([path], ["frames"], share=Share(each, range(3)))) for each in range(3)]
    assert sum(len(rows.records) for part in parts for rows in part) == 85


def test_of_too_many_subflows_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mptcp, "_MOST", 4)
    subflows = Subflows()
    for port in range(20):
        key = bytes(8) + struct.pack("!HH", port, 4222)
        subflows.translate(Segment(1, 1, "", key, 1, 0, SYN, b"", 0), option(0, b"\x81"))
        token = hashlib.sha256(KEYS[0]).digest()[:4]
        joined = Segment(1, 1, "", bytes(8) + struct.pack("!HH", port, 80), 1, 0, SYN, b"", 0)
        subflows.translate(joined, option(1, b"\1" + token + b"rand"))
        assert len(subflows.sides) <= 10 and key in subflows.sides


def parsed(parser: PacketParser, packets: Iterable[Record | Damaged]) -> list[Segment]:
    found = (
        parser.segment_of(Packet(each.ts_ns, number, "t.pcap", RAW, each.data, each.length))
        for number, each in enumerate(packets, 1)
    )
    return [segment for segment in found if segment]


def data(port: int, seq: int, number: int) -> tuple[Segment, bytes]:
    key = bytes(8) + struct.pack("!HH", port, 4222)
    dss = option(2, b"\4" + struct.pack("!IIHH", number, seq, 1, 0))
    return Segment(1, 1, "", key, seq, 0, ACK, b"x", 1), dss


def test_subflows_that_are_too_many_to_be_watched_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mptcp, "_MOST", 4)
    subflows, flags = Subflows(), []
    for port in [*range(10), *range(10)]:
        segment, dss = data(port, 1, 1)
        subflows.translate(segment, dss)
        flags.append(bool(segment.flags & ELSEWHERE))
    assert flags == ([False] * 8 + [True] * 2) * 2


def test_of_too_many_keys_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mptcp, "_MOST", 4)
    parser = PacketParser()
    for number in range(20):
        keys = b"client%02d" % number, b"server%02d" % number
        clients = "10.0.0.1", "10.1.1.1"
        talk = Multipath(clients, port=1000 + 2 * number, keys=keys).open().talk(2)
        assert not any(each.flags & ELSEWHERE for each in parsed(parser, talk.records))


def test_a_server_with_plain_tcp_ends_the_search_for_subflows() -> None:
    subflows = Subflows()
    key, back = bytes(4) + b"abcd\0\1\0\2", b"abcd" + bytes(4) + b"\0\2\0\1"
    subflows.translate(Segment(1, 1, "", key, 1, 0, SYN, b"", 0), option(0, b"\x81"))
    assert key in subflows.sides
    subflows.translate(Segment(1, 1, "", back, 7, 2, SYN | ACK, b"", 0), b"")
    assert not subflows.sides and not subflows.save()


@pytest.mark.parametrize("at", range(0, 160, 9))
def test_a_state_follows_from_the_state_before_and_notes(at: int) -> None:
    packets = crafted("crafted-mptcp").records
    before, after = PacketParser(), PacketParser()
    parsed(before, packets[:at])
    notes = after.note_subflows()
    parsed(after, packets[at : at + 39])
    whole = PacketParser()
    parsed(whole, packets[: at + 39])
    expected = whole.save().subflows
    assert expected and replayed(before.save().subflows, notes) == expected


def test_options_that_are_cut_or_wrong_do_no_harm() -> None:
    subflows = Subflows()
    parser = PacketParser()
    for size in range(40):
        for subtype in range(4):
            options = option(subtype, bytes([255]) * 20)[:size]
            for flags in (SYN, SYN | ACK, ACK):
                segment = Segment(1, 1, "", bytes(12), 1, 1, flags, b"x", 1)
                subflows.translate(segment, options)
                assert segment.length == 1
    assert parser.save() == ParserState()
