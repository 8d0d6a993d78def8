"""TCP connections to a NATS server, streamed into a pcap file packet by packet.

`Recorder` writes packets as tcpdump would, and drops, delays or duplicates some of them on the way into the
file, as a `Plan` asks. `Connection` turns the bytes that two endpoints send into packets: segments of at most
1448 bytes, acknowledgements, TCP timestamps. Nothing is kept in memory, so a capture may have any size.
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import BinaryIO

from tests.support.tcp_conversation import ACK, PSH, TcpConversation

MSS = 1448
START_US = 1_750_000_000_000_000
SERVER = b"\x0a\x00\x00\x01"
# Records that are collected before they are written, half of them headers.
BATCH = 2048

_FILE_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
_RECORD = struct.Struct("<4I")
# Ethernet with its type, IPv4, TCP with a timestamp option.
_PACKET = struct.Struct("!12sH BBHHHBBH8s HHIIBBHHH HBBII")
_HEADERS = _PACKET.size
_MACS = bytes.fromhex("020000000002020000000001")


@dataclass(frozen=True, slots=True)
class Plan:
    """The capture to write.

    By default subjects, replies and payload sizes hardly ever repeat; `repeating` draws them from small
    fixed sets instead, so that most control lines occur again and again.
    `jetstream` has nothing but JetStream traffic.

    `loss`, `reordered` and `duplicated` are shares of the packets with payload, and happen in the capture
    only: the endpoints received everything. `heavy` is the share of all bytes that `equal` connections carry
    in equal parts; each of them is every role at once and talks to itself.
    """

    packets: int = 1_000_000
    seed: int = 1
    clients: int = 24
    repeating: bool = False
    jetstream: bool = False
    loss: float = 0.0
    reordered: float = 0.0
    duplicated: float = 0.0
    heavy: float = 0.0
    equal: int = 1


@dataclass(slots=True)
class WrittenFile:
    """The contents of a capture. `frames` counts operations as they were sent, including lost ones, and
    `rows` the rows that tables above the frames should have of them."""

    packets: int = 0
    file_bytes: int = len(_FILE_HEADER)
    lost: int = 0
    connections: int = 0
    frames: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)

    @property
    def messages(self) -> int:
        """Frames that carry a payload from a publisher or to a subscriber."""
        return sum(self.frames[op] for op in ("PUB", "HPUB", "MSG", "HMSG", "RMSG"))


class Recorder:
    """Writes packets to a pcap file, with the damage that the plan asks for."""

    def __init__(self, file: BinaryIO, plan: Plan, rng: random.Random) -> None:
        self.written = WrittenFile()
        self.now_us = START_US
        self.sent_bytes = 0
        self._file = file
        self._plan = plan
        self._rng = rng
        self._damages = bool(plan.loss or plan.reordered or plan.duplicated)
        self._parts: list[bytes] = [_FILE_HEADER]
        self._delayed: list[bytes] = []

    def put(self, packet: bytes) -> None:
        """Records one packet, or damages it."""
        self.now_us += 5 + (len(packet) & 31)
        self.sent_bytes += len(packet)
        if self._damages and len(packet) > _HEADERS:
            chance = self._rng.random()
            if chance < self._plan.loss:
                self.written.lost += 1
                return
            chance -= self._plan.loss
            if chance < self._plan.reordered:
                self._delayed.append(packet)
                return
            if chance < self._plan.reordered + self._plan.duplicated:
                self._record(packet)
        self._record(packet)
        if self._delayed and self._rng.random() < 0.5:
            self._record_delayed()

    def close(self) -> None:
        """Writes everything that is still in memory; the file stays open."""
        self._record_delayed()
        self._file.write(b"".join(self._parts))

    def _record_delayed(self) -> None:
        delayed, self._delayed = self._delayed, []
        for packet in delayed:
            self._record(packet)

    def _record(self, packet: bytes) -> None:
        written, size, parts = self.written, len(packet), self._parts
        parts.append(_RECORD.pack(*divmod(self.now_us, 1_000_000), size, size))
        parts.append(packet)
        written.packets += 1
        written.file_bytes += 16 + size
        if len(parts) >= BATCH:
            self._file.write(b"".join(parts))
            parts.clear()


class Connection(TcpConversation[int]):
    """One TCP connection to a port of the server. Side 0 opened it, side 1 is the server."""

    def __init__(self, recorder: Recorder, address: bytes, port: int, server_port: int) -> None:
        super().__init__(0, 1, (port * 60013 & 0xFFFFFFFF, port * 77003 & 0xFFFFFFFF))
        self.sent_bytes = 0
        self._recorder = recorder
        self._ends = (
            (address + SERVER, port, server_port),
            (SERVER + address, server_port, port),
        )
        recorder.written.connections += 1
        self.handshake()

    def send(self, side: int, data: bytes, answered: bool = False) -> None:
        """Segments of one side, and one acknowledgement for every two of them.

        The last segment gets none if it is `answered`: the answer acknowledges it.
        """
        for at in range(0, len(data), MSS):
            segment = data[at : at + MSS]
            last = at + MSS >= len(data)
            self.packet(side, PSH | ACK if last else ACK, segment)
            if at // MSS % 2 or (last and not answered):
                self.packet(1 - side, ACK)

    def emit(self, sender: int, flags: int, seq: int, ack: int, payload: bytes) -> None:
        addresses, source, target = self._ends[sender]
        recorder = self._recorder
        size, ticks = len(payload), recorder.now_us // 1000 & 0xFFFFFFFF
        self.sent_bytes += _HEADERS + size
        recorder.put(
            _PACKET.pack(
                *(_MACS, 0x0800, 0x45, 0, size + _HEADERS - 14, 1, 0x4000, 64, 6, 0, addresses),
                *(source, target, seq, ack, 0x80, flags, 65535, 0, 0),
                *(0x0101, 8, 10, ticks, ticks),
            )
            + payload
        )
