"""Tunnels: datagrams that carry another packet.

Supported are GRE (RFC 2784, 2890) with checksum, key and sequence number, around IP or Ethernet; ERSPAN I to
III in GRE, with which switches forward mirrored packets (draft-foschiano-erspan-03); VXLAN (RFC 7348) on its
port and on the port that Linux used before; Geneve (RFC 8926); GTP-U (3GPP TS 29.281), in which mobile
networks carry IP packets; IP in IP. This is our own code, because dpkt
reads the packet inside a GRE header of any version and flags, does not know Ethernet there, and parses all
inner layers at once, however deep they are.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from .ip import CUT_OFF, GRE, IPIP, IPV6, UDP, proto_name
from .link import Networks

_IPV4_TYPE, _IPV6_TYPE, _BRIDGED = 0x0800, 0x86DD, 0x6558
_CHECKSUM, _ROUTED, _KEY, _SEQUENCE, _VERSION = 0x8000, 0x4000, 0x2000, 0x1000, 0x0007
_ERSPAN, _ERSPAN_III = 0x88BE, 0x22EB
_ERSPAN_VLAN = 0xFFF
_ETHERNET_FRAME, _IP_FRAME = 0, 2
_VXLAN_PORTS, _GENEVE_PORT = (4789, 8472), 6081
_VXLAN_HEADER = 8
# GTP-U: the version and the bit that tells GTP from GTP', the type of a message that carries a packet, the
# flags for optional fields, the sizes of the header and of these fields.
_GTP_PORT, _GTP_VERSION, _GTP_VERSION_1, _GTP_PACKET = 2152, 0xF0, 0x30, 255
_GTP_OPTIONS, _GTP_HEADER, _GTP_OPTIONAL = 0x07, 8, 4

CARRIERS = (IPIP, UDP, IPV6, GRE)


class Inside(NamedTuple):
    """Where the inner packet begins, and whether it begins with an Ethernet header or with an IP header."""

    start: int
    ethernet: bool


def look_inside(proto: int, data: bytes, start: int, end: int, networks: Networks) -> Inside | str:
    """The inner packet of a datagram whose contents begin at `start`; or the name of the datagram's protocol,
    if it carries no packet. The key or the network identifier of the tunnel is added to `networks`.
    """
    if proto in (IPIP, IPV6):
        return Inside(start, False)
    if proto == GRE:
        return _gre(data, start, networks)
    if proto == UDP:
        return _udp(data, start, end, networks)
    return proto_name(proto)


def _gre(data: bytes, start: int, networks: Networks) -> Inside | str:
    if start + 4 > len(data):
        return CUT_OFF
    flags, kind = struct.unpack_from("!HH", data, start)
    if flags & (_ROUTED | _VERSION):
        return proto_name(GRE)
    size = 4 + 4 * sum(bool(flags & flag) for flag in (_CHECKSUM, _KEY, _SEQUENCE))
    if flags & _KEY:
        at = start + 4 + 4 * bool(flags & _CHECKSUM)
        networks.append(f"key {int.from_bytes(data[at : at + 4], 'big')}")
    if kind == _ERSPAN and not flags & _SEQUENCE:  # type I has no ERSPAN header
        return Inside(start + size, True)
    if kind in (_ERSPAN, _ERSPAN_III):
        return _erspan(kind, data, start + size, networks)
    return _typed(kind, start + size) or proto_name(GRE)


def _erspan(kind: int, data: bytes, start: int, networks: Networks) -> Inside | str:
    """The packet that a switch mirrored, after the ERSPAN header of type II or III at `start`. Type III says
    whether the packet is Ethernet or IP, and may have one more header."""
    size = 8 if kind == _ERSPAN else 12
    if start + size > len(data):
        return CUT_OFF
    if data[start] >> 4 != (1 if kind == _ERSPAN else 2):
        return proto_name(GRE)
    if vlan := int.from_bytes(data[start : start + 2], "big") & _ERSPAN_VLAN:
        networks.append(f"vlan {vlan}")
    if kind == _ERSPAN:
        return Inside(start + size, True)
    frame_type, has_platform = data[start + 10] >> 2 & 0x1F, data[start + 11] & 1
    if frame_type not in (_ETHERNET_FRAME, _IP_FRAME):
        return proto_name(GRE)
    return Inside(start + size + 8 * has_platform, frame_type == _ETHERNET_FRAME)


def _udp(data: bytes, start: int, end: int, networks: Networks) -> Inside | str:
    """The packet in a VXLAN, Geneve or GTP-U tunnel. A port alone proves little: the tunnel's header must be
    valid, too."""
    body = start + 8
    if body + 8 > min(len(data), end):
        return proto_name(UDP)
    (port,) = struct.unpack_from("!H", data, start + 2)
    first, second, kind = struct.unpack_from("!BBH", data, body)
    vni = f"vni {int.from_bytes(data[body + 4 : body + 7], 'big')}"
    if port in _VXLAN_PORTS and first & 0x08 and not data[body + 7]:
        networks.append(vni)
        return Inside(body + _VXLAN_HEADER, True)
    if port == _GENEVE_PORT and first >> 6 == 0 and not second & 0x3F and not data[body + 7]:
        networks.append(vni)
        return _typed(kind, body + 8 + (first & 0x3F) * 4) or proto_name(UDP)
    if port == _GTP_PORT and first & _GTP_VERSION == _GTP_VERSION_1 and second == _GTP_PACKET:
        return _gtp(data, body, min(len(data), end), networks) or proto_name(UDP)
    return proto_name(UDP)


def _gtp(data: bytes, start: int, end: int, networks: Networks) -> Inside | None:
    """The IP packet in a GTP-U message, after its extension headers."""
    at = start + _GTP_HEADER
    if data[start] & _GTP_OPTIONS:
        at += _GTP_OPTIONAL
        while (
            at < end and data[at - 1]
        ):  # the type of the next extension header; 0 is the last one's
            if not data[at]:
                return None
            at += 4 * data[at]
    if at >= end or data[at] >> 4 not in (4, 6):
        return None
    networks.append(f"teid {int.from_bytes(data[start + 4 : start + 8], 'big')}")
    return Inside(at, False)


def _typed(kind: int, start: int) -> Inside | None:
    if kind in (_IPV4_TYPE, _IPV6_TYPE):
        return Inside(start, False)
    return Inside(start, True) if kind == _BRIDGED else None
