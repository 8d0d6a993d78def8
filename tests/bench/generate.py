"""Captures of any size: `python -m tests.bench.generate FILE [PACKETS] [--seed S] [--loss SHARE] ...`.

One nats-server, its clients and one route, as tcpdump would have recorded them: publishers that write several
small messages at once, subscribers with and without a queue group, requests through one inbox a client,
services that answer, clients that leave and come back on another port; acks, TCP timestamps, segments of at
most 1448 bytes. Written as a stream, a million packets (740 MB) in some ten seconds; the same for the same
arguments. What is known about the capture comes back as `Written`.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

FIN, SYN, PSH, ACK = 1, 2, 8, 16
MSS = 1448
START_US = 1_750_000_000_000_000
SERVER, OTHER_SERVER = b"\x0a\x00\x00\x01", b"\x0a\x00\x00\x02"
CLIENT_PORT, ROUTE_PORT = 4222, 6222
# Most messages are small; some do not fit into a segment.
SIZES = (16, 32, 64, 64, 128, 128, 256, 256, 512, 512, 512, 800, 1024, 1024, 1400, 1600, 4096)
SUBJECTS = [
    f"{area}.{region}.{verb}".encode()
    for area in ("orders", "stock", "payments", "telemetry")
    for region in ("eu", "us", "asia")
    for verb in ("created", "changed", "gone")
]
BATCH = 2048

_FILE_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
_RECORD = struct.Struct("<4I")
# Ethernet with its type, IPv4, TCP with a timestamp option.
_PACKET = struct.Struct("!12sH BBHHHBBH8s HHIIBBHHH HBBII")
_HEADERS = _PACKET.size
_MACS = bytes.fromhex("020000000002020000000001")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write. `loss`, `reordered` and `duplicated` are shares of the packets with payload: lost by
    who captured, not by the network. `heavy` is the share of all bytes that `equal` connections carry, each
    as much as the others; who is on them talks to itself, what is said is of the same kinds."""

    packets: int = 1_000_000
    seed: int = 1
    clients: int = 24
    loss: float = 0.0
    reordered: float = 0.0
    duplicated: float = 0.0
    heavy: float = 0.0
    equal: int = 1


@dataclass(slots=True)
class Written:
    """What is in the capture: `frames` counts operations as they were sent, lost ones included."""

    packets: int = 0
    file_bytes: int = len(_FILE_HEADER)
    lost: int = 0
    connections: int = 0
    frames: Counter[str] = field(default_factory=Counter)

    @property
    def messages(self) -> int:
        return sum(self.frames[op] for op in ("PUB", "HPUB", "MSG", "HMSG", "RMSG"))


class _Recorder:
    """Takes packets, does what the plan says to them, writes records."""

    def __init__(self, file: BinaryIO, plan: Plan, dice: random.Random) -> None:
        self.written = Written()
        self.now_us = START_US
        self.sent_bytes = 0
        self._file = file
        self._plan = plan
        self._dice = dice
        self._harmful = bool(plan.loss or plan.reordered or plan.duplicated)
        self._parts: list[bytes] = [_FILE_HEADER]
        self._late: list[bytes] = []

    def put(self, packet: bytes) -> None:
        self.now_us += 5 + (len(packet) & 31)
        self.sent_bytes += len(packet)
        if self._harmful and len(packet) > _HEADERS:
            chance = self._dice.random()
            if chance < self._plan.loss:
                self.written.lost += 1
                return
            chance -= self._plan.loss
            if chance < self._plan.reordered:
                self._late.append(packet)
                return
            if chance < self._plan.reordered + self._plan.duplicated:
                self._record(packet)
        self._record(packet)
        if self._late and self._dice.random() < 0.5:
            self._release()

    def close(self) -> None:
        self._release()
        self._file.write(b"".join(self._parts))

    def _release(self) -> None:
        late, self._late = self._late, []
        for packet in late:
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


class _Connection:
    """One TCP connection to `port` of the server. A side is 0 for who opened it, or 1."""

    def __init__(self, recorder: _Recorder, address: bytes, port: int, to: int) -> None:
        self.sent_bytes = 0
        self._recorder = recorder
        self._ends = ((address + SERVER, port, to), (SERVER + address, to, port))
        self._next = [port * 60013 & 0xFFFFFFFF, port * 77003 & 0xFFFFFFFF]
        recorder.written.connections += 1
        self._packet(0, SYN)
        self._packet(1, SYN | ACK)
        self._packet(0, ACK)

    def say(self, side: int, wire: bytes, answered: bool = False) -> None:
        """Bytes of one side and the acks they get, one for two segments; none where an answer follows."""
        for at in range(0, len(wire), MSS):
            piece = wire[at : at + MSS]
            last = at + MSS >= len(wire)
            self._packet(side, PSH | ACK if last else ACK, piece)
            if at // MSS % 2 or (last and not answered):
                self._packet(1 - side, ACK)

    def close(self) -> None:
        self._packet(0, FIN | ACK)
        self._packet(1, FIN | ACK)
        self._packet(0, ACK)

    def _packet(self, side: int, flags: int, data: bytes = b"") -> None:
        addresses, source, target = self._ends[side]
        numbers, recorder = self._next, self._recorder
        size, ticks = len(data), recorder.now_us // 1000 & 0xFFFFFFFF
        self.sent_bytes += _HEADERS + size
        ack = numbers[1 - side] if flags & ACK else 0
        recorder.put(
            _PACKET.pack(
                *(_MACS, 0x0800, 0x45, 0, size + _HEADERS - 14, 1, 0x4000, 64, 6, 0, addresses),
                *(source, target, numbers[side], ack, 0x80, flags, 65535, 0, 0),
                *(0x0101, 8, 10, ticks, ticks),
            )
            + data
        )
        numbers[side] = numbers[side] + size + (1 if flags & (SYN | FIN) else 0) & 0xFFFFFFFF


