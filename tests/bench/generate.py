"""Captures of any size: `python -m tests.bench.generate FILE [PACKETS] [--repeating] [--loss SHARE] ...`.

One nats-server, its clients and one route, as tcpdump would have recorded them: publishers that write several
small messages at once; subscribers with and without a queue group; requests through one inbox per client, and
services that answer; JetStream publishers whose messages are stored and acknowledged, and consumers that
acknowledge each delivery; clients that leave and return from another port.

Nearly every subject, reply and payload size is new, as in requests and JetStream: a cache
of control lines finds nothing. `--repeating` writes the other extreme: telemetry on a few subjects with a few
sizes, in which most control lines have been seen before. `--jetstream` writes nothing but JetStream,
key-value buckets, object stores and services (see `jetstream_traffic`).

A million packets (about 600 MB) take some ten seconds. The same arguments give the same bytes. What is known
about the capture comes back as `Written`.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from tests.bench.jetstream_traffic import EXCHANGES
from tests.bench.recorder import Connection, Plan, Recorder, WrittenFile

OTHER_SERVER = b"\x0a\x00\x00\x02"
CLIENT_PORT, ROUTE_PORT = 4222, 6222
# Most messages are small; some do not fit into a segment.
SIZES = (16, 32, 64, 64, 128, 128, 256, 256, 512, 512, 512, 800, 1024, 1024, 1400, 1600, 4096)
SUBJECTS = [
    f"{area}.{region}.{verb}".encode()
    for area in ("orders", "stock", "payments", "telemetry")
    for region in ("eu", "us", "asia")
    for verb in ("created", "changed", "gone")
]


class Client:
    """A client: its connection, its role, and the subjects it listens to."""

    def __init__(self, traffic: Traffic, role: str, number: int) -> None:
        self.role, self.number = role, number
        self.repeating = traffic.plan.repeating
        self.inbox = b"_INBOX.%022d" % number
        self.asked = 0
        # The sids of the service and of the inbox follow those of SUBJECTS.
        first = len(SUBJECTS) if role == "all" else 0
        self.service_sid, self.inbox_sid = first + 1, first + 1 + (role == "all")
        self.connect(traffic)

    def connect(self, traffic: Traffic) -> None:
        """Opens a connection, greets and subscribes."""
        port = 20_000 + (self.number * 997 + traffic.recorder.written.connections * 13) % 40_000
        address = b"\x0a\x00\x01" + bytes([self.number % 250 + 1])
        connection = Connection(traffic.recorder, address, port, CLIENT_PORT)
        self.connection = connection
        connection.send(1, _info(self.number), answered=True)
        connection.send(
            0,
            b'CONNECT {"verbose":false,"pedantic":false,"lang":"go","version":"1.37.0","protocol":1,'
            b'"headers":true,"no_responders":true,"name":"%b-%d"}\r\nPING\r\n'
            % (self.role.encode(), self.number),
            answered=True,
        )
        connection.send(1, b"PONG\r\n")
        subscriptions = list(self._subscriptions())
        if subscriptions:
            connection.send(0, b"".join(subscriptions))
        traffic.count(INFO=1, CONNECT=1, PING=1, PONG=1, SUB=len(subscriptions))

    def _subscriptions(self) -> Iterator[bytes]:
        rest = b"" if self.repeating else b".*"
        if self.role in ("reader", "all"):
            for sid, subject in enumerate(SUBJECTS, 1):
                queue = b"workers " if self.number % 2 else b""
                yield b"SUB %b%b %b%d\r\n" % (subject, rest, queue, sid)
        if self.role in ("service", "all"):
            yield b"SUB svc.*.%d%b services %d\r\n" % (self.number, rest, self.service_sid)
        if self.role in ("caller", "all") or (self.role == "sender" and not self.repeating):
            yield b"SUB %b.* %d\r\n" % (self.inbox, self.inbox_sid)


class Traffic:
    """Clients that talk to each other until there are enough packets."""

    def __init__(self, file: BinaryIO, plan: Plan) -> None:
        self.plan = plan
        self._rng = random.Random(plan.seed)
        self.recorder = Recorder(file, plan, self._rng)
        text = b'{"id": 1234567, "state": "changed", "items": [1, 2, 3], "note": "as agreed"}, '
        # Half text, half bytes of any value: payloads are slices of it.
        self._pool = text * 100 + self._rng.randbytes(len(text) * 100)
        self._tokens = 0
        self._stored = 0
        roles = ("sender", "reader", "caller", "service")
        clients = [
            Client(self, roles[number % 4], number) for number in range(max(4, plan.clients))
        ]
        self._of = {role: [each for each in clients if each.role == role] for role in roles}
        self._clients = clients
        self._route = self._open_route()
        self._carriers = [
            Client(self, "all", len(clients) + number)
            for number in range(plan.equal if plan.heavy else 0)
        ]
        self._carrier: Client | None = None  # plays every role of the next exchange

    def tell(self, **rows: int) -> None:
        """Adds rows, by table, to those that the tables above the frames should have."""
        self.recorder.written.rows.update(rows)

    def count(self, **frames: int) -> None:
        """Adds frames, by operation, to those that were sent."""
        self.recorder.written.frames.update({op: n for op, n in frames.items() if n})

    def run(self) -> WrittenFile:
        """Writes the whole capture."""
        written, rng = self.recorder.written, self._rng
        exchanges: Sequence[Callable[[], None]] = (
            (*[self._publish] * 6, self._request, self._relay)
            if self.plan.repeating
            else (*[self._publish] * 3, *[self._request] * 2, *[self._store] * 2, self._relay)
        )
        if self.plan.jetstream:
            exchanges = [partial(exchange, self) for exchange in EXCHANGES]
        while written.packets < self.plan.packets:
            self._carrier = self._next_carrier()
            rng.choice(exchanges[:-1] if self._carrier else exchanges)()
            if rng.random() < 0.0003:
                self._leave_and_return()
        for client in self._clients[::2]:
            client.connection.close()
        self.recorder.close()
        return written

    def _next_carrier(self) -> Client | None:
        """The heavy connection with the fewest bytes, while all of them have less than their share."""
        carried = sum(client.connection.sent_bytes for client in self._carriers)
        if carried >= self.plan.heavy * self.recorder.sent_bytes:
            return None
        return min(self._carriers, key=lambda client: client.connection.sent_bytes)

    def clients_for(self, *roles: str) -> list[Client]:
        """One client for each role."""
        if self._carrier:
            return [self._carrier] * len(roles)
        return [self._rng.choice(self._of[role]) for role in roles]

    def token(self) -> bytes:
        """A subject token or reply suffix that was not used before."""
        self._tokens += 1
        return b"%08x" % (self._tokens * 2654435761 & 0xFFFFFFFF)

    def _subject(self, number: int) -> bytes:
        return SUBJECTS[number] if self.plan.repeating else SUBJECTS[number] + b"." + self.token()

    def body(self) -> bytes:
        size = self._rng.choice(SIZES)
        if not self.plan.repeating:
            size = self._rng.randrange(size // 2, size * 3 // 2)
        at = self._rng.randrange(len(self._pool) - size)
        return self._pool[at : at + size]

    def one_in(self, count: int) -> bool:
        """True once in so many calls, at random."""
        return not self._rng.randrange(count)

    def next_seq(self) -> int:
        """The next sequence of a stream."""
        self._stored += 1
        return self._stored

    def new_reply(self, client: Client) -> bytes:
        """A reply subject of the client's inbox."""
        return b"%b.%b" % (client.inbox, self.token())

    def messages(self) -> list[tuple[int, bytes, bytes]]:
        """Messages for one write: the sid of their subscription, their subject and their payload."""
        rng, found = self._rng, []
        for _ in range(rng.choice((1, 1, 2, 3, 4, 5, 8))):
            number = rng.randrange(len(SUBJECTS))
            found.append((number + 1, self._subject(number), self.body()))
        return found

    def _publish(self) -> None:
        messages = self.messages()
        with_headers = not self._rng.randrange(10)
        sender, reader = self.clients_for("sender", "reader")
        published, delivered = [], []
        for sid, subject, body in messages:
            size = len(body)
            if with_headers:
                trace = b"%016x" % size if self.plan.repeating else self.token()
                block = b"NATS/1.0\r\nTrace-Id: %b\r\nContent-Type: json\r\n\r\n" % trace
                rest = b"%d %d\r\n%b%b\r\n" % (len(block), len(block) + size, block, body)
                published.append(b"HPUB %b %b" % (subject, rest))
                delivered.append(b"HMSG %b %d %b" % (subject, sid, rest))
            else:
                published.append(b"PUB %b %d\r\n%b\r\n" % (subject, size, body))
                delivered.append(b"MSG %b %d %d\r\n%b\r\n" % (subject, sid, size, body))
        sender.connection.send(0, b"".join(published))
        reader.connection.send(1, b"".join(delivered))
        h = "H" if with_headers else ""
        self.count(**{f"{h}PUB": len(messages), f"{h}MSG": len(messages)})

    def _request(self) -> None:
        caller, service = self.clients_for("caller", "service")
        caller.asked += 1
        subject, suffix = b"svc.get.%d" % service.number, b"%x" % caller.asked
        if not self.plan.repeating:
            subject, suffix = subject + b"." + self.token(), self.token()
        reply = caller.inbox + b"." + suffix
        request, response = self.body(), self.body()
        _publish_to(caller, subject, request, reply)
        _deliver(service, service.service_sid, subject, request, reply, answered=True)
        service.connection.send(0, b"PUB %b %d\r\n%b\r\n" % (reply, len(response), response))
        _deliver(caller, caller.inbox_sid, reply, response)
        self.count(PUB=2, MSG=2)

    def _store(self) -> None:
        """JetStream: a publisher waits for each PubAck, and a push consumer acknowledges each delivery."""
        sender, reader = self.clients_for("sender", "reader")
        acks = []
        for sid, subject, body in self.messages()[:4]:
            self._stored += 1
            reply = b"%b.%b" % (sender.inbox, self.token())
            _publish_to(sender, subject, body, reply)
            stored = b'{"stream":"EVENTS","seq":%d}' % self._stored
            _deliver(sender, sender.inbox_sid, reply, stored)
            # Stream, consumer, deliveries, stream and consumer sequence, time, pending.
            ack = b"$JS.ACK.EVENTS.workers-%d.1.%d.%d.%d.0" % (
                *(reader.number, self._stored, self._stored),
                self.recorder.now_us * 1000,
            )
            _deliver(reader, sid, subject, body, ack, answered=True)
            acks.append(b"PUB %b 4\r\n+ACK\r\n" % ack)
        reader.connection.send(0, b"".join(acks))
        self.count(PUB=2 * len(acks), MSG=2 * len(acks))

    def _relay(self) -> None:
        messages = self.messages()
        relayed = (
            b"RMSG $G %b %d\r\n%b\r\n" % (subject, len(body), body) for _, subject, body in messages
        )
        self._route.send(self._rng.randrange(2), b"".join(relayed))
        self.count(RMSG=len(messages))

    def _leave_and_return(self) -> None:
        client = self._rng.choice(self._clients)
        client.connection.close()
        client.connect(self)

    def _open_route(self) -> Connection:
        """A route of a server before 2.10, which is not pooled."""
        route = Connection(self.recorder, OTHER_SERVER, 51_234, ROUTE_PORT)
        info = (
            b'INFO {"server_id":"%b","server_name":"%b","version":"2.9.10","proto":2,"go":"go1.19.8",'
            b'"host":"0.0.0.0","port":6222,"headers":true,"max_payload":1048576,"cluster":"bench",'
            b'"lnoc":true}\r\n'
        )
        route.send(1, info % (b"NA" * 28, b"bench-1"), answered=True)
        connect = b'CONNECT {"echo":true,"verbose":false,"headers":true,"name":"%b","cluster":"bench"}\r\n'
        route.send(0, connect % (b"NB" * 28) + info % (b"NB" * 28, b"bench-2"))
        rest = b"" if self.plan.repeating else b".*"
        for side in (0, 1):
            route.send(side, b"".join(b"RS+ $G %b%b\r\n" % (each, rest) for each in SUBJECTS))
        self.count(INFO=2, CONNECT=1, **{"RS+": 2 * len(SUBJECTS)})
        return route


