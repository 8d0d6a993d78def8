"""TCP headers: a packet -> the segment in it, or the reason why there is none.

Follows RFC 9293. Options are passed over by the header's length; checksums are not looked at.
"""

from __future__ import annotations

import struct
from collections import Counter

from ..wire import Packet, Segment
from .ip import CUT_OFF, find_tcp
from .link import find_ip

_ETHERNET = 1
_IPV4 = 0x0800
_TCP = 6
_FIVE_WORDS = 0x45  # IPv4 without options
# The common packet in one go: ethertype; first byte, length, fragment, protocol of IPv4; addresses and
# ports (which are neighbours then), sequence, acknowledgement, offset, flags of TCP.
_COMMON = struct.Struct("!12xHBxH2xHxB2x12sIIBB")
_unpack = _COMMON.unpack_from
_HEADER = struct.Struct("!4sIIBB")

# Far above what Linux sends as one packet (512 KiB with "BIG TCP"), far below half the sequence space.
_LARGEST = 1 << 24


class Layers:
    """Takes packets apart. `passed_over` counts those that gave no segment, by reason: "udp", "arp",
    "ip fragment", "header cut off", "link type 147" ..."""

    def __init__(self) -> None:
        self.passed_over: Counter[str] = Counter()

    def segment_of(self, packet: Packet) -> Segment | None:
        """The TCP segment in a packet; None, and the reason counted, where there is none. Never raises."""
        data = packet.data
        if packet.linktype == _ETHERNET and len(data) >= _COMMON.size:
            kind, first, total, fragment, proto, key, seq, ack, offset, flags = _unpack(data)
            header = (offset >> 4) * 4 + 20
            length = total - header
            if (
                kind == _IPV4
                and first == _FIVE_WORDS
                and proto == _TCP
                and header >= 40
                and length >= 0
                and not fragment & 0x3FFF  # neither an offset nor more to follow
            ):
                payload = data[header + 14 : total + 14]
                return Segment(
                    packet.ts_ns,
                    packet.number,
                    packet.capture,
                    key,
                    seq,
                    ack,
                    flags,
                    payload,
                    length,
                )
        segment = _any_segment(packet)
        if isinstance(segment, str):
            self.passed_over[segment] += 1
            return None
        return segment


def _any_segment(packet: Packet) -> Segment | str:
    """The segment behind whatever headers, or the reason why there is none."""
    data = packet.data
    at = find_ip(packet.linktype, data)
    if isinstance(at, str):
        return at
    found = find_tcp(data, at, packet.wire_bytes)
    if isinstance(found, str):
        return found
    addresses, start, end = found
    if start + _HEADER.size > len(data):
        return CUT_OFF
    ports, seq, ack, offset, flags = _HEADER.unpack_from(data, start)
    body = start + (offset >> 4) * 4
    if not start + 20 <= body <= end or end - body > _LARGEST:
        return "bad tcp header"
    return Segment(
        packet.ts_ns,
        packet.number,
        packet.capture,
        addresses + ports,
        seq,
        ack,
        flags,
        data[body:end],
        end - body,
    )
