"""Link headers: the names of link types, and where the IP header begins in a packet.

Our own code parses the link types that are common in captures of servers: Ethernet with 802.1Q and QinQ tags,
Linux cooked v1 and v2, raw IP, BSD loopback, PPP, Cisco HDLC (https://www.tcpdump.org/linktypes.html), PPPoE,
IP and Ethernet after MPLS labels, and IP after SNAP. dpkt parses some others.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from . import dpkt_links as rare
from .ip import CUT_OFF

ETHERNET = 1

Networks = list[str]
"""The networks around an IP packet, from the outermost to the innermost; see `types.Path`."""

_IP = (0x0800, 0x86DD)
_TAGS = (0x8100, 0x88A8, 0x9100)
_VLAN = 0xFFF  # 0: the tag has only a priority
_PPPOE, _MPLS = 0x8864, (0x8847, 0x8848)
_FIRST_ETHERTYPE = 0x600  # a lower one is the length of a frame with an LLC header
_SNAP_IP = (b"\xaa\xaa\x03\0\0\0\x08\0", b"\xaa\xaa\x03\0\0\0\x86\xdd")  # LLC and SNAP (RFC 1042)
_CONTROL_WORD, _NO_VERSION = 4, 0  # the size of the control word, and its first four bits
_NAMES = {0x0806: "arp", 0x88CC: "lldp", 0x888E: "eapol"}

# PKTAP (bsd/net/pktap.h of XNU), little-endian: its length, the type of what follows, its link type, and the
# name of the interface.
_PKTAP, _PKTAP_PACKET = struct.Struct("<III24s"), 1

_FRAMING = b"\xff\x03"  # a PPP header may begin with it (RFC 1662)
_PPP_IP = (b"\x21", b"\x57")  # protocols of PPP, without the first byte, which may be left out
_CISCO = (b"\x0f", b"\x8f")  # a header of Cisco HDLC begins with it (RFC 1547, 4.3.1)

# Address families: IPv4, which has the same number on all systems; IPv6 on NetBSD and OpenBSD, FreeBSD,
# macOS, and Linux.
_FAMILIES = (2, 24, 28, 30, 10)


def find_ip(linktype: int, data: bytes, networks: Networks) -> int | str:
    """The offset of the IP header, or the reason why there is none. VLANs and MPLS labels are added to
    `networks`."""
    link = _LINKS.get(linktype)
    if link is None:
        return f"link type {linktype}"
    return link.find_ip(data, networks) if link.find_ip else f"link type {linktype}, {link.name}"


def linktype_name(linktype: int) -> str:
    """The name of a link type, or its number."""
    link = _LINKS.get(linktype)
    return link.name if link else str(linktype)


def _ethernet(data: bytes, networks: Networks) -> int | str:
    return _typed(data, networks, 12, 14, True)


def _cooked(data: bytes, networks: Networks) -> int | str:
    return _typed(data, networks, 14, 16)


def _cooked_v2(data: bytes, networks: Networks) -> int | str:
    return _typed(data, networks, 0, 20)


def _cisco(data: bytes, networks: Networks) -> int | str:
    return _typed(data, networks, 2, 4)


def _ppp(data: bytes, networks: Networks, at: int = 0) -> int | str:
    at += len(_FRAMING) * data.startswith(_FRAMING, at)
    at += data.startswith(b"\0", at)
    return at + 1 if data.startswith(_PPP_IP, at) else rare.NOT_IP


def _ppp_serial(data: bytes, networks: Networks) -> int | str:
    is_cisco = data.startswith(_CISCO)
    return _cisco(data, networks) if is_cisco else _ppp(data, networks)


def _ppp_over_ethernet(data: bytes, networks: Networks, at: int = 0) -> int | str:
    is_session = data.startswith(b"\0", at + 1)
    return _ppp(data, networks, at + 6) if is_session else rare.NOT_IP


def _raw(data: bytes, networks: Networks) -> int | str:
    return 0


def _loopback(data: bytes, networks: Networks) -> int | str:
    # DLT_NULL is in the byte order of the machine that wrote it, DLT_LOOP in network order.
    family = data[:4]
    if int.from_bytes(family, "little") in _FAMILIES or int.from_bytes(family, "big") in _FAMILIES:
        return 4
    return rare.NOT_IP


def _pktap(data: bytes, networks: Networks) -> int | str:
    """PKTAP, which macOS writes: the link type of the packet inside, and the name of its interface."""
    if len(data) < _PKTAP.size:
        return CUT_OFF
    size, kind, linktype, name = _PKTAP.unpack_from(data)
    if kind != _PKTAP_PACKET or not _PKTAP.size <= size <= len(data):
        return rare.NOT_IP
    networks.append(name.partition(b"\0")[0].decode("utf-8", "backslashreplace"))
    link = _LINKS.get(linktype)
    if link is None or link.find_ip is None or link.find_ip is _pktap:
        return f"link type {linktype} in PKTAP"
    found = link.find_ip(data[size:], networks)
    return found if isinstance(found, str) else size + found


def _typed(
    data: bytes, networks: Networks, type_at: int, ip_at: int, is_ethernet: bool = False
) -> int | str:
    """The offset of the IP header, or the reason why there is none. The ethertype is at `type_at`, and VLAN
    tags may follow at `ip_at`. dpkt parses LLC headers."""
    ethertype = data[type_at : type_at + 2]
    while int.from_bytes(ethertype, "big") in _TAGS:
        if vlan := int.from_bytes(data[ip_at : ip_at + 2], "big") & _VLAN:
            networks.append(f"vlan {vlan}")
        ethertype = data[ip_at + 2 : ip_at + 4]
        ip_at += 4
    if len(ethertype) < 2:
        return CUT_OFF
    number = int.from_bytes(ethertype, "big")
    if number in _IP:
        return ip_at
    if is_ethernet and number < _FIRST_ETHERTYPE and data.startswith(_SNAP_IP, ip_at):
        return ip_at + len(_SNAP_IP[0])
    if number == _PPPOE:
        return _ppp_over_ethernet(data, networks, ip_at)
    if is_ethernet and number < _FIRST_ETHERTYPE:
        tags = ip_at - 2 - type_at  # left out, because dpkt misreads several
        found = rare.find_ip_with_dpkt(data[:type_at] + data[type_at + tags :])
        return found if isinstance(found, str) else found + tags
    if number in _MPLS:
        return _past_labels(data, networks, ip_at)
    return _NAMES.get(number, f"ethertype 0x{number:04x}")


def _past_labels(data: bytes, networks: Networks, at: int) -> int | str:
    """The offset of the IP header after MPLS labels (RFC 3032): at once, or in an Ethernet frame (RFC 4448)
    with or without a control word. Labels do not say which of them follows, so the bytes decide."""
    is_last = False
    while not is_last and at + 4 <= len(data):
        networks.append(f"mpls {int.from_bytes(data[at : at + 3], 'big') >> 4}")
        is_last = bool(data[at + 2] & 1)
        at += 4
    if not is_last or at >= len(data):
        return rare.NOT_IP
    version = data[at] >> 4
    for start in (at + _CONTROL_WORD, at) if version == _NO_VERSION else (at,):
        inside: Networks = []
        found = _typed(data, inside, start + 12, start + 14)
        if isinstance(found, int) and found < len(data) and data[found] >> 4 in (4, 6):
            networks += inside
            return found
    return at if version in (4, 6) else rare.NOT_IP


class _Link(NamedTuple):
    """A link type: its name in https://www.tcpdump.org/linktypes.html without LINKTYPE_, and the function
    that finds the IP header, or None if packets of this type are not read.
    """

    name: str
    find_ip: Callable[[bytes, Networks], int | str] | None = None


_LINKS = {
    0: _Link("NULL", _loopback),
    ETHERNET: _Link("ETHERNET", _ethernet),
    9: _Link("PPP", _ppp),
    12: _Link("RAW", _raw),
    14: _Link("RAW", _raw),
    50: _Link("PPP_HDLC", _ppp_serial),
    51: _Link("PPP_ETHER", _ppp_over_ethernet),
    101: _Link("RAW", _raw),
    104: _Link("C_HDLC", _cisco),
    105: _Link("IEEE802_11"),
    108: _Link("LOOP", _loopback),
    113: _Link("LINUX_SLL", _cooked),
    127: _Link("IEEE802_11_RADIOTAP"),
    147: _Link("USER0"),
    149: _Link("USER2", _pktap),  # macOS wrote PKTAP with this number
    189: _Link("USB_LINUX"),
    220: _Link("USB_LINUX_MMAPPED"),
    228: _Link("IPV4", _raw),
    229: _Link("IPV6", _raw),
    239: _Link("NFLOG"),
    253: _Link("NETLINK"),
    258: _Link("PKTAP", _pktap),
    276: _Link("LINUX_SLL2", _cooked_v2),
}
