"""Subject mappings, stream imports and service imports of a real server: the way of each message.

The clients are plain sockets, each on the account of a user; what they send and get becomes a capture, in
the order in which it happened.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

import pytest

from dissect.nats.application.paths.rows import PathRecord
from dissect.nats.pipeline import records

from tests.support.pcapwriter import ACK, START_NS, SYN, Conversation, pcap_file
from tests.support.servers import NatsServer, require_server

CONFIG = """
accounts {
  SHOP: {
    users: [ { user: shop, password: pw } ]
    mappings: { "old.orders": [ { destination: new.a, weight: 50% }, { destination: new.b, weight: 50% } ] }
    exports: [ { service: help }, { stream: "news.>" } ]
  }
  DESK: {
    users: [ { user: desk, password: pw } ]
    imports: [
      { service: { account: SHOP, subject: help }, to: shop.help }
      { stream: { account: SHOP, subject: "news.>" }, prefix: imported }
    ]
  }
}
"""
TURN_NS = 10_000_000
TIMEOUT = 20.0


class Peer:
    """A client on a socket. Its packets are a turn of the clock each, as the clock goes for all peers."""

    def __init__(self, server: NatsServer, user: str, clock: Iterator[int], port: int) -> None:
        self._socket = socket.create_connection((server.host, server.port), TIMEOUT)
        self._clock = clock
        self._got = b""
        self.conversation = Conversation(("10.0.0.1", port))
        self._emit(self.conversation.client, SYN)
        self._emit(self.conversation.server, SYN | ACK)
        self._emit(self.conversation.client, ACK)
        self.until(rb"INFO [^\n]*\n")
        login = {"user": user, "pass": "pw", "verbose": False, "headers": True, "protocol": 1}
        self.send(b"CONNECT " + json.dumps(login).encode() + b"\r\nPING\r\n")
        self.until(rb"PONG\r\n")

    def _emit(self, sender: tuple[str, int], flags: int, data: bytes = b"") -> None:
        self.conversation.now_ns = START_NS + next(self._clock) * TURN_NS
        self.conversation.packet(sender, flags, data)

    def send(self, data: bytes) -> None:
        """Sends frames."""
        self._emit(self.conversation.client, ACK, data)
        self._socket.sendall(data)

    def pub(self, subject: str, body: bytes, reply: str = "") -> None:
        """Publishes."""
        self.send(f"PUB {subject} {reply} {len(body)}\r\n".encode() + body + b"\r\n")

    def until(self, wanted: bytes) -> re.Match[bytes]:
        """Reads until this came, which is then used up."""
        while (found := re.search(wanted, self._got, re.DOTALL)) is None:
            data = self._socket.recv(65536)
            assert data, self._got
            self._emit(self.conversation.server, ACK, data)
            self._got += data
        self._got = self._got[found.end() :]
        return found

    def sub(self, *subjects: str) -> None:
        """Subscribes; the server knows of it when this returns."""
        lines = [f"SUB {subject} {sid}\r\n" for sid, subject in enumerate(subjects, 1)]
        self.send("".join(lines).encode() + b"PING\r\n")
        self.until(rb"PONG\r\n")

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()


@contextmanager
def peers(*users: str) -> Iterator[list[Peer]]:
    """Clients of one server."""
    require_server("current")
    clock = count()
    with ExitStack() as stack:
        server = stack.enter_context(NatsServer(CONFIG))
        found = []
        for port, user in enumerate(users, 40_000):
            found.append(Peer(server, user, clock, port))
            stack.callback(found[-1].close)
        yield found


def ways(tmp_path: Path, found: list[Peer]) -> dict[str, list[list[tuple[str, str | None]]]]:
    """Subject of a publication -> the subjects of the hops of each, and what they were matched by."""
    path = tmp_path / "seen.pcap"
    packets = [record for peer in found for record in peer.conversation.records]
    path.write_bytes(pcap_file(sorted(packets, key=lambda record: record.ts_ns)))
    rows: dict[str, list[PathRecord]] = {}
    for row in records([str(path)], ["paths"]):
        assert isinstance(row, PathRecord)
        rows.setdefault(row.message, []).append(row)
    made: dict[str, list[list[tuple[str, str | None]]]] = {}
    for each in rows.values():
        each.sort(key=lambda row: row.hop)
        hops = [(row.subject, row.matched_by) for row in each[1:]]
        made.setdefault(each[0].subject, []).append(hops)
    return made


def test_a_weighted_mapping(tmp_path: Path) -> None:
    with peers("shop", "shop") as (publisher, reader):
        reader.sub("new.*")
        truth = []
        for number in range(8):
            body = b"order %02d of two teas" % number
            publisher.pub("old.orders", body)
            match = reader.until(rb"MSG (new\.[ab]) 1 \d+\r\n" + body + rb"\r\n")
            truth.append([(match[1].decode(), "mapped")])
        publisher.pub("old.orders", b"7")  # too short to be told from others by its bytes
        reader.until(rb"\r\n7\r\n")
        for _ in range(2):  # equal ones, which go here or there
            publisher.pub("old.orders", b"an order of two teas")
            reader.until(rb"an order of two teas\r\n")
        assert ways(tmp_path, [publisher, reader])["old.orders"] == [*truth, [], [], []]


def test_a_stream_import_with_a_prefix(tmp_path: Path) -> None:
    with peers("shop", "shop", "desk") as (publisher, reader, other):
        reader.sub("news.>")
        other.sub("imported.news.>")
        publisher.pub("news.tea", b"the tea is ready")
        for each in (reader, other):
            each.until(rb"the tea is ready\r\n")
        made = ways(tmp_path, [publisher, reader, other])
        assert made == {"news.tea": [[("news.tea", "unique"), ("imported.news.tea", "mapped")]]}


def test_a_service_import_and_its_answer(tmp_path: Path) -> None:
    with peers("shop", "desk") as (service, asking):
        service.sub("help")
        asking.sub("_INBOX.me.*")
        for number in (b"1", b"2"):
            asking.pub("shop.help", b"help " + number, f"_INBOX.me.{number.decode()}")
            match = service.until(rb"MSG help 1 (_R_\.\S+) .*?\r\nhelp .\r\n")
            service.pub(match[1].decode(), b"the answer " + number)
            asking.until(rb"the answer .\r\n")
        made = ways(tmp_path, [service, asking])
        assert made.pop("shop.help") == [[("help", "mapped")], [("help", "mapped")]]
        answers = sorted(hops for each in made.values() for hops in each)
        assert answers == [[("_INBOX.me.1", "mapped")], [("_INBOX.me.2", "mapped")]]


@pytest.mark.parametrize("answer", [b"ok", b"", b"the same answer"])
def test_equal_or_short_answers_of_a_service_import_go_where_their_requests_came_from(
    tmp_path: Path, answer: bytes
) -> None:
    with peers("shop", "desk", "desk") as (service, asking, other):
        service.sub("help")
        for each in (asking, other):
            each.sub("_INBOX.me.*" if each is asking else "_INBOX.you.*")
        for number in (b"1", b"2", b"3"):
            for each, name in ((asking, "me"), (other, "you")):
                question = b"help %b for %b" % (number, name.encode())
                each.pub("shop.help", question, f"_INBOX.{name}.{number.decode()}")
                match = service.until(rb"MSG help 1 (_R_\.\S+) .*?\r\nhelp [^\r]*\r\n")
                service.pub(match[1].decode(), answer)
                each.until(
                    rb"MSG _INBOX\.%b\.%b [^\r]*\r\n%b\r\n" % (name.encode(), number, answer)
                )
        made = ways(tmp_path, [service, asking, other])
        made.pop("shop.help")
        inboxes = [f"_INBOX.{name}.{number}" for name in ("me", "you") for number in (1, 2, 3)]
        answers = sorted(hops for each in made.values() for hops in each)
        assert answers == [[(inbox, "mapped")] for inbox in inboxes]


def test_equal_answers_to_one_request_are_not_told_apart(tmp_path: Path) -> None:
    with peers("shop", "desk") as (service, asking):
        service.sub("help")
        asking.sub("_INBOX.me.*")
        asking.pub("shop.help", b"a question", "_INBOX.me.1")
        match = service.until(rb"MSG help 1 (_R_\.\S+) .*?\r\na question\r\n")
        for _ in range(2):
            service.pub(match[1].decode(), b"ok")
        asking.until(rb"\r\nok\r\n")
        made = ways(tmp_path, [service, asking])
        assert made.pop("shop.help") == [[("help", "mapped")]]
        assert [*made.values()] == [[[], []]]


def test_what_somebody_publishes_again_is_a_message_of_its_own(tmp_path: Path) -> None:
    with peers("shop", "shop", "shop") as (publisher, between, reader):
        between.sub("in")
        reader.sub("out")
        publisher.pub("in", b"the same bytes")
        between.until(rb"the same bytes\r\n")
        between.pub("out", b"the same bytes")
        reader.until(rb"the same bytes\r\n")
        made = ways(tmp_path, [publisher, between, reader])
        assert made == {"in": [[("in", "unique")]], "out": [[("out", "unique")]]}


@pytest.mark.parametrize("captured", ["all", "not the service"])
def test_a_service_in_another_account_that_is_not_seen_invents_nothing(
    tmp_path: Path, captured: str
) -> None:
    with peers("shop", "desk") as (service, asking):
        service.sub("help")
        asking.sub("_INBOX.me.*")
        asking.pub("shop.help", b"help", "_INBOX.me.1")
        match = service.until(rb"MSG help 1 (_R_\.\S+) .*?\r\nhelp\r\n")
        service.pub(match[1].decode(), b"an answer")
        asking.until(rb"an answer\r\n")
        made = ways(tmp_path, [service, asking] if captured == "all" else [asking])
        assert sum(bool(hops) for each in made.values() for hops in each) == (captured == "all") * 2
