"""The slowest captures that anybody could think of: MB/s of each, and the worst of all.

Asserted: no input is dissected at less than 1 MB/s of capture file, all tables made in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from dissect.nats import Options
from dissect.nats.pipeline import records
from dissect.nats.tables import TABLES

from tests.bench.rounds import cpu_seconds, machine
from tests.support.conversations import CONNECT, INFO
from tests.support.packets import ACK, PSH, SYN
from tests.support.pcapwriter import Record, Talk, pcap_file

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

WORST = 1e6  # bytes a second
PORTS = range(1024, 9024)
CLIENTS = [(f"10.0.{number >> 8}.{number & 255}", 40_000) for number in range(1, 6001)]


def joined(talks: Iterable[Talk]) -> Iterator[Record]:
    for talk in talks:
        yield from talk.records


def floods() -> Iterator[Record]:
    """SYNs that nobody answers."""
    for port in PORTS:
        talk = Talk(("10.0.0.1", port))
        talk.packet(talk.client, SYN)
        yield from talk.records


def short_lives() -> Iterator[Record]:
    """Connections that say INFO and close."""
    return joined(Talk(client).handshake().from_server(INFO).close() for client in CLIENTS)


def bytes_apart() -> Iterator[Record]:
    """A packet for every byte."""
    talk = Talk().handshake().from_server(INFO).from_client(CONNECT)
    return iter(talk.from_client(b"PUB a.b 5\r\nhello\r\n" * 600, size=1).records)


def holes() -> Iterator[Record]:
    """Every second packet is missing, and nobody acknowledges."""
    talk = Talk().handshake().from_server(INFO).from_client(CONNECT)
    for _ in range(10_000):
        talk.packet(talk.client, PSH | ACK, b"PUB a.b 5\r\nhello\r\n" * 3)
    return iter(talk.records[:8] + talk.records[8::2])


def backwards() -> Iterator[Record]:
    """All packets in reversed order."""
    talk = Talk().handshake().from_server(INFO).from_client(CONNECT)
    for _ in range(10_000):
        talk.packet(talk.client, PSH | ACK, b"PUB a.b 5\r\nhello\r\n" * 3)
    return iter(talk.records[:8] + talk.records[:7:-1])


def strays() -> Iterator[Record]:
    """Conversations with the same addresses and ports that take turns."""
    talks = [Talk(isn=(number << 28, number << 29)).handshake() for number in range(8)]
    starts = [len(talk.records) for talk in talks]
    for talk in talks:
        for _ in range(1000):
            talk.packet(talk.client, PSH | ACK, b"PUB a.b 5\r\nhello\r\n" * 3)
    for turn in zip(*(talk.records[start:] for talk, start in zip(talks, starts))):
        yield from turn


def no_frames() -> Iterator[Record]:
    """What nearly looks like frames."""
    talk = Talk().handshake().from_server(INFO).from_client(CONNECT)
    return iter(
        talk.from_client(b"PUB a.b 5\r\nPUB a.b 99\r\n+OK\r\nMSG a 1 \r\n" * 20_000).records
    )


def many_connects() -> Iterator[Record]:
    """A connection that logs in over and over, each time with another password."""
    lines = (b'CONNECT {"user":"u%d","pass":"secret-%d"}\r\n' % (n, n) for n in range(20_000))
    return iter(Talk().handshake().from_server(INFO).from_client(b"".join(lines)).records)


def errors() -> Iterator[Record]:
    """Errors that repeat one of many passwords."""
    talk = Talk().handshake().from_server(INFO)
    for number in range(2000):
        talk.from_client(b'CONNECT {"user":"u%d","pass":"secret-%d"}\r\n' % (number, number))
    said = b"-ERR 'Permissions Violation for Publish to \"secret-17\"'\r\n"
    return iter(talk.from_server(said * 20_000).records)


def refusals() -> Iterator[Record]:
    """Errors each of which may be about any of the latest subscriptions, with long subjects."""
    talk = Talk().handshake().from_server(INFO).from_client(CONNECT)
    for number in range(300):
        talk.from_client(b"SUB %sx%d %d\r\n" % (b"a." * 1990, number, number))
    return iter(talk.from_server(b"-ERR 'Invalid Subject'\r\n" * 40_000).records)


def violations() -> Iterator[Record]:
    """Subscriptions, and then an error about each."""
    subs = b"".join(b"SUB a.%d %d\r\n" % (n, n) for n in range(20_000))
    text = b"-ERR 'Permissions Violation for Subscription to \"a.%d\"'\r\n"
    said = b"".join(text % number for number in range(20_000))
    talk = Talk().handshake().from_server(INFO).from_client(CONNECT + subs)
    return iter(talk.from_server(said).records)


HOSTILE: list[Callable[[], Iterator[Record]]] = [
    *(floods, short_lives, bytes_apart, holes, backwards, strays, no_frames),
    *(many_connects, errors, refusals, violations),
]


def test_nothing_is_slow(tmp_path: Path) -> None:
    figures: dict[str, float] = {}
    for case in HOSTILE:
        path = tmp_path / f"{case.__name__}.pcap"
        path.write_bytes(pcap_file(list(case())))

        def dissect(path: Path = path) -> None:
            for _ in records([str(path)], list(TABLES), Options()):
                pass

        taken = min(cpu_seconds(dissect) for _ in range(2))
        figures[case.__name__] = path.stat().st_size / taken
        print(f"{case.__name__:12} {figures[case.__name__] / 1e6:7.2f} MB/s")
    worst = min(figures, key=figures.__getitem__)
    print(f"worst: {worst}, {figures[worst] / 1e6:.2f} MB/s on {machine()}")
    assert figures[worst] >= WORST
