"""TCP packets of any captured link, found and rewritten: other payload, other sequence number, VLAN tags.

Pure functions on the records of `damage`. The common packets only: IPv4 without fragments and IPv6 without
extension headers, as the sample captures have them. Checksums are left as they were; nobody looks at them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.support.damage import Record

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
_NULL, ETHERNET, RAW, SLL, SLL2 = 0, 1, 101, 113, 276
# Link type -> size of its header, and where it keeps the type of what follows (Ethernet's numbers).
_LINKS = {ETHERNET: (14, 12), SLL: (16, 14), SLL2: (20, 0), RAW: (0, None), _NULL: (4, None)}
_VLAN = 0x8100


@dataclass(frozen=True, slots=True)
class Place:
    """Where things are in a packet with TCP: offsets of its headers and of its payload, which has
    `length` bytes on the wire. `key` names its direction."""

    ip: int
    tcp: int
    payload: int
    length: int
    key: bytes
    seq: int
    ack: int
    flags: int


def place_of(record: Record, linktype: int) -> Place | None:
    """The parts of a packet; None if it has no whole TCP header."""
    data = record.data
    if linktype not in _LINKS:
        return None
    ip, kind = _LINKS[linktype]
    if len(data) < ip + 40:
        return None
    if kind is not None and data[kind : kind + 2] not in (b"\x08\x00", b"\x86\xdd"):
        return None
    six = data[ip : ip + 1] >= b"\x60"
    tcp = ip + (40 if six else (data[ip] & 15) * 4)
    if len(data) < tcp + 20 or data[ip + (6 if six else 9)] != 6:
        return None
    (size,) = struct.unpack_from("!H", data, ip + (4 if six else 2))
    end = ip + size + (40 if six else 0)
    payload = tcp + (data[tcp + 12] >> 4) * 4
    if payload < tcp + 20:
        return None
    addresses = data[ip + 8 : ip + 40] if six else data[ip + 12 : ip + 20]
    seq, ack = struct.unpack_from("!II", data, tcp + 4)
    key = addresses + data[tcp : tcp + 4]
    return Place(ip, tcp, payload, end - payload, key, seq, ack, data[tcp + 13])


def with_tcp(
    record: Record, place: Place, seq: int, flags: int, payload: bytes, length: int | None = None
) -> Record:
    """The packet with another sequence number, other flags and another payload, of which `length` bytes
    were on the wire. The other lengths follow."""
    on_wire = len(payload) if length is None else length
    head = bytearray(record.data[: place.payload])
    struct.pack_into("!I", head, place.tcp + 4, seq & 0xFFFFFFFF)
    head[place.tcp + 13] = flags
    six = head[place.ip] >= 0x60
    size = place.payload - place.ip + on_wire - (40 if six else 0)
    struct.pack_into("!H", head, place.ip + (4 if six else 2), size)
    return replace(record, data=bytes(head) + payload, length=place.payload + on_wire)


def part(record: Record, place: Place, start: int, stop: int) -> Record:
    """The packet as if it carried this part of its payload only. FIN goes with the last byte."""
    flags = place.flags if stop == place.length else place.flags & ~FIN
    payload = record.data[place.payload : place.payload + place.length][start:stop]
    return with_tcp(record, place, place.seq + start, flags, payload, stop - start)


def tagged(record: Record, numbers: Sequence[int]) -> Record:
    """An Ethernet packet in VLANs."""
    tags = b"".join(struct.pack("!HH", _VLAN, number) for number in numbers)
    data = record.data[:12] + tags + record.data[12:]
    return replace(record, data=data, length=record.length + len(tags))
