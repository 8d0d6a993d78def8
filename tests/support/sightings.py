"""Captures in which a connection is seen in several places: address translation, and proxies of TCP."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.support.pcapwriter import START_NS, Conversation, Record, pcap_file

CLIENT, SERVICE, POD = ("10.0.0.1", 40000), ("10.96.0.10", 4222), ("10.0.0.2", 4222)
PROXY = ("10.0.0.9", 50000)
LATER_NS = 20_000
"""The time from one place to the next one."""

_INFO = (
    b'INFO {"server_id":"%s","server_name":"n1","version":"2.15.1","proto":1,"headers":true,'
    b'"max_payload":1048576,"client_id":%d}\r\n'
)
_CONNECT = b'CONNECT {"verbose":false,"lang":"go","version":"1.50.0","name":"%s"}\r\nPING\r\n'


def seen(
    client: tuple[str, int] = CLIENT,
    server: tuple[str, int] = SERVICE,
    now_ns: int = START_NS,
    *,
    number: int = 7,
    server_id: bytes = b"NAAA",
    name: bytes = b"app",
    from_packet: int = 0,
) -> list[Record]:
    """The packets of a connection in one place, which has this `number` on its server: it asks once, nobody
    answers, and it publishes five messages to itself."""
    talk = Conversation(client, server, now_ns=now_ns).handshake()
    talk.from_server(_INFO % (server_id, number)).from_client(_CONNECT % name).from_server(
        b"PONG\r\n"
    )
    talk.from_client(b"SUB a 1\r\nSUB _INBOX.x.* 2\r\n")
    talk.from_client(b"PUB ask _INBOX.x.1 2\r\nhi\r\n")
    talk.from_server(b"HMSG _INBOX.x.1 2 16 16\r\nNATS/1.0 503\r\n\r\n\r\n")
    for at in range(5):
        talk.from_client(b"PUB a 7\r\nbody-%02d\r\n" % at).from_server(
            b"MSG a 1 7\r\nbody-%02d\r\n" % at
        )
    return talk.close().records[from_packet:]


def translated(now_ns: int = START_NS, number: int = 7) -> list[list[Record]]:
    """A connection with the address of a service, and with that of the pod behind it."""
    client = CLIENT[0], CLIENT[1] + number
    return [
        seen(client, SERVICE, now_ns, number=number),
        seen(client, POD, now_ns + LATER_NS, number=number),
    ]


def proxied(now_ns: int = START_NS, number: int = 7) -> list[list[Record]]:
    """A connection on both sides of a proxy."""
    client, proxy = (CLIENT[0], CLIENT[1] + number), (PROXY[0], PROXY[1] + number)
    return [
        seen(client, SERVICE, now_ns, number=number),
        seen(proxy, POD, now_ns + LATER_NS, number=number),
    ]


def capture_of(path: Path, places: Iterable[list[Record]]) -> Path:
    """A file with the packets of all places, in order of time."""
    packets = sorted((each for some in places for each in some), key=lambda each: each.ts_ns)
    path.write_bytes(pcap_file(packets, nanoseconds=True))
    return path
