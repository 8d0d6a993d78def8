"""Tunnels: the packet inside, with dpkt as the witness where it can be one."""

from __future__ import annotations

import struct

import dpkt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissect.nats.packet import PacketParser
from dissect.nats.packet.tunnels import CARRIERS, Inside, look_inside
from dissect.nats.types import Packet, Segment

from tests.support.pcapwriter import (
    ETHERNET,
    GRE,
    RAW,
    SLL2,
    START_NS,
    TCP,
    UDP,
    fragments,
    ip,
    link,
    tcp,
    udp,
)
from tests.support.tcp_conversation import ACK

HOSTS = ("10.0.0.1", "10.0.0.2")
OUTER = ("192.0.2.1", "192.0.2.2")
OUTER_SIX = ("fd00::1", "fd00::2")
BODY = tcp((40000, 4222), 7, 8, ACK, b"PING\r\n" * 50)
INNER = ip(*HOSTS, BODY)
INNER_SIX = ip("fd00::a", "fd00::b", BODY)
VXLAN = b"\x08\0\0\0\0\0\x2a\0"


def gre(packet: bytes, kind: int, flags: int = 0) -> bytes:
    """A GRE header with the fields that the flags announce."""
    fields = sum(bool(flags & flag) for flag in (0x8000, 0x2000, 0x1000))
    return struct.pack("!HH", flags, kind) + bytes(4 * fields) + packet


def erspan(version: int, packet: bytes, last: int = 0) -> bytes:
    """The header of ERSPAN II (version 1) or III (2); `last` are the last 16 bits of the latter."""
    words = (
        [version << 28 | 5 << 16 | 7, 0] if version == 1 else [version << 28 | 7, 123456789, last]
    )
    words += [0, 0] if last & 1 else []
    return struct.pack(f"!{len(words)}I", *words) + packet


def geneve(packet: bytes, kind: int, words: int) -> bytes:
    return struct.pack("!BBHI", words, 0, kind, 5 << 8) + bytes(4 * words) + packet


def segment_of(data: bytes, linktype: int = RAW, wire_bytes: int | None = None) -> Segment | None:
    size = len(data) if wire_bytes is None else wire_bytes
    return PacketParser().segment_of(Packet(START_NS, 7, "t", linktype, data, size))


PLAIN, PLAIN_SIX = segment_of(INNER), segment_of(INNER_SIX)


def reason(data: bytes) -> str:
    parser = PacketParser()
    assert parser.segment_of(Packet(START_NS, 7, "t", RAW, data, len(data))) is None
    (name,) = parser.passed_over
    return name


TUNNELS = {
    "gre": (GRE, gre(INNER, 0x0800)),
    "gre with a key": (GRE, gre(INNER, 0x0800, 0x2000)),
    "gre with all": (GRE, gre(INNER, 0x0800, 0xB000)),
    "nvgre": (GRE, gre(link(INNER), 0x6558, 0x2000)),
    "erspan I": (GRE, gre(link(INNER), 0x88BE)),
    "erspan II": (GRE, gre(erspan(1, link(INNER)), 0x88BE, 0x1000)),
    "erspan III": (GRE, gre(erspan(2, link(INNER)), 0x22EB, 0x1000)),
    "erspan III with platform header": (GRE, gre(erspan(2, link(INNER), 1), 0x22EB, 0x1000)),
    "erspan III around ip": (GRE, gre(erspan(2, INNER, 2 << 10), 0x22EB, 0x1000)),
    "nvgre with a vlan": (GRE, gre(link(INNER, ETHERNET, [(0x8100, 5)]), 0x6558, 0x2000)),
    "vxlan": (UDP, udp((50000, 4789), VXLAN + link(INNER))),
    "vxlan of old": (UDP, udp((50000, 8472), VXLAN + link(INNER))),
    "vxlan with a policy": (UDP, udp((50000, 4789), b"\x88\0\0\1\0\0\x2a\0" + link(INNER))),
    "geneve": (UDP, udp((50000, 6081), geneve(link(INNER), 0x6558, 3))),
    "ip in ip": (4, INNER),
}
GTP = struct.pack("!BBHI", 0x30, 255, len(INNER), 7)
GTP_OPTIONS = struct.pack("!BBHIHBB", 0x36, 255, len(INNER) + 12, 7, 1, 0, 0x85)
TUNNELS |= {
    "gtp-u": (UDP, udp((2152, 2152), GTP + INNER)),
    "gtp-u with an extension": (
        UDP,
        udp((50000, 2152), GTP_OPTIONS + b"\x01\x10\x09\x85" + b"\x02" + bytes(7) + INNER),
    ),
}
every_tunnel = pytest.mark.parametrize(("proto", "body"), TUNNELS.values(), ids=list(TUNNELS))


@every_tunnel
@pytest.mark.parametrize("outer", [OUTER, OUTER_SIX])
def test_the_segment_is_that_of_the_inner_packet(
    outer: tuple[str, str], proto: int, body: bytes
) -> None:
    data = ip(*outer, body, proto)
    assert PLAIN is not None and PLAIN.payload == b"PING\r\n" * 50
    assert segment_of(data) == PLAIN
    assert segment_of(link(data, SLL2), SLL2) == PLAIN
    assert segment_of(link(data) + b"trailer", ETHERNET) == PLAIN


@pytest.mark.parametrize(
    ("proto", "body"),
    [(41, INNER_SIX), (GRE, gre(INNER_SIX, 0x86DD)), (GRE, gre(link(INNER_SIX), 0x6558))],
)
def test_ipv6_may_be_inside(proto: int, body: bytes) -> None:
    assert segment_of(ip(*OUTER, body, proto)) == PLAIN_SIX is not None


