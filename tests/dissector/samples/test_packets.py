"""Every sample with its packets in disorder, repeated, cut and overlapping: the frames are the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.dissector.samples.rows import PCAPS, PLACES, TIMES, rewritten, same_frames, sample
from tests.support.damage import Record
from tests.support.packets import FIN, RST, SYN, Place, part, place_of
from tests.support.pcapwriter import with_checksum

WINDOW = 6
# Less than reassembly waits for bytes that were acknowledged already.
CLOSE_NS = 50_000_000
TAP_DELAY_NS = 20_000

# Where no handshake was captured whole, a PING has no kind before something else proves one.
UNSURE = {"snap96.pcap": {"kind"}}

every_sample = pytest.mark.parametrize("name", PCAPS)


def placed(name: str) -> list[tuple[Record, Place | None]]:
    pcap = sample(name)
    return [(record, place_of(record, pcap.linktype)) for record in pcap.records]


def shuffled(name: str, rng: random.Random) -> list[Record]:
    """Packets with payload change places with those that follow at once in their connection; times stay
    where they are, and so does what begins and ends a connection, and the first packet of each direction.
    """
    packets = placed(name)
    seen: set[bytes] = set()
    loose: dict[frozenset[bytes], list[int]] = {}
    for at, (_, place) in enumerate(packets):
        if place and place.length and place.key in seen and not place.flags & (SYN | FIN | RST):
            loose.setdefault(connection(place.key), []).append(at)
        if place:
            seen.add(place.key)
    result = [record for record, _ in packets]
    for positions in loose.values():
        for start in range(0, len(positions), WINDOW):
            window = positions[start : start + WINDOW]
            times = [packets[at][0].ts_ns for at in window]
            if times[-1] - times[0] > CLOSE_NS:
                continue
            for at, other in zip(window, rng.sample(window, len(window))):
                result[at] = replace(packets[other][0], ts_ns=packets[at][0].ts_ns)
    return result


def connection(key: bytes) -> frozenset[bytes]:
    """The two ends of a direction."""
    size = (len(key) - 4) // 2
    return frozenset((key[:size] + key[-4:-2], key[size : 2 * size] + key[-2:]))


@every_sample
def test_packets_in_disorder_give_the_same_frames(name: str, tmp_path: Path) -> None:
    rng = random.Random(name)
    for _ in range(2):
        path = rewritten(tmp_path, name, shuffled(name, rng))
        same_frames(name, [path], PLACES | TIMES | UNSURE.get(name, set()))


@every_sample
def test_packets_that_come_again(name: str, tmp_path: Path) -> None:
    rng = random.Random(name)
    waiting: list[tuple[int, Record]] = []
    result = []
    for at, record in enumerate(sample(name).records):
        result.append(record)
        waiting.append((at + rng.randrange(12), record))
        result += [replace(again, ts_ns=record.ts_ns) for due, again in waiting if due <= at]
        waiting = [item for item in waiting if item[0] > at]
    same_frames(name, [rewritten(tmp_path, name, result)])


@every_sample
def test_the_same_packets_from_two_taps(name: str, tmp_path: Path) -> None:
    """The second tap stands behind a router: it sees everything a little later, with a smaller TTL."""
    linktype = sample(name).linktype
    late = []
    for record in sample(name).records:
        data, place = bytearray(record.data), place_of(record, linktype)
        if place:
            data[place.ip + (7 if data[place.ip] >= 0x60 else 8)] -= 1
        late.append(replace(record, data=bytes(data), ts_ns=record.ts_ns + TAP_DELAY_NS))
    merged = sorted([*sample(name).records, *late], key=lambda record: record.ts_ns)
    same_frames(name, [rewritten(tmp_path, name, merged)])


def pieces(record: Record, place: Place, rng: random.Random) -> Iterator[Record]:
    cuts = sorted(rng.randrange(1, place.length) for _ in range(2)) if place.length > 1 else []
    for start, stop in zip([0, *cuts], [*cuts, place.length]):
        if start < stop:
            yield part(record, place, start, stop)


def overlapping(record: Record, place: Place, rng: random.Random) -> Iterator[Record]:
    start, stop = sorted(rng.randrange(place.length + 1) for _ in range(2))
    if stop:
        yield part(record, place, 0, stop)
    yield part(record, place, min(start, place.length - 1), place.length)


def summed(record: Record, place: Place) -> Record:
    """The packet with the right checksum of TCP."""
    packet = record.data[place.ip :]
    ethernet = bytes(12) + (b"\x08\0" if packet[0] >> 4 == 4 else b"\x86\xdd")
    right = with_checksum(replace(record, data=ethernet + packet))
    return replace(record, data=record.data[: place.ip] + right.data[len(ethernet) :])


@every_sample
@pytest.mark.parametrize("cut", [pieces, overlapping])
def test_payloads_in_other_segments(name: str, cut: type[Iterator[Record]], tmp_path: Path) -> None:
    rng = random.Random(name)
    result: list[Record] = []
    for record, place in placed(name):
        if place and place.length > 0 and not place.flags & SYN:
            is_right = summed(record, place) == record
            for one in cut(record, place, rng):  # type: ignore[call-arg]  # one of two functions
                result.append(summed(one, place) if is_right else one)
        else:
            result.append(record)
    assert len(result) > len(sample(name).records)
    same_frames(name, [rewritten(tmp_path, name, result)], PLACES | UNSURE.get(name, set()))