class _Client:
    """A client: its connection, and what it needs to speak on it."""

    def __init__(self, traffic: _Traffic, role: str, number: int) -> None:
        self.role, self.number = role, number
        self.inbox = b"_INBOX.%022d" % number
        self.asked = 0
        # The sids of what it answers and of its inbox.
        first = len(SUBJECTS) if role == "all" else 0
        self.service_sid, self.inbox_sid = first + 1, first + 1 + (role == "all")
        self.connect(traffic)

    def connect(self, traffic: _Traffic) -> None:
        port = 20_000 + (self.number * 997 + traffic.recorder.written.connections * 13) % 40_000
        address = b"\x0a\x00\x01" + bytes([self.number % 250 + 1])
        talk = self.talk = _Connection(traffic.recorder, address, port, CLIENT_PORT)
        talk.say(1, traffic.info(self.number), answered=True)
        talk.say(
            0,
            b'CONNECT {"verbose":false,"pedantic":false,"lang":"go","version":"1.37.0","protocol":1,'
            b'"headers":true,"no_responders":true,"name":"%b-%d"}\r\nPING\r\n'
            % (self.role.encode(), self.number),
            answered=True,
        )
        talk.say(1, b"PONG\r\n")
        subscribed = list(self._subscriptions())
        if subscribed:
            talk.say(0, b"".join(subscribed))
        traffic.count(INFO=1, CONNECT=1, PING=1, PONG=1, SUB=len(subscribed))

    def _subscriptions(self) -> Iterator[bytes]:
        if self.role in ("reader", "all"):
            for sid, subject in enumerate(SUBJECTS, 1):
                queue = b"workers " if self.number % 2 else b""
                yield b"SUB %b %b%d\r\n" % (subject, queue, sid)
        if self.role in ("service", "all"):
            yield b"SUB svc.*.%d services %d\r\n" % (self.number, self.service_sid)
        if self.role in ("caller", "all"):
            yield b"SUB %b.* %d\r\n" % (self.inbox, self.inbox_sid)


