"""Tenants of one network: NATS conversations between the same endpoints, each in a network of its own."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence

from tests.support.pcapwriter import (
    ETHERNET,
    GRE,
    RAW,
    START_NS,
    UDP,
    Conversation,
    Record,
    ip,
    link,
    udp,
)

Wrap = Callable[[bytes], bytes]
"""Puts an IP packet into the headers of a network."""

_OUTER = "192.168.0.1", "192.168.0.2"
_MACS = bytes.fromhex("020000000002020000000001")
_INFO = b'INFO {"server_id":"N%s","version":"2.15.3","max_payload":1048576,"proto":1,"headers":true}\r\n'


def said(
    subject: bytes, isn: tuple[int, int], now_ns: int = START_NS, count: int = 5, syn: bool = True
) -> list[Record]:
    """The IP packets of a NATS conversation about one subject, from its SYN on or after the handshake."""
    talk = Conversation(linktype=RAW, isn=isn, now_ns=now_ns).handshake()
    talk.from_server(_INFO % subject.upper())
    talk.from_client(b'CONNECT {"verbose":false,"lang":"go"}\r\nPING\r\n').from_server(b"PONG\r\n")
    talk.from_client(b"SUB %s 1\r\n" % subject)
    for number in range(count):
        payload = b"%s%04d" % (subject, number)
        talk.from_client(b"PUB %s %d\r\n%s\r\n" % (subject, len(payload), payload))
        talk.from_server(b"MSG %s 1 %d\r\n%s\r\n" % (subject, len(payload), payload))
    return talk.records[0 if syn else 3 :]


def vlan(*numbers: int) -> Wrap:
    """802.1Q or QinQ."""
    tags = [(0x88A8 if at < len(numbers) - 1 else 0x8100, n) for at, n in enumerate(numbers)]
    return lambda packet: link(packet, ETHERNET, tags)


def vxlan(vni: int) -> Wrap:
    return _in_udp(4789, lambda packet: struct.pack("!II", 0x08000000, vni << 8) + link(packet))


def geneve(vni: int) -> Wrap:
    return _in_udp(6081, lambda packet: struct.pack("!BBHI", 0, 0, 0x6558, vni << 8) + link(packet))


def gtp(teid: int) -> Wrap:
    return _in_udp(2152, lambda packet: struct.pack("!BBHI", 0x30, 255, len(packet), teid) + packet)


def gre(key: int) -> Wrap:
    return lambda packet: link(ip(*_OUTER, struct.pack("!HHI", 0x2000, 0x0800, key) + packet, GRE))


def mpls(*labels: int) -> Wrap:
    last = len(labels) - 1
    stack = b"".join(
        struct.pack("!I", label << 12 | (at == last) << 8 | 64) for at, label in enumerate(labels)
    )
    return lambda packet: _MACS + b"\x88\x47" + stack + packet


def captured(records: Iterable[Record], wrap: Wrap, interface: int = 0) -> list[Record]:
    """Records of IP packets, in the headers of a network."""
    return [Record(each.ts_ns, wrap(each.data), interface=interface) for each in records]


def together(*parts: Sequence[Record]) -> list[Record]:
    """Records of several recordings in the order of their times."""
    return sorted((each for part in parts for each in part), key=lambda each: each.ts_ns)


def _in_udp(port: int, contents: Wrap) -> Wrap:
    return lambda packet: link(ip(*_OUTER, udp((40000, port), contents(packet)), UDP))