@every_tunnel
def test_a_snap_length_cuts_the_inner_packet(proto: int, body: bytes) -> None:
    data = ip(*OUTER, body, proto)
    assert PLAIN is not None
    for kept in range(len(data) - len(PLAIN.payload) - 6, len(data)):
        segment = segment_of(data[:kept], RAW, len(data))
        assert segment is not None
        assert (segment.length, segment.key) == (PLAIN.length, PLAIN.key)
        there = max(0, kept - len(data) + PLAIN.length)
        assert segment.payload == PLAIN.payload[:there]
    for kept in range(len(data) - len(BODY) - 20):
        assert segment_of(data[:kept], RAW, len(data)) is None


@every_tunnel
@pytest.mark.parametrize("outer", [OUTER, OUTER_SIX])
def test_a_tunnel_may_come_in_fragments(outer: tuple[str, str], proto: int, body: bytes) -> None:
    parser = PacketParser()
    whole = fragments(*outer, body, 64, proto)
    found = [
        parser.segment_of(Packet(START_NS, 7, "t", RAW, each, len(each)))
        for each in reversed(whole)
    ]
    assert found == [None] * (len(whole) - 1) + [PLAIN]
    assert parser.passed_over == {"ip fragment, joined with others": len(whole) - 1}


def test_fragments_may_come_through_a_tunnel() -> None:
    parser = PacketParser()
    parts = [ip(*OUTER, gre(each, 0x0800), GRE) for each in fragments(*HOSTS, BODY, 128)]
    found = [parser.segment_of(Packet(START_NS, 7, "t", RAW, each, len(each))) for each in parts]
    assert found == [None] * (len(parts) - 1) + [PLAIN]


def test_an_inner_packet_without_a_length_reaches_to_the_end_of_the_outer_one() -> None:
    data = ip(*OUTER, gre(ip(*HOSTS, BODY, total=0), 0x0800), GRE)
    assert segment_of(data + b"trailer") == PLAIN


@settings(deadline=None)
@given(st.sampled_from([0, 0x8000, 0x2000, 0x1000, 0xB000]), st.binary(max_size=80))
def test_dpkt_sees_the_same_in_gre(flags: int, payload: bytes) -> None:
    inner = ip(*HOSTS, tcp((1, 2), 3, 4, ACK, payload))
    data = ip(*OUTER, gre(inner, 0x0800, flags), GRE)
    its = dpkt.ip.IP(data).data.data.data
    segment = segment_of(data)
    assert segment is not None and isinstance(its, dpkt.tcp.TCP)
    assert (segment.seq, segment.ack, segment.flags) == (its.seq, its.ack, its.flags)
    assert segment.payload == bytes(its.data) == payload


def test_tunnels_in_tunnels_end_somewhere() -> None:
    data = INNER
    for _ in range(5):
        data = ip(*OUTER, data, 4)
    assert segment_of(data) == PLAIN
    outer = ip(*OUTER, b"", 4, total=0)
    for many in (20, 1000, 100_000):
        assert reason(outer * many) == "tunnels nested too deep"


@pytest.mark.parametrize(
    ("proto", "body", "name"),
    [
        (UDP, udp((4789, 50000), VXLAN + link(INNER)), "udp"),  # towards another port
        (UDP, udp((50000, 4789), b"\0" * 8 + link(INNER)), "udp"),  # without its flag
        (UDP, udp((50000, 6081), b"\x40" + geneve(INNER, 0x0800, 0)[1:]), "udp"),  # version 1
        (UDP, udp((50000, 6081), geneve(INNER, 0x1234, 0)), "udp"),
        (UDP, udp((50000, 4789), b"short"), "udp"),
        (UDP, b"", "udp"),
        (GRE, gre(INNER, 0x880B, 0x2001), "gre"),  # PPTP
        (GRE, gre(INNER, 0x0800, 0x4000), "gre"),  # source routes
        (GRE, gre(INNER, 0x1234), "gre"),
        (
            GRE,
            gre(erspan(2, link(INNER)), 0x88BE, 0x1000),
            "gre",
        ),  # a version that it does not have
        (GRE, gre(erspan(1, link(INNER)), 0x22EB, 0x1000), "gre"),
        (GRE, gre(erspan(2, INNER, 3 << 10), 0x22EB, 0x1000), "gre"),  # neither Ethernet nor IP
        (GRE, gre(b"\x10", 0x88BE, 0x1000), "header cut off"),
        (GRE, gre(erspan(2, b"")[:8], 0x22EB, 0x1000), "header cut off"),
        (GRE, b"", "header cut off"),
        (GRE, gre(b"", 0x0800), "header cut off"),
        (4, b"", "header cut off"),
        (TCP, b"", "header cut off"),
        (1, b"", "icmp"),
    ],
)
def test_what_is_no_tunnel_is_called_by_its_name(proto: int, body: bytes, name: str) -> None:
    assert reason(ip(*OUTER, body, proto)) == name


@settings(deadline=None)
@given(st.sampled_from([*CARRIERS, 1, 6]), st.binary(max_size=60), st.integers(0, 80))
def test_any_bytes_give_a_place_or_a_reason(proto: int, data: bytes, end: int) -> None:
    found = look_inside(proto, data, 4, end, [])
    assert isinstance(found, str) or (isinstance(found, Inside) and found.start >= 4)