class _Traffic:
    """Who talks to whom, until there are enough packets."""

    def __init__(self, file: BinaryIO, plan: Plan) -> None:
        self._dice = random.Random(plan.seed)
        self._plan = plan
        self.recorder = _Recorder(file, plan, self._dice)
        text = b'{"id": 1234567, "state": "changed", "items": [1, 2, 3], "note": "as agreed"}, '
        # Half text, half bytes of any value: payloads are slices of it.
        self._pool = text * 100 + self._dice.randbytes(len(text) * 100)
        roles = ("sender", "reader", "caller", "service")
        clients = [
            _Client(self, roles[number % 4], number) for number in range(max(4, plan.clients))
        ]
        self._of = {role: [each for each in clients if each.role == role] for role in roles}
        self._clients = clients
        self._route = self._open_route()
        self._carriers = [
            _Client(self, "all", len(clients) + number)
            for number in range(plan.equal if plan.heavy else 0)
        ]
        self._carrier: _Client | None = None  # who does all of the next act

    def count(self, **frames: int) -> None:
        self.recorder.written.frames.update({op: n for op, n in frames.items() if n})

    def info(self, client: int) -> bytes:
        return (
            b'INFO {"server_id":"NBXB73UXMI6PYPJ6M2NYD5FEBXX2NX3EYSUCW5UDKWHEXFGSFMAEJ42D","server_name":'
            b'"bench","version":"2.15.1","proto":1,"go":"go1.27.2","host":"0.0.0.0","port":4222,"headers":'
            b'true,"max_payload":1048576,"client_id":%d,"client_ip":"10.0.1.1"} \r\n' % client
        )

    def run(self) -> Written:
        written, dice = self.recorder.written, self._dice
        acts = (*[self._publish] * 6, self._request, self._relay)
        while written.packets < self._plan.packets:
            self._carrier = self._due()
            dice.choice(acts[:-1] if self._carrier else acts)()
            if dice.random() < 0.0003:
                self._leave_and_return()
        for client in self._clients[::2]:
            client.talk.close()
        self.recorder.close()
        return written

    def _due(self) -> _Client | None:
        """Who has carried least, while all carriers have less than their share."""
        carried = sum(client.talk.sent_bytes for client in self._carriers)
        if carried >= self._plan.heavy * self.recorder.sent_bytes:
            return None
        return min(self._carriers, key=lambda client: client.talk.sent_bytes)

    def _pair(self, *roles: str) -> list[_Client]:
        """Somebody for each role."""
        if self._carrier:
            return [self._carrier] * len(roles)
        return [self._dice.choice(self._of[role]) for role in roles]

    def _body(self) -> bytes:
        size = self._dice.choice(SIZES)
        at = self._dice.randrange(len(self._pool) - size)
        return self._pool[at : at + size]

    def _messages(self) -> list[tuple[int, bytes]]:
        """Some for one write: which subject, and the payload."""
        dice = self._dice
        count = dice.choice((1, 1, 2, 3, 4, 5, 8))
        return [(dice.randrange(len(SUBJECTS)), self._body()) for _ in range(count)]

    def _publish(self) -> None:
        messages = self._messages()
        with_headers = not self._dice.randrange(10)
        sender, reader = self._pair("sender", "reader")
        out, to = [], []
        for subject, body in messages:
            name, size = SUBJECTS[subject], len(body)
            if with_headers:
                block = b"NATS/1.0\r\nTrace-Id: %016x\r\nContent-Type: json\r\n\r\n" % size
                sizes = b"%d %d\r\n%b%b\r\n" % (len(block), len(block) + size, block, body)
                out.append(b"HPUB %b %b" % (name, sizes))
                to.append(b"HMSG %b %d %b" % (name, subject + 1, sizes))
            else:
                out.append(b"PUB %b %d\r\n%b\r\n" % (name, size, body))
                to.append(b"MSG %b %d %d\r\n%b\r\n" % (name, subject + 1, size, body))
        sender.talk.say(0, b"".join(out))
        reader.talk.say(1, b"".join(to))
        h = "H" if with_headers else ""
        self.count(**{f"{h}PUB": len(messages), f"{h}MSG": len(messages)})

    def _request(self) -> None:
        caller, service = self._pair("caller", "service")
        caller.asked += 1
        subject, reply = b"svc.get.%d" % service.number, b"%b.%x" % (caller.inbox, caller.asked)
        asked, told = self._body(), self._body()
        caller.talk.say(0, b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(asked), asked), True)
        heard = subject, service.service_sid, reply, len(asked), asked
        service.talk.say(1, b"MSG %b %d %b %d\r\n%b\r\n" % heard, True)
        service.talk.say(0, b"PUB %b %d\r\n%b\r\n" % (reply, len(told), told))
        answer = reply, caller.inbox_sid, len(told), told
        caller.talk.say(1, b"MSG %b %d %d\r\n%b\r\n" % answer)
        self.count(PUB=2, MSG=2)

    def _relay(self) -> None:
        messages = self._messages()
        out = (
            b"RMSG $G %b %d\r\n%b\r\n" % (SUBJECTS[subject], len(body), body)
            for subject, body in messages
        )
        self._route.say(self._dice.randrange(2), b"".join(out))
        self.count(RMSG=len(messages))

    def _leave_and_return(self) -> None:
        client = self._dice.choice(self._clients)
        client.talk.close()
        client.connect(self)

    def _open_route(self) -> _Connection:
        """A route of a server before 2.10, which is not pooled."""
        route = _Connection(self.recorder, OTHER_SERVER, 51_234, ROUTE_PORT)
        info = (
            b'INFO {"server_id":"%b","server_name":"%b","version":"2.9.10","proto":2,"go":"go1.19.8",'
            b'"host":"0.0.0.0","port":6222,"headers":true,"max_payload":1048576,"cluster":"bench",'
            b'"lnoc":true}\r\n'
        )
        route.say(1, info % (b"NA" * 28, b"bench-1"), answered=True)
        connect = b'CONNECT {"echo":true,"verbose":false,"headers":true,"name":"%b","cluster":"bench"}\r\n'
        route.say(0, connect % (b"NB" * 28) + info % (b"NB" * 28, b"bench-2"))
        for side in (0, 1):
            route.say(side, b"".join(b"RS+ $G %b\r\n" % subject for subject in SUBJECTS))
        self.count(INFO=2, CONNECT=1, **{"RS+": 2 * len(SUBJECTS)})
        return route


def write(file: BinaryIO, plan: Plan) -> Written:
    """Writes a capture of that many packets, or up to some twenty more."""
    return _Traffic(file, plan).run()


def write_file(path: Path, plan: Plan) -> Written:
    """The same, to a file."""
    with path.open("wb") as file:
        return write(file, plan)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.generate", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("packets", nargs="?", type=int, default=Plan().packets)
    for name in ("seed", "clients", "loss", "reordered", "duplicated", "heavy", "equal"):
        default = getattr(Plan(), name)
        parser.add_argument(f"--{name}", type=type(default), default=default)
    chosen = vars(parser.parse_args(arguments))
    written = write_file(chosen.pop("file"), Plan(**chosen))
    print(
        f"{written.packets} packets, {written.file_bytes / 1e6:.0f} MB, {written.messages} messages "
        f"({written.messages / written.packets:.2f} a packet), {written.connections} connections, "
        f"{written.lost} lost"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
