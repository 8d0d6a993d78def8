"""Captures taken apart and put together again, with harm done in between.

Everything is a pure function of its arguments: a pcap file's bytes become a `Pcap` value, its
records can be dropped, swapped, doubled, cut short or started late, and it becomes bytes again.
What is picked at random is picked from a seed. Positions are 0-based here; packet numbers, as
tcpdump and Wireshark count, are position + 1.

Only classic pcap is read (both byte orders, micro- and nanoseconds): tcpdump writes nothing else.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

FILE_HEADER = 24
RECORD_HEADER = 16
MAGICS = {b"\xd4\xc3\xb2\xa1": ("<", 1000), b"\xa1\xb2\xc3\xd4": (">", 1000)}
MAGICS |= {b"\x4d\x3c\xb2\xa1": ("<", 1), b"\xa1\xb2\x3c\x4d": (">", 1)}

LINKTYPE_ETHERNET = 1


@dataclass(frozen=True, slots=True)
class Record:
    """One captured packet. `length` is what it had on the wire, `data` what was kept of it."""

    ts_ns: int
    data: bytes
    length: int


@dataclass(frozen=True, slots=True)
class Pcap:
    """A pcap file: its 24 header bytes as they are, and its records."""

    header: bytes
    records: tuple[Record, ...]

    @property
    def linktype(self) -> int:
        order, _ = MAGICS[self.header[:4]]
        (linktype,) = struct.unpack_from(order + "I", self.header, 20)
        return int(linktype) & 0xFFFF

    def with_records(self, records: Sequence[Record]) -> Pcap:
        return replace(self, records=tuple(records))


def read_pcap(data: bytes) -> Pcap:
    """The file's complete records, without one cut short at the end. ValueError if no pcap."""
    if data[:4] not in MAGICS or len(data) < FILE_HEADER:
        raise ValueError("not a pcap file")
    order, unit_ns = MAGICS[data[:4]]
    records = []
    at = FILE_HEADER
    while at + RECORD_HEADER <= len(data):
        seconds, fraction, kept, length = struct.unpack_from(order + "4I", data, at)
        at += RECORD_HEADER
        if at + kept > len(data):
            break
        records.append(Record(seconds * 10**9 + fraction * unit_ns, data[at : at + kept], length))
        at += kept
    return Pcap(data[:FILE_HEADER], tuple(records))


