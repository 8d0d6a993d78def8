"""Multipath TCP: bytes that travel on several subflows."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import pytest

from dissect.nats.packet import PacketParser, mptcp
from dissect.nats.packet.mptcp import Subflows
from dissect.nats.pipeline import records, released
from dissect.nats.schema.records import AnomalyRecord, FrameRecord, SessionRecord
from dissect.nats.types import Segment

from tests.support.partitioned import in_one, in_partitions, in_shares
from tests.support.pcapwriter import RAW, START_NS, Record, ip, pcap_file, tcp
from tests.support.tcp_conversation import ACK, FIN, PSH, SYN

KEYS = b"\2\3\4\5\6\7\x08\x09", b"ABCDEFGH"
IDSN = 7_000, 0xFFFFFF00  # the second one wraps


def option(subtype: int, body: bytes) -> bytes:
    made = bytes((30, 3 + len(body), subtype << 4)) + body
    return made + b"\1" * (-len(made) % 4)


class Multipath:
    """A connection with two subflows, on which the bytes of both sides take turns."""

    def __init__(self, clients: tuple[str, str] = ("10.0.0.1", "10.0.0.1"), eight: bool = False):
        self.clients, self.eight = clients, eight
        self.now_ns = START_NS
        self.seq = [[1_000, 5_000], [70_000, 80_000]]
        self.isn = [list(pair) for pair in self.seq]
        self.data = list(IDSN)
        self.records: list[Record] = []

    def emit(self, flow: int, way: int, flags: int, payload: bytes, options: bytes) -> None:
        ends = [(self.clients[flow], 50_000 + flow), ("10.0.0.2", 4222)][:: -1 if way else 1]
        ack = self.seq[flow][not way] if flags & ACK else 0
        ports = ends[0][1], ends[1][1]
        packet = tcp(ports, self.seq[flow][way], ack, flags, payload, options)
        self.records.append(Record(self.now_ns, ip(ends[0][0], ends[1][0], packet)))
        self.now_ns += 1_000_000
        self.seq[flow][way] += len(payload) + bool(flags & (SYN | FIN))

    def open(self) -> Multipath:
        self.emit(0, 0, SYN, b"", option(0, b"\x81"))
        self.emit(0, 1, SYN | ACK, b"", option(0, b"\x81" + KEYS[1]))
        self.emit(0, 0, ACK, b"", option(0, b"\x81" + KEYS[0] + KEYS[1]))
        return self

    def join(self) -> Multipath:
        token = hashlib.sha256(KEYS[1]).digest()[:4]
        self.emit(1, 0, SYN, b"", option(1, b"\1" + token + b"rand"))
        self.emit(1, 1, SYN | ACK, b"", option(1, b"\1" + bytes(12)))
        self.emit(1, 0, ACK, b"", option(1, b"\0" + bytes(20)))
        return self

    def say(self, flow: int, way: int, payload: bytes) -> None:
        relative = self.seq[flow][way] - self.isn[flow][way]
        size, form = (8, "!QQIHH") if self.eight else (4, "!IIIHH")
        ack, data = (value & (1 << 8 * size) - 1 for value in (self.data[not way], self.data[way]))
        body = struct.pack(form, ack, data, relative, len(payload), 0)
        flags = b"\x0f" if self.eight else b"\5"
        self.emit(flow, way, PSH | ACK, payload, option(2, flags + body))
        self.data[way] += len(payload)
        self.emit(
            flow,
            not way,
            ACK,
            b"",
            option(2, b"\1" + struct.pack("!I", self.data[way] & 0xFFFFFFFF)),
        )

    def talk(self, count: int = 6) -> Multipath:
        self.say(0, 1, b'INFO {"server_id":"NA","version":"2.15.3","headers":true}\r\n')
        self.say(0, 0, b'CONNECT {"verbose":false,"lang":"go"}\r\nPING\r\n')
        self.say(0, 1, b"PONG\r\n")
        self.say(0, 0, b"SUB a 1\r\n")
        self.join()
        for number in range(count):
            for way, head in enumerate((b"PUB a", b"MSG a 1")):
                frame = head + b" 20\r\n%020d\r\n" % number
                self.say(number % 2, way, frame[:13])
                self.say(1 - number % 2, way, frame[13:])
        return self

    def close(self) -> Multipath:
        for flow in (1, 0):
            self.emit(flow, 0, FIN | ACK, b"", b"")
            self.emit(flow, 1, FIN | ACK, b"", b"")
        return self


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
    parts = [list(released([path], ["frames"], share=(each, 3))) for each in range(3)]
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
    assert parser.save() == b""
