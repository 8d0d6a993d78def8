"""Segments that were damaged on the wire: their checksum is wrong, and their receiver drops them.

A wrong checksum alone shows no damage: a machine that records its own traffic sees packets before the network
card fills in their checksums, or after it has joined several. So the first packet of a side decides whether
its checksums mean anything (`Stream.checks`), until one has the form in which systems leave it to the card.

A checksum costs 0.3 to 2 us for a segment, according to its size, so only sides whose checksums are right pay
for it. It cannot be put off until another copy of the bytes comes: by then, the frames of the first copy were
handed on.
"""

from __future__ import annotations

from ..schema.anomalies import Anomaly
from ..types import DAMAGED, Item, Oddity, Segment
from .flow import Side

_TCP = 6
_ACK = 16
_ALL = 0x117  # FIN, SYN, RST, ACK, and `types.ELSEWHERE`
_PORTS_AND_NUMBERS = 12  # bytes of a TCP header before `Segment.header`
# The one's complement sum of words of 16 bits is the number that all bytes make, modulo this.
_MODULUS = 0xFFFF
_number = int.from_bytes


def is_damaged(side: Side, segment: Segment) -> bool:
    """Whether a segment was damaged on the wire. Learns whether checksums of its side mean anything."""
    stream = side.stream
    if not side.packets:
        stream.checks = is_right(segment)
    elif stream.checks and segment.length and segment.flags & _ALL == _ACK and is_wrong(segment):
        stream.checks = not is_partial(segment)
        return stream.checks
    return False


def take_damaged(side: Side, segment: Segment) -> list[Item]:
    """Adds a damaged segment, whose bytes then wait for a true copy; returns what becomes available. Of its
    header, which may be damaged, nothing is used but the sequence number."""
    side.packets += 1
    side.bytes += segment.length
    segment.flags |= DAMAGED
    if side.stream.near(segment.seq):
        return side.stream.push(segment)
    place = segment.ts_ns, segment.number, segment.capture, side.stream.offset
    return [Oddity(*place, 0, Anomaly.BAD_CHECKSUM)]


def is_right(segment: Segment) -> bool:
    """Whether the checksum of a segment is known to be right (RFC 9293, 3.1). It is unknown unless all bytes
    of the segment were captured."""
    return _is_whole(segment) and not _rest(segment)


def is_wrong(segment: Segment) -> bool:
    """Whether the checksum of a segment is known to be wrong."""
    return _is_whole(segment) and bool(_rest(segment))


def _is_whole(segment: Segment) -> bool:
    """Whether all bytes of a segment were captured and are those of the packet."""
    header = segment.header
    whole = bool(header) and (header[0] >> 4) * 4 == _PORTS_AND_NUMBERS + len(header)
    return whole and len(segment.payload) == segment.length


def _rest(segment: Segment) -> int:
    """The sum of all words that the checksum covers; 0 if it is right."""
    header, length = segment.header, segment.length
    payload = _number(segment.payload, "big") % _MODULUS << 8 * (length & 1)
    others = _number(segment.key + header, "big") + segment.seq + segment.ack
    return (payload + others + _TCP + _PORTS_AND_NUMBERS + len(header) + length) % _MODULUS


def is_partial(segment: Segment) -> bool:
    """Whether a checksum is 0, or only covers addresses, protocol and size, as Linux leaves it to network
    cards, and sets it in packets that it has joined (net/ipv4/tcp_offload.c). The size may be left out.
    """
    size = _PORTS_AND_NUMBERS + len(segment.header) + segment.length
    base = _number(segment.key[:-4], "big") + _TCP
    return segment.checksum in (0, base % _MODULUS, (base + size) % _MODULUS)
