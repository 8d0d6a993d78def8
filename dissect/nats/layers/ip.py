"""IP headers: who talks to whom, and where the TCP header and the payload's end are.

IPv4 with options (RFC 791), IPv6 with its extension headers (RFC 8200). The end is what the IP header
says, so that padding and trailers of the link are left out and cut packets show their true size. A
length of 0 stands in packets that a network card was to split (and in IPv6 ones above 64 KiB): the end
is then that of the packet. Fragments give nothing.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

TCP = 6
_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION = 0, 43, 44, 51, 60
_NAMES = {
    1: "icmp",
    2: "igmp",
    17: "udp",
    47: "gre",
    50: "esp",
    58: "icmpv6",
    89: "ospf",
    132: "sctp",
}

CUT_OFF = "header cut off"
_FRAGMENTED = "ip fragment"

_IPV4 = struct.Struct("!H2xHxB2x8s")
_IPV6 = struct.Struct("!HBx32s")


class Transport(NamedTuple):
    """The TCP header begins at `start`, the IP packet ends at `end`; `addresses` are source, target."""

    addresses: bytes
    start: int
    end: int


def find_tcp(data: bytes, at: int, packet_end: int) -> Transport | str:
    """Where the TCP header is, from the IP header at `at`; or the reason why there is none.

    `packet_end` is where the packet ended on the wire, however little of it is in `data`.
    """
    version = data[at] >> 4 if at < len(data) else 0
    if version == 4:
        return _ipv4(data, at, packet_end)
    if version == 6:
        return _ipv6(data, at, packet_end)
    return f"ip version {version}" if at < len(data) else CUT_OFF


def _ipv4(data: bytes, at: int, packet_end: int) -> Transport | str:
    if at + 20 > len(data):
        return CUT_OFF
    total, fragment, proto, addresses = _IPV4.unpack_from(data, at + 2)
    start = at + (data[at] & 15) * 4
    end = at + total if total else packet_end
    if fragment & 0x3FFF:  # an offset, or more to follow
        return _FRAGMENTED
    if proto != TCP:
        return _NAMES.get(proto, f"ip protocol {proto}")
    if not at + 20 <= start <= end:
        return "bad ip header"
    return Transport(addresses, start, end)


def _ipv6(data: bytes, at: int, packet_end: int) -> Transport | str:
    start = at + 40
    if start > len(data):
        return CUT_OFF
    size, proto, addresses = _IPV6.unpack_from(data, at + 4)
    end = start + size if size else packet_end
    while proto in (_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION):
        if start + 8 > len(data):
            return CUT_OFF
        if proto == _FRAGMENT and (data[start + 2] << 8 | data[start + 3]) & 0xFFF9:
            return _FRAGMENTED
        words = data[start + 1]
        sizes = {_FRAGMENT: 8, _AUTHENTICATION: (words + 2) * 4}
        start, proto = start + sizes.get(proto, (words + 1) * 8), data[start]
    if proto != TCP:
        return _NAMES.get(proto, f"ip protocol {proto}")
    if start > end:
        return "bad ip header"
    return Transport(addresses, start, end)
