"""Real captures, harmed: what TCP repairs changes nothing, and what is lost is missing once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from dissect.nats.tcp.flow import reversed_key
from dissect.nats.tcp.flow_table import FlowTable
from dissect.nats.tcp.reassembly import Stream
from dissect.nats.types import Chunk, Direction, Gap, Item, Oddity, Segment

from tests.support.paths import CAPTURES
from tests.support.segments import segments

# Those that lack something already are the subject of other tests.
# In `streaming` the servers were connected to each other before the capture began.
WHOLE = sorted(
    path
    for path in CAPTURES.glob("*.pcap")
    if not path.name.startswith(("damaged", "snap", "midstream", "streaming"))
)
_MASK = 0xFFFFFFFF
_SYN_FIN_RST = 7
_SOON_NS = 50 * 10**6

Streams = dict[tuple[str, str, Direction], list[Item]]


def streams(source: Iterable[Segment]) -> Streams:
    """All bytes of either direction of every flow."""
    table = FlowTable(Stream)
    found: Streams = {}
    deliveries = [delivery for segment in source for delivery in table.add(segment)]
    for flow, way, items in (*deliveries, *table.finish()):
        found.setdefault((flow.originator, flow.responder, way), []).extend(items)
    for items in found.values():
        assert not any(isinstance(item, Oddity) for item in items)
    return found


def texts(found: Streams) -> dict[tuple[str, str, Direction], bytes]:
    """The bytes, without a gap among them."""
    assert not gaps(found)
    return {where: b"".join(_data(item) for item in items) for where, items in found.items()}


def gaps(found: Streams) -> list[Gap]:
    return [item for items in found.values() for item in items if isinstance(item, Gap)]


def _data(item: Item) -> bytes:
    return item.data if isinstance(item, Chunk) else b""


def jittered(segments: list[Segment], rng: random.Random, reach: float = 6) -> list[Segment]:
    """Every packet may fall behind some that follow it soon; none before the SYN of its flow."""
    places = []
    for at, segment in enumerate(segments):
        place = at if segment.flags & 2 else at + rng.random() * reach
        if segments[min(int(place), len(segments) - 1)].ts_ns - segment.ts_ns > _SOON_NS:
            place = at
        places.append((place, at))
    return [segments[at] for _, at in sorted(places)]


def doubled(segments: list[Segment], rng: random.Random) -> list[Segment]:
    return [segment for segment in segments for _ in range(rng.choice((1, 1, 2, 3)))]


def cut(segment: Segment, start: int, end: int) -> Segment:
    """The bytes of a segment from `start` to `end`."""
    data = segment.payload[start:end]
    seq = segment.seq + start & _MASK
    return replace(segment, seq=seq, payload=data, length=len(data), header=b"")


def split(segments: list[Segment], rng: random.Random) -> list[Segment]:
    """In several parts, some of which repeat bytes of others."""
    out = []
    for segment in segments:
        size = segment.length
        if size < 3 or segment.flags & _SYN_FIN_RST:
            out.append(segment)
            continue
        first, second = sorted((rng.randrange(1, size), rng.randrange(1, size)))
        parts = [cut(segment, 0, second), cut(segment, first, size)]
        rng.shuffle(parts)
        out += parts
    return out


def all_together(segments: list[Segment], rng: random.Random) -> list[Segment]:
    return jittered(doubled(split(segments, rng), rng), rng)


def wrapped(segments: list[Segment], rng: random.Random) -> list[Segment]:
    """With numbers that pass zero inside every stream that says more than a little."""
    shift: dict[bytes, int] = {}
    out = []
    for segment in segments:
        if segment.flags & 2:
            shift[segment.key] = -segment.seq - 20
        seq = segment.seq + shift.get(segment.key, 0) & _MASK
        ack = segment.ack + shift.get(reversed_key(segment.key), 0) & _MASK
        out.append(replace(segment, seq=seq, ack=ack, header=b""))
    return all_together(out, rng)


@pytest.mark.parametrize("harm", [jittered, doubled, split, all_together, wrapped])
@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_what_tcp_repairs_changes_nothing(
    path: Path, harm: Callable[[list[Segment], random.Random], list[Segment]]
) -> None:
    whole = list(segments([str(path)]))
    truth = texts(streams(whole))
    assert sum(map(len, truth.values())) > 0
    for seed in range(3):
        assert texts(streams(harm(whole, random.Random(seed)))) == truth


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_a_lost_packet_is_one_gap_of_its_size(path: Path) -> None:
    whole = list(segments([str(path)]))
    truth = texts(streams(whole))
    losable = [
        at for at, segment in enumerate(whole) if _is_missed(segment, whole[:at], whole[at:])
    ]
    assert losable
    for at in random.Random(1).sample(losable, min(20, len(losable))):
        found = streams(whole[:at] + whole[at + 1 :])
        (gap,) = gaps(found)
        assert (gap.length, gap.truncated) == (whole[at].length, False)
        lost = whole[at].payload
        for where, items in found.items():
            stream = b"".join(lost if item is gap else _data(item) for item in items)
            assert stream == truth[where]


def _is_missed(segment: Segment, before: list[Segment], after: list[Segment]) -> bool:
    """Whether it was sent once, and was proven to be sent by who received it."""
    if not segment.length or segment.flags & _SYN_FIN_RST:
        return False
    end = segment.seq + segment.length & _MASK
    back = reversed_key(segment.key)
    same = [s for s in (*before, *after[1:]) if s.key == segment.key and s.length]
    return all(
        (s.seq - end) & _MASK < 1 << 31 or (segment.seq - s.seq - s.length) & _MASK < 1 << 31
        for s in same
    ) and any(s.key == back and (s.ack - end) & _MASK < 1 << 20 for s in after if not s.flags & 4)