def _info(client: int) -> bytes:
    return (
        b'INFO {"server_id":"NBXB73UXMI6PYPJ6M2NYD5FEBXX2NX3EYSUCW5UDKWHEXFGSFMAEJ42D","server_name":'
        b'"bench","version":"2.15.1","proto":1,"go":"go1.27.2","host":"0.0.0.0","port":4222,"headers":'
        b'true,"max_payload":1048576,"client_id":%d,"client_ip":"10.0.1.1"} \r\n' % client
    )


def _publish_to(client: Client, subject: bytes, body: bytes, reply: bytes) -> None:
    """A PUB with a reply subject, which the server's answer acknowledges."""
    line = b"PUB %b %b %d\r\n" % (subject, reply, len(body))
    client.connection.send(0, line + body + b"\r\n", answered=True)


def _deliver(
    client: Client,
    sid: int,
    subject: bytes,
    body: bytes,
    reply: bytes = b"",
    answered: bool = False,
) -> None:
    """A MSG to a subscriber."""
    line = b"MSG %b %d %b%d\r\n" % (subject, sid, reply and reply + b" ", len(body))
    client.connection.send(1, line + body + b"\r\n", answered)


def write(file: BinaryIO, plan: Plan) -> WrittenFile:
    """Writes a capture of that many packets, or a few more: the last exchange is completed."""
    return Traffic(file, plan).run()


def write_file(path: Path, plan: Plan) -> WrittenFile:
    """Writes a capture to a file."""
    with path.open("wb") as file:
        return write(file, plan)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.generate", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("packets", nargs="?", type=int, default=Plan().packets)
    parser.add_argument("--repeating", action="store_true")
    parser.add_argument("--jetstream", action="store_true")
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
