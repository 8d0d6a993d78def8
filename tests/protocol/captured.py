"""The streams of samples/captures as plain bytes, by dpkt and the simplest joining there is."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import dpkt

from natsync.protocol import (
    Connect,
    ConnectOptions,
    Context,
    Decoder,
    Frame,
    Info,
    Kind,
    Role,
    ServerInfo,
    kind_of_connect,
    kind_of_info,
)

from tests.protocol.feeding import drain, read
from tests.support.paths import CAPTURES

VERSIONS = ("2.15.1", "2.9.10")
WHOLE = [
    f"{topic}-{version}.pcap"
    for topic in ("core", "auth", "cluster", "gateway", "leafnode", "leafcluster")
    for version in VERSIONS
] + ["jetstream-2.15.1.pcap", "bulk-2.15.1.pcap"]
"""Captures of plain TCP in which nothing is missing."""


@dataclass(eq=False)
class Connection:
    """Both directions of one TCP connection; `originator` is the `ip:port` that opened it."""

    originator: str
    sent: dict[Role, bytes] = field(default_factory=dict)


@cache
def truth() -> Any:
    """What witnesses counted: see samples/captures/README.md."""
    return json.loads((CAPTURES / "truth.json").read_bytes())


@cache
def connections(name: str) -> list[Connection]:
    """The TCP connections of a loopback capture, from SYN on."""
    begun: dict[tuple[bytes, int, bytes, int], tuple[Connection, Role, int]] = {}
    pieces: dict[tuple[str, Role], dict[int, bytes]] = {}
    for ip, tcp in _segments(CAPTURES / name):
        key = (ip.src, tcp.sport, ip.dst, tcp.dport)
        if tcp.flags & dpkt.tcp.TH_SYN:
            answers = bool(tcp.flags & dpkt.tcp.TH_ACK)
            other = begun[key[2:] + key[:2]][0] if answers else None
            connection = other or Connection(f"{'.'.join(map(str, ip.src))}:{tcp.sport}")
            begun[key] = connection, Role.SERVER if answers else Role.CLIENT, tcp.seq + 1
        elif tcp.data:
            connection, role, first = begun[key]
            held = pieces.setdefault((connection.originator, role), {})
            held[(tcp.seq - first) % 2**32] = tcp.data
    found = [connection for connection, role, _ in begun.values() if role is Role.CLIENT]
    for connection in found:
        for role in Role:
            connection.sent[role] = _joined(pieces.get((connection.originator, role), {}))
    return found


def _segments(path: Path) -> Iterator[tuple[dpkt.ip.IP, dpkt.tcp.TCP]]:
    with path.open("rb") as file:
        for _, packet in dpkt.pcap.Reader(file):
            ip = dpkt.ethernet.Ethernet(packet).data
            if isinstance(ip, dpkt.ip.IP) and isinstance(ip.data, dpkt.tcp.TCP):
                yield ip, ip.data


def _joined(pieces: dict[int, bytes]) -> bytes:
    stream = b""
    for at, piece in sorted(pieces.items()):
        assert at <= len(stream), "a gap"
        stream += piece[len(stream) - at :]
    return stream


@cache
def frames(connection: Connection) -> dict[Role, tuple[Decoder, list[Frame]]]:
    """The frames of both directions, read with what the handshake of both sides says."""
    infos = {role: _first_info(connection.sent[role]) for role in Role}
    of_server, of_client = infos[Role.SERVER], infos[Role.CLIENT]
    assert of_server
    kind = kind_of_info(of_server)
    links = kind is not Kind.CLIENT and of_client
    found = {}
    for role in Role:
        decoder = Decoder(role, None)
        decoder.learn(
            kind,
            dedicated=bool(links and links.route_account),
            lnocu=bool(links and links.lnocu and of_server.lnocu),
        )
        decoder.feed(connection.sent[role])
        found[role] = decoder, [frame for some in drain(decoder) for frame in some]
    for frame in found[Role.CLIENT][1]:
        if isinstance(frame, Connect):
            assert kind_of_connect(ConnectOptions.parse(frame.json)) in (kind, None)
    return found


def _first_info(stream: bytes) -> ServerInfo | None:
    """The INFO of a handshake: the first frame, or the one after CONNECT."""
    reading = read([stream], Context(Role.CLIENT, None))  # ends where the handshake does
    infos = [frame.json for frame in reading.frames[:2] if isinstance(frame, Info)]
    return ServerInfo.parse(infos[0]) if infos else None


def counted(frames: list[Frame]) -> Counter[str]:
    return Counter(frame.op for frame in frames)
