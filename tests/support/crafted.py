"""Captures of what the samples do not have: subflows, tenants, tunnels, proxies, undecoded packets."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from ipaddress import ip_address

from tests.support.damage import Pcap, read_pcap
from tests.support.multipath import Multipath
from tests.support.pcapwriter import (
    ETHERNET,
    RAW,
    START_NS,
    UDP,
    Conversation,
    Record,
    ip,
    link,
    pcap_file,
    udp,
)
from tests.support.tenants import (
    Wrap,
    captured,
    geneve,
    gre,
    gtp,
    mpls,
    said,
    together,
    vlan,
    vxlan,
)

PKTAP, PPP = 258, 9
_AH = 51
_INFO = b'INFO {"server_id":"N","version":"2.15.3","max_payload":1048576,"headers":true}\r\n'
_CONNECT = b'CONNECT {"verbose":false,"lang":"go","name":"crafted"}\r\n'
_PROXIES = {
    "http": (
        b"CONNECT hub:4222 HTTP/1.1\r\nProxy-Authorization: Basic YTpi\r\n\r\n",
        b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 2\r\n\r\nno",
        b"CONNECT hub:4222 HTTP/1.1\r\nProxy-Authorization: Basic YTpi\r\n\r\n",
        b"HTTP/1.1 200 Connection established\r\n\r\n",
    ),
    "socks4a": (b"\x04\x01\x10\x7e\0\0\0\x01shop\0hub\0", b"\0\x5a" + bytes(6)),
    "socks5": (
        *(b"\x05\x02\0\x02", b"\x05\x02", b"\x01\x04shop\x06s3cret", b"\x01\0"),
        *(b"\x05\x01\0\x03\x03hub\x10\x7e", b"\x05\0\0\x01\x7f\0\0\x01\x10\x7e"),
    ),
}


def authenticated(packet: bytes) -> bytes:
    """An IPv4 packet with an authentication header (RFC 4302)."""
    source, target = (str(ip_address(packet[at : at + 4])) for at in (12, 16))
    header = bytes((packet[9], 4)) + bytes(22)
    return ip(source, target, header + packet[20:], proto=_AH)


def pktap(packet: bytes) -> bytes:
    """An IP packet that macOS captured."""
    return struct.pack("<III24s", 108, 1, ETHERNET, b"en0") + bytes(72) + link(packet)


def pseudowire(packet: bytes) -> bytes:
    """An Ethernet frame in MPLS, without a control word."""
    return mpls(100, 16)(link(packet))


def proxied(messages: Sequence[bytes], count: int, now_ns: int, port: int) -> list[Record]:
    """A client that reaches its server through a proxy; these are the messages before it does."""
    talk = Conversation(("10.0.0.1", port), ("10.0.0.9", 3128), now_ns=now_ns).handshake()
    for at, message in enumerate(messages):
        talk.say(talk.server if at % 2 else talk.client, message)
    talk.from_server(_INFO).from_client(_CONNECT + b"SUB a 1\r\nPING\r\n").from_server(b"PONG\r\n")
    for number in range(count):
        talk.from_client(b"PUB a 4\r\n%04d\r\n" % number)
        talk.from_server(b"MSG a 1 4\r\n%04d\r\n" % number)
    return talk.close().records


def _mptcp(count: int) -> list[Record]:
    one = Multipath(("10.0.0.1", "10.1.1.1")).open().talk(count).close()
    other = Multipath(eight=True, port=51_000, keys=(b"client 2", b"server 2")).open()
    other.now_ns = START_NS + 20_500_000
    plain = said(b"p", (77, 99), START_NS + 300_000, count // 4)
    return together(one.records, other.talk(count // 2).records, plain)


def _tenants(count: int) -> list[Record]:
    wraps = (vlan(10), vlan(20), vxlan(5), gre(1))
    return together(*(_said(at, wrap, 300_000, count) for at, wrap in enumerate(wraps)))


def _said(at: int, wrap: Wrap, step_ns: int, count: int) -> list[Record]:
    isn = (at + 1) * 400_000_000, (at + 1) * 300_000_000
    return captured(said(b"abcdefghi"[at : at + 1], isn, START_NS + at * step_ns, count), wrap)


def _tunnels(count: int) -> list[Record]:
    wraps = (gtp(7), geneve(5), pseudowire, mpls(9), lambda packet: link(authenticated(packet)))
    return together(*(_said(at, wrap, 10**7, count) for at, wrap in enumerate(wraps, 4)))


def _proxies(count: int) -> list[Record]:
    return together(
        *(
            proxied(messages, count, START_NS + at * 300_000, 40_000 + at)
            for at, messages in enumerate(_PROXIES.values())
        )
    )


def _undecoded(count: int) -> list[Record]:
    packets = [link(ip("10.0.0.1", "10.0.0.2", udp((9999, 4789), b"x" * 40), UDP))]
    packets += [link(b"")[:12] + b"\x88\xcc" + bytes(40), link(ip("10.0.0.1", "10.0.0.2", b"", 89))]
    return [
        Record(START_NS + at * 10**6, packet)
        for at, packet in enumerate(packets * (count // 3 + 1))
    ]


CRAFTED: dict[str, tuple[Callable[[int], list[Record]], int]] = {
    "crafted-mptcp": (_mptcp, RAW),
    "crafted-tenants": (_tenants, ETHERNET),
    "crafted-tunnels": (_tunnels, ETHERNET),
    "crafted-pktap": (lambda count: captured(said(b"a", (1, 2), count=count), pktap), PKTAP),
    "crafted-proxies": (_proxies, ETHERNET),
    "crafted-undecoded": (_undecoded, ETHERNET),
}
"""By name: what makes the packets of a capture, given the length of its conversations; and its link type."""


@cache
def crafted(name: str, count: int = 12) -> Pcap:
    """A capture of CRAFTED."""
    packets, linktype = CRAFTED[name]
    return read_pcap(pcap_file(packets(count), linktype, nanoseconds=True))
