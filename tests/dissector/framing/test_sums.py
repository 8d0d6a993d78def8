"""The sums close for every stream, whatever is done to it; time and memory stay in proportion."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from time import process_time

import pytest

from dissect.nats.framing import Verdict
from dissect.nats.types import Chunk, Direction, Gap

from tests.support.conversations import (
    INFO,
    ORIGINATOR,
    RESPONDER,
    FramedConversation,
    is_joined_late,
    recorded,
)
from tests.support.paths import CAPTURES

ALL = sorted(CAPTURES.glob("*-2.*.pcap"))

Items = list[tuple[Direction, Chunk | Gap]]


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.name)
@pytest.mark.parametrize("midstream", [False, True])
def test_bytes_of_whole_captures_add_up(path: Path, midstream: bool) -> None:
    for items in recorded(path):
        if is_joined_late(items) and not midstream:
            continue
        conversation = FramedConversation(midstream).play(items).over()
        if conversation.framing.facts.protocol == "tls" and path.name.startswith("tls-keys"):
            continue  # TLS from the first byte on
        assert conversation.framing.verdict is Verdict.NATS
        if (
            conversation.framing.facts.compression is None
            and conversation.framing.facts.transport == "tcp"
        ):
            for way in Direction:
                assert conversation.framing.byte_counts(way).skipped == 0


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.name)
def test_bytes_of_damaged_captures_add_up(path: Path) -> None:
    for seed, items in enumerate(recorded(path)):
        chance = random.Random(seed)
        FramedConversation(payloads=False).play(
            list(harmed(items, chance))
        ).over()  # which checks them
    assert seed > 0 or path.name.startswith(("tls", "jetstream", "websocket"))


def harmed(
    items: list[tuple[Direction, Chunk]], chance: random.Random
) -> Iterator[tuple[Direction, Chunk | Gap]]:
    """Packets lost, cut short, overwritten or replaced by others, at the same offsets."""
    for way, chunk in items:
        size, what = len(chunk.data), chance.random()
        data, start = chunk.data, chunk.offset
        if what < 0.1:
            yield way, Gap(chunk.ts_ns, chunk.number, chunk.capture, start, size)
            continue
        if what < 0.2 and size > 1:
            kept = chance.randrange(1, size)
            yield way, Chunk(chunk.ts_ns, chunk.number, chunk.capture, start, data[:kept])
            rest = size - kept
            yield way, Gap(chunk.ts_ns, chunk.number, chunk.capture, start + kept, rest, True)
            continue
        if what < 0.3:
            at = chance.randrange(size)
            data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        elif what < 0.35:
            data = chance.choice(items)[1].data.ljust(size, b"\n")[:size]
        yield way, Chunk(chunk.ts_ns, chunk.number, chunk.capture, start, data)


HOSTILE = {
    "look-alikes": b"\r\nPUB a 100000\r\nPUB b 90000\r\nPUB c 5\r\n" + b"z" * 60,
    "lines without bodies": b"PUB a 1\r\n",
    "wrong bodies": b"PUB a 1\r\nx\r\nPUB b 3\r\nx\r\n",
    "small INFOs": b"INFO {}\r\n",
    "pings and garbage": b"PING\r\nx\r\n",
    "empty lines": b"\n",
    "beginnings": b"\nPUB ",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("midstream", [False, True])
def test_time_is_linear_in_hostile_bytes(name: str, midstream: bool) -> None:
    def seconds(size: int) -> float:
        data = HOSTILE[name] * (size // len(HOSTILE[name]))
        packets = [data[at : at + 1448] for at in range(0, size, 1448)]
        conversation = FramedConversation(midstream, payloads=False)
        if not midstream:
            conversation.client().lose(ORIGINATOR, 7)
        start = process_time()
        conversation.say(ORIGINATOR, *packets).over()
        return process_time() - start

    small = min(seconds(25_000) for _ in range(2))
    most = 4 * small * 2 + 0.01
    assert any(seconds(100_000) < most for _ in range(2))  # the machine may have been busy


@pytest.mark.parametrize("start", ["fresh", "midstream", "lost"])
def test_a_control_line_that_never_ends_is_bounded(start: str) -> None:
    conversation = FramedConversation(start == "midstream", payloads=False)
    if start != "midstream":
        conversation.client()
    if start == "lost":
        conversation.lose(ORIGINATOR, 7)
    conversation.say(ORIGINATOR, b"x\r\nPUB " if start == "lost" else b"PUB ")
    tracemalloc.start()
    try:
        for _ in range(400):
            conversation.say(ORIGINATOR, b"a" * 60_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20
    conversation.over()


@pytest.mark.parametrize("midstream", [False, True])
def test_thousands_of_tiny_gaps_are_bounded(midstream: bool) -> None:
    conversation = FramedConversation(midstream, payloads=False)
    if not midstream:
        conversation.say(RESPONDER, INFO)
    tracemalloc.start()
    try:
        for _ in range(12_000):
            conversation.say(ORIGINATOR, b"x").lose(ORIGINATOR, 1)
            conversation.events.clear()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20