def pcap_bytes(pcap: Pcap) -> bytes:
    """The file again: `pcap_bytes(read_pcap(data)) == data` for an undamaged one."""
    order, unit_ns = MAGICS[pcap.header[:4]]
    parts = [pcap.header]
    for record in pcap.records:
        seconds, rest_ns = divmod(record.ts_ns, 10**9)
        parts.append(
            struct.pack(order + "4I", seconds, rest_ns // unit_ns, len(record.data), record.length)
        )
        parts.append(record.data)
    return b"".join(parts)


def drop(records: Sequence[Record], positions: Collection[int]) -> list[Record]:
    """Without the records at these positions: packets that the capturing machine missed."""
    return [record for position, record in enumerate(records) if position not in positions]


def swap(records: Sequence[Record], first: int, second: int) -> list[Record]:
    """The packets at the two positions change places; the times stay where they are."""
    result = list(records)
    a, b = result[first], result[second]
    result[first] = replace(b, ts_ns=a.ts_ns)
    result[second] = replace(a, ts_ns=b.ts_ns)
    return result


def duplicate(records: Sequence[Record], position: int, later: int = 1) -> list[Record]:
    """The packet at `position` is seen a second time, `later` records after the first."""
    at = min(position + later, len(records))
    again = replace(records[position], ts_ns=records[at - 1].ts_ns)
    return [*records[:at], again, *records[at:]]


def snap(records: Sequence[Record], snaplen: int) -> list[Record]:
    """At most `snaplen` bytes kept of each packet, as `tcpdump -s` does."""
    return [replace(record, data=record.data[:snaplen]) for record in records]


def start_at(records: Sequence[Record], position: int) -> list[Record]:
    """The capture began just before this record: every flow that was open then is midstream."""
    return list(records[position:])


def cut(data: bytes, position: int, kept: int) -> bytes:
    """The file up to the record at `position` and `kept` bytes of that: a recorder died."""
    pcap = read_pcap(data)
    return data[: len(pcap_bytes(pcap.with_records(pcap.records[:position]))) + kept]


@dataclass(frozen=True, slots=True)
class Segment:
    """The TCP payload of one packet. `stream` names the direction: `ip:port>ip:port`."""

    stream: str
    seq: int
    payload: bytes


def segment(record: Record, linktype: int = LINKTYPE_ETHERNET) -> Segment | None:
    """What a record carries, for TCP over IPv4 over Ethernet; None if that is nothing."""
    data = record.data
    if linktype != LINKTYPE_ETHERNET or data[12:14] != b"\x08\x00" or data[23] != 6:
        return None
    tcp = 14 + (data[14] & 15) * 4
    (total,) = struct.unpack_from("!H", data, 16)
    source, target, seq = struct.unpack_from("!HHI", data, tcp)
    payload = data[tcp + (data[tcp + 12] >> 4) * 4 : 14 + total]
    if not payload:
        return None
    ends = [
        f"{'.'.join(map(str, data[at : at + 4]))}:{port}"
        for at, port in ((26, source), (30, target))
    ]
    return Segment(">".join(ends), seq, payload)


def stream_offsets(records: Sequence[Record]) -> dict[int, tuple[Segment, int]]:
    """For each record with payload: its segment, and the offset of its first byte in its stream.

    Meant for whole captures: the first payload seen of a stream is its offset 0.
    """
    starts: dict[str, int] = {}
    found = {}
    for position, record in enumerate(records):
        here = segment(record)
        if here is not None:
            start = starts.setdefault(here.stream, here.seq)
            found[position] = here, (here.seq - start) & 0xFFFFFFFF
    return found


@dataclass(frozen=True, slots=True)
class Harm:
    """What `harm` did, by positions in the capture it was given."""

    dropped: tuple[int, ...]
    swapped: tuple[tuple[int, int], ...]
    duplicated: tuple[int, ...]


def harm(
    records: Sequence[Record],
    seed: int,
    losses: int,
    swaps: int,
    duplicates: int,
    smallest: int = 1,
) -> tuple[list[Record], Harm]:
    """Lose, swap and double that many packets of at least `smallest` payload bytes, none twice.

    No packet that opens or ends a stream is touched, so that what is lost can be noticed. A swap
    takes two packets of one stream that follow each other at once. Losses are packets that the
    capture missed while the receiver got them: no retransmission follows.
    """
    chance = random.Random(seed)
    pairs = _neighbours(records, smallest)
    chance.shuffle(pairs)
    adjacent = [pair for pair in pairs if pair[1] == pair[0] + 1]
    used: set[int] = set()
    swapped = _take(swaps, adjacent, used)
    picked = [first for first, _ in _take(losses + duplicates, pairs, used)]
    dropped, duplicated = sorted(picked[:losses]), sorted(picked[losses:])
    result = list(records)
    for first, second in swapped:
        result = swap(result, first, second)
    for position in sorted(picked, reverse=True):
        result = drop(result, {position}) if position in dropped else duplicate(result, position, 3)
    return result, Harm(tuple(dropped), tuple(sorted(swapped)), tuple(duplicated))


def _take(count: int, pairs: list[tuple[int, int]], used: set[int]) -> list[tuple[int, int]]:
    """So many pairs that touch nothing used yet; they are used from now on."""
    taken: list[tuple[int, int]] = []
    for pair in pairs:
        if len(taken) < count and used.isdisjoint(pair):
            used.update(pair)
            taken.append(pair)
    if len(taken) < count:
        raise ValueError("the capture is too small for so much harm")
    return taken


def _neighbours(records: Sequence[Record], smallest: int) -> list[tuple[int, int]]:
    """Positions of a payload packet, past its stream's first, and of the stream's next one."""
    last: dict[str, int] = {}
    pairs = []
    for position, (here, offset) in sorted(stream_offsets(records).items()):
        if here.stream in last:
            pairs.append((last.pop(here.stream), position))
        if offset and len(here.payload) >= smallest:
            last[here.stream] = position
    return pairs
