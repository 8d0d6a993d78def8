"""A connection of the in-memory server, byte by byte."""

from __future__ import annotations

import pytest

from natsync.protocol import ServerInfo
from natsync.testing.memory.router import Interest, Message, Router
from natsync.testing.memory.session import Session, login


class Client:
    """What a client sends and gets."""

    def __init__(self, router: Router, connect: bytes = b"{}") -> None:
        self.got = b""
        self.ended = False
        self.session = Session(router, ServerInfo(), login(None, {}), self._take, self._end)
        self.got = b""  # without INFO
        self.send(b"CONNECT %b\r\n" % connect)

    def send(self, data: bytes) -> bytes:
        """Returns what came for it."""
        before = len(self.got)
        self.session.feed(data)
        return self.got[before:]

    def _take(self, data: bytes) -> None:
        self.got += data

    def _end(self) -> None:
        self.ended = True


QUIET = b'{"verbose":false,"headers":true,"no_responders":true}'


def test_a_verbose_client_hears_of_everything() -> None:
    client = Client(Router(), b'{"verbose":true}')
    assert client.got == b"+OK\r\n"
    assert client.send(b"SUB a 1\r\n") == b"+OK\r\n"
    assert client.send(b"PUB a 1\r\nx\r\n") == b"+OK\r\nMSG a 1 1\r\nx\r\n"
    assert client.send(b"PING\r\nUNSUB 1\r\n") == b"PONG\r\n+OK\r\n"


def test_a_subscription_ends_after_so_many() -> None:
    client = Client(Router(), QUIET)
    client.send(b"SUB a 1\r\nUNSUB 1 2\r\n")
    assert client.send(b"PUB a 1\r\n1\r\n" * 3).count(b"MSG a 1 1") == 2
    assert client.send(b"SUB b 2\r\nSUB b 2\r\nPUB b 1\r\n1\r\n").count(b"MSG") == 1
    assert client.send(b"UNSUB 2 1\r\nPUB b 1\r\n1\r\n") == b""


def test_nobody_listens() -> None:
    router = Router()
    client = Client(router, QUIET)
    assert client.send(b"SUB r 1\r\nPUB a r 0\r\n\r\n") == (
        b"HMSG r 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"
    )
    deaf = Client(router, b'{"verbose":false}')
    assert deaf.send(b"SUB r 1\r\nPUB a r 0\r\n\r\n") == b""


def test_headers_reach_those_who_take_them() -> None:
    router = Router()
    client, plain = Client(router, QUIET), Client(router, b'{"verbose":false}')
    client.send(b"SUB a 1\r\n"), plain.send(b"SUB a 1\r\n")
    client.send(b"HPUB a 21 22\r\nNATS/1.0\r\nA: long\r\n\r\nx\r\n")
    assert client.got.startswith(b"HMSG a 1 ")
    assert plain.got.startswith(b"MSG a 1 ") and plain.got.endswith(b"x\r\n")


def test_without_echo_a_client_does_not_get_its_own_messages() -> None:
    router = Router()
    client, other = Client(router, b'{"verbose":false,"echo":false}'), Client(router, QUIET)
    client.send(b"SUB a 1\r\n"), other.send(b"SUB a 1\r\n")
    assert client.send(b"PUB a 1\r\nx\r\n") == b""
    assert other.got == b"MSG a 1 1\r\nx\r\n"


@pytest.mark.parametrize(
    ("sent", "answer", "ends"),
    [
        (b"SUB a..b 1\r\n", b"-ERR 'Invalid Subject'\r\n", False),
        (b"SUB a.>.b 1\r\n", b"-ERR 'Invalid Subject'\r\n", False),
        (b"NONSENSE\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", True),
        (b"PUB a many\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", True),
    ],
)
def test_what_is_no_nats_is_refused(sent: bytes, answer: bytes, ends: bool) -> None:
    client = Client(Router(), QUIET)
    assert client.send(sent) == answer
    assert client.ended is ends


def test_a_client_introduces_itself_first() -> None:
    router, got = Router(), []
    router.add(Interest(b"a", lambda message: got.append(message) is None))
    session = Session(router, ServerInfo(), login("t", {}), lambda data: None, lambda: None)
    session.feed(b"PUB a 0\r\n\r\n")
    assert got == []
    assert router.publish(Message(b"a")) and got == [Message(b"a")]
