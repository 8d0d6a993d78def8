"""IP headers: addresses, the protocol inside, and where it begins and ends.

IPv4 with options (RFC 791), IPv6 with its extension headers (RFC 8200). The length in the IP header sets the
end, so that padding and trailers of the link are excluded, and cut packets have their true size. If it is 0,
the contents end where the packet ends: such packets were captured before the network card split them
(segmentation offload), or are IPv6 packets above 64 KiB.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

IPIP, TCP, UDP, IPV6, GRE = 4, 6, 17, 41, 47
_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION = 0, 43, 44, 51, 60
EXTENSIONS = (_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION)
_NAMES = {
    1: "icmp",
    2: "igmp",
    IPIP: "ip in ip",
    UDP: "udp",
    IPV6: "ipv6 in ip",
    GRE: "gre",
    50: "esp",
    58: "icmpv6",
    89: "ospf",
    132: "sctp",
}

CUT_OFF = "header cut off"

_IPV4 = struct.Struct("!HHHxB2x8s")
_IPV6 = struct.Struct("!HBx32s")
_MORE = 0x2000


class Fragment(NamedTuple):
    """The place of a fragment: the identity of its `datagram`, its `offset` in bytes, and whether `more`
    fragments follow."""

    datagram: bytes
    offset: int
    more: bool


class Datagram(NamedTuple):
    """The contents of an IP packet: data of the protocol `proto` from `start` to `end` on the wire.
    `addresses` has the source and the destination address."""

    addresses: bytes
    proto: int
    start: int
    end: int
    fragment: Fragment | None = None


def proto_name(proto: int) -> str:
    """The name of a protocol that is not decoded."""
    return _NAMES.get(proto, f"ip protocol {proto}")


def find_datagram(data: bytes, at: int, packet_end: int) -> Datagram | str:
    """The contents of the IP packet whose header is at `at`, or the reason why they are unknown.

    `packet_end` is where the packet ended on the wire, even if less of it was captured in `data`.
    """
    version = data[at] >> 4 if at < len(data) else 0
    if version == 4:
        return _ipv4(data, at, packet_end)
    if version == 6:
        return _ipv6(data, at, packet_end)
    return f"ip version {version}" if at < len(data) else CUT_OFF


def past_extensions(data: bytes, inside: Datagram) -> Datagram | str:
    """The contents after the IPv6 extension headers, or after the fragment header if there are other
    fragments; or the reason why they are unknown."""
    addresses, proto, start, end, _ = inside
    while proto in EXTENSIONS:
        if start + 8 > len(data):
            return CUT_OFF
        following, words = data[start], data[start + 1]
        if proto == _FRAGMENT:
            part = data[start + 2] << 8 | data[start + 3]
            if part & 0xFFF9:  # an offset, or more to follow
                datagram = addresses + data[start + 4 : start + 8]
                fragment = Fragment(datagram, part & 0xFFF8, bool(part & 1))
                return Datagram(addresses, following, start + 8, end, fragment)
            start += 8
        else:
            start += (words + 2) * 4 if proto == _AUTHENTICATION else (words + 1) * 8
        proto = following
    return Datagram(addresses, proto, start, end) if start <= end else "bad ip header"


def _ipv4(data: bytes, at: int, packet_end: int) -> Datagram | str:
    if at + 20 > len(data):
        return CUT_OFF
    total, name, part, proto, addresses = _IPV4.unpack_from(data, at + 2)
    start = at + (data[at] & 15) * 4
    end = at + total if total else packet_end
    if not at + 20 <= start <= end:
        return "bad ip header"
    fragment = None
    if part & 0x3FFF:  # an offset, or more to follow
        datagram = addresses + struct.pack("!HB", name, proto)
        fragment = Fragment(datagram, (part & 0x1FFF) * 8, bool(part & _MORE))
    inside = Datagram(addresses, proto, start, end, fragment)
    return past_extensions(data, inside) if proto == _AUTHENTICATION and not fragment else inside


def _ipv6(data: bytes, at: int, packet_end: int) -> Datagram | str:
    start = at + 40
    if start > len(data):
        return CUT_OFF
    size, proto, addresses = _IPV6.unpack_from(data, at + 4)
    inside = Datagram(addresses, proto, start, start + size if size else packet_end)
    return past_extensions(data, inside)
