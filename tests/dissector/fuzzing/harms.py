"""What the fuzzer does to captures: harm to packets, from some packet on, and spoilt bytes of files."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import replace
from functools import cache

from tests.protocol.fuzz import MUTATIONS
from tests.support import damage
from tests.support.crafted import CRAFTED, crafted
from tests.support.damage import Pcap, pcap_bytes, read_pcap
from tests.support.packets import place_of, with_tcp
from tests.support.paths import CAPTURES

NAMES = [*sorted(path.name for path in CAPTURES.glob("*.pcap")), *CRAFTED]
HOUR_NS = 3600 * 10**9
SIZES = (0, 1, 20, 60, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF)

Records = list[damage.Record]


@cache
def sample(name: str) -> Pcap:
    return crafted(name) if name in CRAFTED else read_pcap((CAPTURES / name).read_bytes())


def _at(packets: Records, intact: int, rng: random.Random) -> int:
    return rng.randrange(intact, len(packets))


def flip_bits(packets: Records, intact: int, linktype: int, rng: random.Random) -> Records:
    at = _at(packets, intact, rng)
    data = bytearray(packets[at].data)
    for _ in range(rng.choice((1, 1, 4))):
        where = rng.randrange(min(len(data), rng.choice((14, 34, 54, 66, 94, 9999))) or 1)
        data[where : where + 1] = bytes([rng.randrange(256)])
    return [*packets[:at], replace(packets[at], data=bytes(data)), *packets[at + 1 :]]


def lie_about_length(packets: Records, intact: int, linktype: int, rng: random.Random) -> Records:
    at = _at(packets, intact, rng)
    record = packets[at]
    place = place_of(record, linktype)
    if place and rng.random() < 0.7:
        data = bytearray(record.data)
        field_at = place.ip + (4 if data[place.ip] >= 0x60 else 2)
        struct.pack_into("!H", data, field_at, rng.choice(SIZES) & 0xFFFF)
        record = replace(record, data=bytes(data))
    else:
        record = replace(record, length=rng.choice(SIZES))
    return [*packets[:at], record, *packets[at + 1 :]]


def snap(packets: Records, intact: int, linktype: int, rng: random.Random) -> Records:
    size = rng.choice((0, 13, 40, 66, 70, 96, 200))
    if rng.random() < 0.3:
        return packets[:intact] + damage.snap(packets[intact:], size)
    at = _at(packets, intact, rng)
    return [*packets[:at], *damage.snap(packets[at : at + 1], size), *packets[at + 1 :]]


def drop(packets: Records, intact: int, linktype: int, rng: random.Random) -> Records:
    return damage.drop(packets, {_at(packets, intact, rng) for _ in range(rng.choice((1, 3, 40)))})


def double(packets: Records, intact: int, linktype: int, rng: random.Random) -> Records:
    at = _at(packets, intact, rng)
    return damage.duplicate(packets, at, rng.randrange(1, len(packets) - at + 1))


def swap(packets: Records, intact: int, linktype: int, rng: random.Random) -> Records:
    return damage.swap(packets, _at(packets, intact, rng), _at(packets, intact, rng))


def foreign(packets: Records, intact: int, linktype: int, rng: random.Random) -> Records:
    """Packets of another capture, in between."""
    at = _at(packets, intact, rng)
    other = sample(rng.choice(NAMES)).records
    start = rng.randrange(len(other))
    now_ns = packets[at].ts_ns
    foreign = [
        replace(one, ts_ns=now_ns + 1000 * number)
        for number, one in enumerate(other[start : start + 30], 1)
    ]
    return [*packets[:at], *foreign, *packets[at:]]


def change_time(packets: Records, intact: int, linktype: int, rng: random.Random) -> Records:
    at = _at(packets, intact, rng)
    by = rng.choice((1, -1)) * rng.choice((10**6, 10**9, 100 * 10**9, 30 * HOUR_NS))
    changed = packets[at : at + rng.choice((1, 1, len(packets)))]
    moved = [replace(one, ts_ns=min(max(one.ts_ns + by, 0), 4 * 10**18)) for one in changed]
    return [*packets[:at], *moved, *packets[at + len(changed) :]]


def change_tcp(packets: Records, intact: int, linktype: int, rng: random.Random) -> Records:
    """Another sequence number, other flags, or a payload that breaks the grammar."""
    at = _at(packets, intact, rng)
    place = place_of(packets[at], linktype)
    if place is None:
        return packets
    payload, seq, flags = packets[at].data[place.payload :], place.seq, place.flags
    match rng.randrange(4):
        case 0:
            seq += rng.choice((-1, 1)) * rng.choice((1, 1000, 1 << 20, 1 << 30, 1 << 31))
        case 1:
            flags = rng.choice((0, 1, 2, 4, 16, 17, 18, 20, 63))
        case _:
            payload = rng.choice(MUTATIONS)(payload, rng)[:60_000]
    changed = with_tcp(packets[at], place, seq, flags, payload)
    return [*packets[:at], changed, *packets[at + 1 :]]


def endless_line(packets: Records, intact: int, linktype: int, rng: random.Random) -> Records:
    """A sender whose control line never ends."""
    at = _at(packets, intact, rng)
    place = place_of(packets[at], linktype)
    if place is None:
        return packets
    piece = (rng.choice((b"A", b"PUB ", b"MSG a 1 5", b"\r", b"+")) * 8000)[:60_000]
    lines = [
        with_tcp(packets[at], place, place.seq + number * len(piece), 16, piece)
        for number in range(rng.choice((2, 40)))
    ]
    return [*packets[:at], *lines, *packets[at:]]


def never_filled(packets: Records, intact: int, linktype: int, rng: random.Random) -> Records:
    """A sender whose gaps are never filled: every second byte, many times."""
    at = _at(packets, intact, rng)
    place = place_of(packets[at], linktype)
    if place is None:
        return packets
    gaps = [
        with_tcp(packets[at], place, place.seq + 2 * number + 1, 16, b"x")
        for number in range(rng.choice((10, 500)))
    ]
    return [*packets[:at], *gaps, *packets[at:]]


def half_open(packets: Records, intact: int, linktype: int, rng: random.Random) -> Records:
    """Connections that are opened and left."""
    at = _at(packets, intact, rng)
    place = place_of(packets[at], linktype)
    if place is None:
        return packets
    syns = []
    for port in range(1, rng.choice((20, 400))):
        syn = with_tcp(packets[at], place, rng.randrange(1 << 32), 2, b"")
        data = bytearray(syn.data)
        struct.pack_into("!H", data, place.tcp, port)
        syns.append(replace(syn, data=bytes(data)))
    return [*packets[:at], *syns, *packets[at:]]


def set_byte(data: bytes, at: int, rng: random.Random) -> bytes:
    return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]


def set_word(data: bytes, at: int, rng: random.Random) -> bytes:
    return data[:at] + struct.pack("<I", rng.choice(SIZES)) + data[at + 4 :]


def cut_off(data: bytes, at: int, rng: random.Random) -> bytes:
    return data[:at]


def insert(data: bytes, at: int, rng: random.Random) -> bytes:
    return data[:at] + rng.randbytes(rng.choice((1, 4, 16, 1000))) + data[at:]


def remove(data: bytes, at: int, rng: random.Random) -> bytes:
    return data[:at] + data[at + rng.choice((1, 4, 16, 1000)) :]


def splice(data: bytes, at: int, rng: random.Random) -> bytes:
    """The rest of another file."""
    other = pcap_bytes(sample(rng.choice(NAMES)))
    return data[:at] + other[rng.randrange(len(other)) :]


Harm = Callable[[Records, int, int, random.Random], Records]
HARMS: tuple[Harm, ...] = (
    *(flip_bits, lie_about_length, snap, drop, double, swap, foreign, change_time),
    *(change_tcp, change_tcp, endless_line, never_filled, half_open),
)
Spoil = Callable[[bytes, int, random.Random], bytes]
SPOILS: tuple[Spoil, ...] = (set_byte, set_word, cut_off, insert, remove, splice)
