"""Packets taken out of real connections: every frame that is still there is found, and no other."""

from __future__ import annotations

import random
from collections.abc import Collection
from pathlib import Path

import pytest

from dissect.nats.framing import Verdict
from dissect.nats.types import Chunk, Direction, Gap
from natsync.protocol import Frame, Message

from tests.support.conversations import RESPONDER, FramedConversation, is_joined_late, recorded
from tests.support.paths import CAPTURES

# Not `slow`: it ends within a message, so a message between a loss and the end has nothing whole after it.
# Not those with layers below NATS, whose plaintext moves where bytes are lost: see transport/test_loss.
WHOLE = [
    path
    for path in sorted(CAPTURES.glob("*-2.*.pcap"))
    if not path.name.startswith(
        ("tls", "websocket", "leafnode-s2", "leafnode-websocket", "s2", "slow")
    )
]
_LINE_BYTES = 300  # of a frame's first bytes that must be there for it to be found, at most

Items = list[tuple[Direction, Chunk]]
Place = tuple[Direction, int]


def without(items: Items, gone: Collection[int]) -> list[tuple[Direction, Chunk | Gap]]:
    """The same, with gaps in place of the chunks at these positions."""
    return [
        (way, Gap(c.ts_ns, c.number, c.capture, c.offset, len(c.data)) if at in gone else c)
        for at, (way, c) in enumerate(items)
    ]


def snapped(items: Items, size: int) -> list[tuple[Direction, Chunk | Gap]]:
    """The same with `size` bytes of each chunk, and a gap in place of the others."""
    short: list[tuple[Direction, Chunk | Gap]] = []
    for way, chunk in items:
        number, ts_ns, start = chunk.number, chunk.ts_ns, chunk.offset
        short.append((way, Chunk(ts_ns, number, chunk.capture, start, chunk.data[:size])))
        rest = len(chunk.data) - size
        if rest > 0:
            short.append((way, Gap(ts_ns, number, chunk.capture, start + size, rest, True)))
    return short


def runs_of(items: list[tuple[Direction, Chunk | Gap]], way: Direction) -> list[tuple[int, int]]:
    """The offsets between which one direction has no gap."""
    runs: list[tuple[int, int]] = []
    for of, item in items:
        if of is way and isinstance(item, Chunk):
            start = runs.pop()[0] if runs and runs[-1][1] == item.offset else item.offset
            runs.append((start, item.offset + len(item.data)))
    return runs


def hurt_by(place: Place, frame: Frame, lost: list[tuple[Direction, Chunk]]) -> bool:
    """Whether the control line may lie in lost bytes."""
    way, start = place
    end = start + min(frame.total_bytes, _LINE_BYTES)
    return any(
        way is of and chunk.offset < end and start < chunk.offset + len(chunk.data)
        for of, chunk in lost
    )


def is_proven_late(frame: Frame) -> bool:
    """What may remain alone between a loss and the end, and is too little to go by."""
    return frame.op in ("PING", "PONG", "+OK", "-ERR", "INFO") or frame.total_bytes < 30


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_one_packet_less_costs_its_own_frames_only(path: Path) -> None:
    chance = random.Random(7)
    flows = [items for items in recorded(path) if not is_joined_late(items)]
    assert flows
    for items in flows:
        truth = FramedConversation(payloads=False).play(items).over().places()
        for position in chance.sample(range(len(items)), min(12, len(items))):
            lost = [items[position]]
            conversation = (
                FramedConversation(payloads=False).play(without(items, {position})).over()
            )
            found = conversation.places()
            assert not found.keys() - truth.keys()
            for place, frame in truth.items():
                if place in found:
                    assert found[place].op == frame.op
                elif not hurt_by(place, frame, lost):
                    assert conversation.framing.verdict is not Verdict.NATS or is_proven_late(frame)
            if conversation.framing.verdict is Verdict.NATS:
                way, chunk = lost[0]
                gaps = [
                    (offset, size) for name, offset, size in conversation.notes if name == "lost"
                ]
                assert gaps == [(chunk.offset, len(chunk.data))]
                assert conversation.framing.byte_counts(way).missing == len(chunk.data)
                assert conversation.framing.byte_counts(way.other).missing == 0


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.2])
def test_many_losses_invent_nothing_and_lose_next_to_nothing(rate: float) -> None:
    there = missed = 0
    for path in WHOLE:
        for seed, items in enumerate(recorded(path)):
            if is_joined_late(items):
                continue
            chance = random.Random(seed)
            truth = FramedConversation(payloads=False).play(items).over().places()
            gone = {at for at in range(len(items)) if chance.random() < rate}
            lost = [items[at] for at in gone]
            found = FramedConversation(payloads=False).play(without(items, gone)).over().places()
            assert not found.keys() - truth.keys()
            assert all(
                (frame.op, frame.total_bytes) == (truth[place].op, truth[place].total_bytes)
                for place, frame in found.items()
            )
            whole = [place for place, f in truth.items() if not hurt_by(place, f, lost)]
            there += len(whole)
            missed += len([place for place in whole if place not in found])
    assert there > 3000
    assert missed <= there * rate / 50


