"""Connections of Multipath TCP (RFC 8684) with two subflows, packet by packet."""

from __future__ import annotations

import hashlib
import struct

from tests.support.pcapwriter import START_NS, Record, ip, tcp
from tests.support.tcp_conversation import ACK, FIN, PSH, SYN

KEYS = b"\2\3\4\5\6\7\x08\x09", b"ABCDEFGH"
IDSN = 7_000, 0xFFFFFF00  # the second one wraps


def option(subtype: int, body: bytes) -> bytes:
    made = bytes((30, 3 + len(body), subtype << 4)) + body
    return made + b"\1" * (-len(made) % 4)


class Multipath:
    """A connection with two subflows, on which the bytes of both sides take turns."""

    def __init__(
        self,
        clients: tuple[str, str] = ("10.0.0.1", "10.0.0.1"),
        eight: bool = False,
        port: int = 50_000,
        keys: tuple[bytes, bytes] = KEYS,
    ) -> None:
        self.keys = keys
        self.clients, self.eight, self.port = clients, eight, port
        self.now_ns = START_NS
        self.seq = [[1_000, 5_000], [70_000, 80_000]]
        self.isn = [list(pair) for pair in self.seq]
        self.data = list(IDSN)
        self.records: list[Record] = []

    def emit(self, flow: int, way: int, flags: int, payload: bytes, options: bytes) -> None:
        ends = [(self.clients[flow], self.port + flow), ("10.0.0.2", 4222)][:: -1 if way else 1]
        ack = self.seq[flow][not way] if flags & ACK else 0
        ports = ends[0][1], ends[1][1]
        packet = tcp(ports, self.seq[flow][way], ack, flags, payload, options)
        self.records.append(Record(self.now_ns, ip(ends[0][0], ends[1][0], packet)))
        self.now_ns += 1_000_000
        self.seq[flow][way] += len(payload) + bool(flags & (SYN | FIN))

    def open(self) -> Multipath:
        self.emit(0, 0, SYN, b"", option(0, b"\x81"))
        self.emit(0, 1, SYN | ACK, b"", option(0, b"\x81" + self.keys[1]))
        self.emit(0, 0, ACK, b"", option(0, b"\x81" + self.keys[0] + self.keys[1]))
        return self

    def join(self) -> Multipath:
        token = hashlib.sha256(self.keys[1]).digest()[:4]
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
