"""Links that dpkt takes apart."""

from __future__ import annotations

import struct
import subprocess
import sys

import dpkt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissect.nats.packet import link as links
from dissect.nats.packet.dpkt_links import find_ip_with_dpkt

from tests.support.pcapwriter import ETHERNET, ip, tcp
from tests.support.tcp_conversation import ACK

MACS = bytes.fromhex("020000000002 020000000001")
QINQ = bytes.fromhex("88a80005 81000006")
SNAP = b"\xaa\xaa\x03\0\0\0"
BODY = tcp((1, 2), 3, 4, ACK, b"PING")
FOUR = ip("10.0.0.1", "10.0.0.2", BODY)
SIX = ip("fd00::1", "fd00::2", BODY)
OPTIONS = ip("10.0.0.1", "10.0.0.2", BODY, options=bytes((148, 4, 0, 0)))
# A fragment header followed by another extension header: AttributeError in dpkt 1.9.8.
EXTENDED = ip("fd00::1", "fd00::2", BODY, proto=44, options=bytes(8) + bytes((6, 0)) + bytes(6))
LABEL = struct.pack("!I", 6 << 12 | 0x100)


def find_ip(linktype: int, data: bytes) -> int | str:
    return links.find_ip(linktype, data, [])


@pytest.mark.parametrize(
    ("linktype", "header", "packet"),
    [
        (9, b"\xff\x03\x00\x21", FOUR),
        (9, b"\xff\x03\x21", FOUR),
        (9, b"\x00\x57", SIX),
        (50, b"\xff\x03\x00\x57", SIX),
        (50, b"\x0f\x00\x08\x00", FOUR),
        (50, b"\x8f\x00\x86\xdd", SIX),
        (51, b"\x11\x00\x00\x01\x00\x00\x00\x21", FOUR),
        (104, b"\x0f\x00\x08\x00", FOUR),
        (ETHERNET, MACS + b"\x88\x64\x11\x00\x00\x01\x00\x00\x00\x21", FOUR),
        (ETHERNET, MACS + b"\x81\x00\x00\x05\x88\x64\x11\x00\x00\x01\x00\x00\x00\x57", SIX),
        (ETHERNET, MACS + QINQ + b"\x88\x64\x11\x00\x00\x01\x00\x00\x00\x57", SIX),
        (ETHERNET, MACS + QINQ + b"\x88\x47" + LABEL, FOUR),
        (ETHERNET, MACS + QINQ + struct.pack("!H", 8 + len(FOUR)) + SNAP + b"\x08\x00", FOUR),
        (ETHERNET, MACS + b"\x88\x47" + struct.pack("!II", 5 << 12, 6 << 12 | 0x100), FOUR),
        (ETHERNET, MACS + b"\x88\x47" + LABEL, SIX),
        (ETHERNET, MACS + struct.pack("!H", 8 + len(FOUR)) + SNAP + b"\x08\x00", FOUR),
        (ETHERNET, MACS + struct.pack("!H", 8 + len(EXTENDED)) + SNAP + b"\x86\xdd", EXTENDED),
        (ETHERNET, MACS + QINQ + struct.pack("!H", 8 + len(SIX)) + SNAP + b"\x86\xdd", SIX),
        (ETHERNET, MACS + b"\x88\x47" + LABEL + bytes(4) + MACS + b"\x08\x00", FOUR),
        (ETHERNET, MACS + QINQ + b"\x88\x47" + struct.pack("!I", 5 << 12) + LABEL, OPTIONS),
        (ETHERNET, MACS + b"\x88\x47" + LABEL, EXTENDED),
        (ETHERNET, MACS + b"\x88\x64\x11\x00\x00\x01\x00\x00\x00\x57", EXTENDED),
        (9, b"\xff\x03\x00\x57", EXTENDED),
        (113, bytes(14) + b"\x88\x64\x11\x00\x00\x01\x00\x00\x00\x21", FOUR),
        (113, bytes(14) + b"\x88\x47" + LABEL, FOUR),
    ],
    ids=[
        "ppp",
        "ppp short",
        "ppp without framing",
        "ppp ipv6",
        "cisco hdlc as ppp",
        "cisco hdlc multicast as ppp",
        "pppoe alone",
        "cisco hdlc",
        "pppoe",
        "pppoe vlan",
        "pppoe qinq",
        "mpls qinq",
        "snap qinq",
        "mpls",
        "mpls ipv6",
        "snap",
        "snap extensions",
        "snap qinq ipv6",
        "ethernet in mpls",
        "mpls options",
        "mpls extensions",
        "pppoe extensions",
        "ppp extensions",
        "pppoe cooked",
        "mpls cooked",
    ],
)
def test_the_ip_header_is_found(linktype: int, header: bytes, packet: bytes) -> None:
    assert find_ip(linktype, header + packet) == len(header)


def test_other_contents_are_no_ip() -> None:
    spanning_tree = MACS + struct.pack("!H", 7) + b"\x42\x42\x03" + bytes(4)
    assert find_ip(ETHERNET, spanning_tree) == "not ip"
    assert find_ip(9, b"\xff\x03\xc0\x21\x01\x01\x00\x04") == "not ip"
    assert find_ip(9, b"") == find_ip(51, b"\x11\xa7\0\x01\0\0\0\x21") == "not ip"
    for contents in (b"", LABEL[:3], LABEL, bytes(4), LABEL + b"\x10"):
        assert find_ip(ETHERNET, MACS + b"\x88\x47" + contents) == "not ip"


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_give_a_place_or_a_reason(data: bytes) -> None:
    found = find_ip_with_dpkt(data)
    assert found == "not ip" or (isinstance(found, int) and 0 <= found < len(data))


@pytest.mark.parametrize(
    "nested", [b"\x45\0" + struct.pack("!HHHBBH", 0, 0, 0, 9, 4, 0) + bytes(8)]
)
def test_a_packet_in_a_packet_in_a_packet_does_no_harm(nested: bytes) -> None:
    data = MACS + b"\x88\x47" + LABEL + nested * 3000
    assert find_ip(ETHERNET, data) in (18, "not ip")


def test_dpkt_is_loaded_when_it_is_needed() -> None:
    code = "import sys, dissect.nats.packet; print('dpkt' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"
    assert dpkt.__version__


@pytest.mark.parametrize("control_word", [b"", bytes(4), b"\0\0\0\x2a"])
@pytest.mark.parametrize("mac", [MACS, b"\x45" + MACS[1:], b"\x60" + MACS[1:], b"\0" + MACS[1:]])
@pytest.mark.parametrize("tag", [b"", b"\x81\0\0\x07"])
def test_ethernet_in_mpls_needs_no_control_word(
    control_word: bytes, mac: bytes, tag: bytes
) -> None:
    head = MACS + b"\x88\x47" + LABEL + control_word + mac + tag + b"\x08\x00"
    packet = ip("10.0.0.1", "10.0.0.2", bytes(20))
    assert find_ip(ETHERNET, head + packet) == len(head)