@pytest.mark.parametrize("size", [60, 200])
def test_a_snap_length_leaves_the_control_lines(size: int) -> None:
    for items in recorded(CAPTURES / "bulk-2.15.1.pcap"):
        truth = FramedConversation(payloads=False).play(items).over().places()
        found = FramedConversation(payloads=False).play(snapped(items, size)).over().places()
        assert not found.keys() - truth.keys()
        firsts = {(way, chunk.offset) for way, chunk in items}
        assert len(found.keys() & firsts) >= len(truth.keys() & firsts) * 0.9
        for place, frame in found.items():
            real = truth[place]
            assert (frame.op, frame.total_bytes) == (real.op, real.total_bytes)
            if isinstance(frame, Message) and isinstance(real, Message):
                assert frame.payload_bytes == real.payload_bytes
                assert 0 <= frame.missing_bytes <= frame.payload_bytes


def test_nearly_all_whole_frames_within_a_snap_length_are_found() -> None:
    there = missed = 0
    for path in WHOLE:
        for items in recorded(path):
            if is_joined_late(items):
                continue
            truth = FramedConversation(payloads=False).play(items).over().places()
            short = snapped(items, 134)
            found = FramedConversation(payloads=False).play(short).over().places()
            assert not found.keys() - truth.keys()
            runs = {way: runs_of(short, way) for way in Direction}
            whole = [
                (way, start)
                for (way, start), frame in truth.items()
                if any(a <= start and start + frame.total_bytes <= b for a, b in runs[way])
            ]
            there += len(whole)
            missed += len([place for place in whole if place not in found])
    assert there > 1500
    assert missed <= 0.008 * there  # one frame between two gaps, and the beginning of another


def test_frames_at_the_end_of_a_capture_stay_if_damage_follows() -> None:
    frame = b"MSG a 1 5\r\nhello\r\n"
    conversation = (
        FramedConversation()
        .client()
        .say(RESPONDER, frame)
        .lose(RESPONDER, 244)
        .say(RESPONDER, frame)
    )
    more = (
        FramedConversation()
        .client()
        .say(RESPONDER, frame)
        .lose(RESPONDER, 244)
        .say(RESPONDER, frame)
    )
    more.say(RESPONDER, b"MSG a 1 5\r\ndamaged\r\n")
    assert (
        conversation.over().ops(RESPONDER) == more.over().ops(RESPONDER) == ["INFO", "MSG", "MSG"]
    )


def test_a_frame_at_a_packet_start_is_found_after_one_that_the_snap_length_cut() -> None:
    conversation = FramedConversation().client().lose(RESPONDER, 300, truncated=True)
    conversation.say(RESPONDER, b"lo\r\nMSG a 1 50\r\nthe beg").lose(RESPONDER, 45, truncated=True)
    conversation.say(RESPONDER, b"MSG b 1 1\r\nx\r\nMSG").lose(RESPONDER, 46, truncated=True)
    conversation.say(RESPONDER, b"MSG d 1 50\r\nthe beg").lose(RESPONDER, 45, truncated=True)
    found = conversation.over().frames(RESPONDER)
    assert [frame.subject for frame in found if isinstance(frame, Message)] == [b"b", b"d"]


def test_a_frame_that_the_snap_length_cut_is_found_if_two_operations_follow_it() -> None:
    conversation = FramedConversation().client().lose(RESPONDER, 300, truncated=True)
    conversation.say(RESPONDER, b"lo\r\nMSG a 1 50\r\nthe beg").lose(RESPONDER, 45, truncated=True)
    conversation.say(RESPONDER, b"MSG b 1 1\r\nx\r\nMSG c 1 3").lose(RESPONDER, 40, truncated=True)
    found = conversation.over().frames(RESPONDER)
    assert [frame.subject for frame in found if isinstance(frame, Message)] == [b"a", b"b"]
