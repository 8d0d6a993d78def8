"""Link headers: where the IP header begins."""

from __future__ import annotations

import struct

import pytest

from dissect.nats.packet import link as links
from dissect.nats.packet.link import linktype_name

from tests.support.pcapwriter import ETHERNET, LOOP, NULL, RAW, SLL, SLL2, ip, link

PACKET = ip("10.0.0.1", "10.0.0.2", b"")
PACKET_6 = ip("fd00::1", "fd00::2", b"")


def find_ip(linktype: int, data: bytes) -> int | str:
    return links.find_ip(linktype, data, [])


@pytest.mark.parametrize("packet", [PACKET, PACKET_6])
@pytest.mark.parametrize(
    ("linktype", "offset"),
    [(ETHERNET, 14), (SLL, 16), (SLL2, 20), (NULL, 4), (LOOP, 4), (RAW, 0), (228, 0), (229, 0)],
)
def test_each_link_has_its_header(linktype: int, offset: int, packet: bytes) -> None:
    assert find_ip(linktype, link(packet, linktype)) == offset


@pytest.mark.parametrize("linktype", [ETHERNET, SLL])
@pytest.mark.parametrize("kinds", [[0x8100], [0x88A8, 0x8100], [0x9100, 0x8100], [0x8100] * 3])
def test_vlan_tags_are_passed_over(linktype: int, kinds: list[int]) -> None:
    untagged = len(link(b"", linktype))
    data = link(PACKET, linktype, [(kind, 5) for kind in kinds])
    assert find_ip(linktype, data) == untagged + 4 * len(kinds)
    assert data[untagged + 4 * len(kinds) :] == PACKET


@pytest.mark.parametrize("family", [24, 28, 30, 10])
@pytest.mark.parametrize("order", ["little", "big"])
def test_each_system_numbers_ipv6_its_own_way(family: int, order: str) -> None:
    head = family.to_bytes(4, "little" if order == "little" else "big")
    assert find_ip(NULL, head + PACKET_6) == find_ip(LOOP, head + PACKET_6) == 4


def test_what_is_no_ip_is_named() -> None:
    assert find_ip(ETHERNET, bytes(12) + b"\x08\x06" + bytes(28)) == "arp"
    assert find_ip(ETHERNET, bytes(12) + b"\x88\xcc" + bytes(28)) == "lldp"
    assert find_ip(ETHERNET, bytes(12) + b"\x12\x34" + bytes(28)) == "ethertype 0x1234"
    assert find_ip(SLL, bytes(14) + b"\x00\x04" + bytes(28)) == "ethertype 0x0004"
    assert find_ip(NULL, bytes((7, 0, 0, 0))) == "not ip"
    assert find_ip(147, PACKET) == "link type 147, USER0"


def test_link_types_have_names() -> None:
    assert [linktype_name(each) for each in (ETHERNET, SLL2, 9, 147)] == [
        "ETHERNET",
        "LINUX_SLL2",
        "PPP",
        "USER0",
    ]
    assert linktype_name(65535) == "65535"


def test_headers_that_are_cut_off_are_no_ip() -> None:
    for linktype in (ETHERNET, SLL, SLL2, NULL):
        for kept in range(4):
            assert isinstance(find_ip(linktype, link(PACKET, linktype)[:kept]), (str, int))
    for data in (b"", bytes(13), link(b"", ETHERNET, [(0x8100, 1)] * 3)[:-2]):
        assert find_ip(ETHERNET, data) == "header cut off"


@pytest.mark.parametrize("linktype", [149, 258])
def test_pktap_has_the_name_of_the_interface(linktype: int) -> None:
    head = struct.pack("<III24s", 108, 1, 1, b"en0") + bytes(72)
    networks: list[str] = []
    found = links.find_ip(linktype, head + link(PACKET, vlans=[(0x8100, 7)]), networks)
    assert (found, networks) == (108 + 18, ["en0", "vlan 7"])
    assert find_ip(linktype, head[:50]) in ("not ip", "header cut off")
    inner = struct.pack("<III24s", 108, 1, 258, b"en0") + bytes(72)
    assert find_ip(linktype, inner + head) == "link type 258 in PKTAP"
    assert find_ip(linktype, bytes(200)) == "not ip"
