"""Link headers: the names of link types, and where the IP header begins in a packet.

Our own code parses the link types that are common in captures of servers: Ethernet with 802.1Q and QinQ tags,
Linux cooked v1 and v2, raw IP, BSD loopback, PPP, Cisco HDLC (https://www.tcpdump.org/linktypes.html), PPPoE
and IP after MPLS labels or SNAP. dpkt parses some others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from . import dpkt_links as rare
from .ip import CUT_OFF

ETHERNET = 1

_IP = (0x0800, 0x86DD)
_TAGS = (0x8100, 0x88A8, 0x9100)
_PPPOE, _MPLS = 0x8864, (0x8847, 0x8848)
_FIRST_ETHERTYPE = 0x600  # a lower one is the length of a frame with an LLC header
_SNAP_IP = (b"\xaa\xaa\x03\0\0\0\x08\0", b"\xaa\xaa\x03\0\0\0\x86\xdd")  # LLC and SNAP (RFC 1042)
_NAMES = {0x0806: "arp", 0x88CC: "lldp", 0x888E: "eapol"}

_FRAMING = b"\xff\x03"  # a PPP header may begin with it (RFC 1662)
_PPP_IP = (b"\x21", b"\x57")  # protocols of PPP, without the first byte, which may be left out
_CISCO = (b"\x0f", b"\x8f")  # a header of Cisco HDLC begins with it (RFC 1547, 4.3.1)

# Address families: IPv4, which has the same number on all systems; IPv6 on NetBSD and OpenBSD, FreeBSD,
# macOS, and Linux.
_FAMILIES = (2, 24, 28, 30, 10)


def find_ip(linktype: int, data: bytes) -> int | str:
    """The offset of the IP header, or the reason why there is none."""
    link = _LINKS.get(linktype)
    if link is None or link.find_ip is None:
        return f"link type {linktype}"
    return link.find_ip(data)


def linktype_name(linktype: int) -> str:
    """The name of a link type, or its number."""
    link = _LINKS.get(linktype)
    return link.name if link else str(linktype)


def _ethernet(data: bytes) -> int | str:
    return _typed(data, 12, 14, True)


def _cooked(data: bytes) -> int | str:
    return _typed(data, 14, 16)


def _cooked_v2(data: bytes) -> int | str:
    return _typed(data, 0, 20)


def _cisco(data: bytes) -> int | str:
    return _typed(data, 2, 4)


def _ppp(data: bytes, at: int = 0) -> int | str:
    at += len(_FRAMING) * data.startswith(_FRAMING, at)
    at += data.startswith(b"\0", at)
    return at + 1 if data.startswith(_PPP_IP, at) else rare.NOT_IP


def _ppp_serial(data: bytes) -> int | str:
    return _cisco(data) if data.startswith(_CISCO) else _ppp(data)


def _ppp_over_ethernet(data: bytes, at: int = 0) -> int | str:
    is_session = data.startswith(b"\0", at + 1)
    return _ppp(data, at + 6) if is_session else rare.NOT_IP


def _raw(data: bytes) -> int | str:
    return 0


def _loopback(data: bytes) -> int | str:
    # DLT_NULL is in the byte order of the machine that wrote it, DLT_LOOP in network order.
    family = data[:4]
    if int.from_bytes(family, "little") in _FAMILIES or int.from_bytes(family, "big") in _FAMILIES:
        return 4
    return rare.NOT_IP


def _typed(data: bytes, type_at: int, ip_at: int, is_ethernet: bool = False) -> int | str:
    """The offset of the IP header, or the reason why there is none. The ethertype is at `type_at`, and VLAN
    tags may follow at `ip_at`. dpkt parses what is rare after an Ethernet header."""
    ethertype = data[type_at : type_at + 2]
    while int.from_bytes(ethertype, "big") in _TAGS:
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
        return _ppp_over_ethernet(data, ip_at)
    if is_ethernet and (number in _MPLS or number < _FIRST_ETHERTYPE):
        tags = ip_at - 2 - type_at  # left out, because dpkt misreads several
        found = rare.find_ip_with_dpkt(data[:type_at] + data[type_at + tags :])
        if not isinstance(found, str):
            return found + tags
        if number not in _MPLS:
            return found
    if number in _MPLS:
        return _past_labels(data, ip_at)
    return _NAMES.get(number, f"ethertype 0x{number:04x}")


def _past_labels(data: bytes, at: int) -> int | str:
    """The offset of the IP header after MPLS labels (RFC 3032). Its first byte has its version; dpkt does not
    recognize IPv4 with options, and not all IPv6 extension headers."""
    is_last = False
    while not is_last and at + 4 <= len(data):
        is_last = bool(data[at + 2] & 1)
        at += 4
    return at if is_last and at < len(data) and data[at] >> 4 in (4, 6) else rare.NOT_IP


class _Link(NamedTuple):
    """A link type: its name in https://www.tcpdump.org/linktypes.html without LINKTYPE_, and the function
    that finds the IP header, or None if packets of this type are not read.
    """

    name: str
    find_ip: Callable[[bytes], int | str] | None = None


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
    189: _Link("USB_LINUX"),
    220: _Link("USB_LINUX_MMAPPED"),
    228: _Link("IPV4", _raw),
    229: _Link("IPV6", _raw),
    239: _Link("NFLOG"),
    253: _Link("NETLINK"),
    276: _Link("LINUX_SLL2", _cooked_v2),
}
