"""One direction: loss, errors and other layers, and that every byte is accounted for."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import FrameType

import pytest

from dissect.nats.framing.events import Batch, Event
from dissect.nats.framing.frame_stream import ByteCounts, FrameStream, Greeting, Proven, Unread
from dissect.nats.framing.resync.resynchronizer import Quota
from dissect.nats.framing.state import StreamState
from dissect.nats.transport.decide import Begin
from dissect.nats.transport.tls import layer as tls
from dissect.nats.types import Chunk, Direction, Gap
from natsync.protocol import Kind, Message

from tests.support.conversations import INFO, ORIGINATOR, RESPONDER, FramedConversation

PUB = b"PUB a 5\r\nhello\r\n"
PING = b"PING\r\n"
EMPTY = b"PUB a 0\r\n\r\n"
FEW_CALLS = 50


def test_a_gap_inside_a_body_is_skipped() -> None:
    conversation = (
        FramedConversation().client().say(ORIGINATOR, b"PUB a 100\r\nhello").lose(ORIGINATOR, 60)
    )
    conversation.say(ORIGINATOR, b"x" * 35 + b"\r\n" + PUB).over()
    frame = conversation.frames(ORIGINATOR)[1]
    assert isinstance(frame, Message)
    assert (frame.payload_bytes, frame.missing_bytes) == (100, 60)
    assert conversation.ops(ORIGINATOR) == ["CONNECT", "PUB", "PUB"]
    assert [name for name, *_ in conversation.notes] == ["lost"]


def test_a_gap_that_ends_with_the_frame() -> None:
    conversation = (
        FramedConversation().client().say(ORIGINATOR, b"PUB a 100\r\nhello").lose(ORIGINATOR, 97)
    )
    conversation.say(ORIGINATOR, PUB).over()
    assert conversation.ops(ORIGINATOR) == ["CONNECT", "PUB", "PUB"]


def test_a_gap_that_swallows_a_control_line() -> None:
    conversation = (
        FramedConversation().client().say(ORIGINATOR, PUB + b"PUB a").lose(ORIGINATOR, 30)
    )
    conversation.say(ORIGINATOR, b"rest of it\r\n" + PUB * 3, PUB).over()
    assert conversation.ops(ORIGINATOR) == ["CONNECT"] + ["PUB"] * 5
    assert [name for name, *_ in conversation.notes] == ["lost", "skipped"]
    assert conversation.framing.byte_counts(ORIGINATOR).skipped == len(b"PUB a" + b"rest of it\r\n")


def test_a_gap_after_the_known_end_of_a_body() -> None:
    conversation = (
        FramedConversation().client().say(ORIGINATOR, b"PUB a 10\r\nhello").lose(ORIGINATOR, 30)
    )
    conversation.say(ORIGINATOR, PUB, PUB).over()
    assert conversation.ops(ORIGINATOR) == ["CONNECT", "PUB", "PUB", "PUB"]
    assert next(iter(list(conversation.batches(ORIGINATOR))[1:])).gap is not None


def test_bytes_that_are_no_frame() -> None:
    conversation = (
        FramedConversation().client().say(ORIGINATOR, PUB + b"garbage\r\n", PUB * 3, PUB).over()
    )
    assert conversation.ops(ORIGINATOR) == ["CONNECT"] + ["PUB"] * 5
    assert [name for name, *_ in conversation.notes] == ["protocol_error", "skipped"]


def test_the_text_of_an_error_shows_nothing_of_the_stream() -> None:
    conversation = (
        FramedConversation().client().say(ORIGINATOR, b"s3cret-token-from-somewhere\r\n").over()
    )
    assert "s3cret" not in str(conversation.events)


def test_a_frame_that_never_ends() -> None:
    conversation = FramedConversation().client().say(ORIGINATOR, b"PUB a 100\r\nhello").over()
    assert conversation.framing.byte_counts(ORIGINATOR).unfinished == 16
    assert [name for name, *_ in conversation.notes] == ["unfinished"]


def test_tls_after_the_greeting() -> None:
    info = b'INFO {"server_id":"NS","client_id":5,"tls_required":true} \r\n'
    conversation = (
        FramedConversation()
        .say(RESPONDER, info)
        .say(ORIGINATOR, b"\x16\x03\x01" + b"x" * 50, b"y" * 9)
    )
    conversation.say(RESPONDER, b"\x16", b"\x03\x03" + b"x" * 50).over()
    assert conversation.framing.facts.transport == "tls"
    assert conversation.framing.byte_counts(ORIGINATOR).skipped == 62
    assert conversation.notes == []


def test_s2_after_the_greeting_even_in_pieces() -> None:
    info = (
        b'INFO {"server_id":"NS","client_id":5,"info_on_connect":true,"compression":"s2_auto"}\r\n'
    )
    skeleton = b'INFO {"server_id":"","client_id":7,"compression":"s2_auto"}\r\n'
    conversation = FramedConversation().say(RESPONDER, info).say(ORIGINATOR, skeleton)
    conversation.say(ORIGINATOR, b"\xff", b"\x06\x00\x00S2sTwO\x01\x02").say(
        RESPONDER, b"\xff\x06\x00\x00S2sTwO"
    )
    conversation.over()
    assert conversation.framing.facts.compression == "s2"
    assert conversation.framing.kind and conversation.framing.kind.value == "leafnode"
    assert conversation.notes == [("skipped", 61, 2)]  # a chunk that never ended


@pytest.mark.parametrize("size", [1, 7, 50])
def test_chunking_changes_nothing(size: int) -> None:
    data = PUB * 5 + b"SUB x 1\r\nPING\r\n"
    conversation = (
        FramedConversation()
        .client()
        .say(ORIGINATOR, *(data[at : at + size] for at in range(0, 110, size)))
    )
    assert conversation.ops(ORIGINATOR)[:6] == ["CONNECT"] + ["PUB"] * 5


def test_nats_inside_a_payload_is_not_read() -> None:
    inside = b"CONNECT {}\r\nPUB secret 5\r\nhello\r\nMSG a 1 0\r\n\r\n" * 3
    frame = b"PUB outer %d\r\n%s\r\n" % (len(inside), inside)
    conversation = FramedConversation().client().say(ORIGINATOR, frame[:40], frame[40:], PUB).over()
    assert conversation.ops(ORIGINATOR) == ["CONNECT", "PUB", "PUB"]


def work_and_depth(task: Callable[[], object]) -> tuple[int, int]:
    """How many Python functions a task calls, and how deep the calls are nested at most."""
    calls = depth = deepest = 0

    def count(frame: FrameType, event: str, value: object) -> None:
        nonlocal calls, depth, deepest
        if event == "call":
            calls, depth = calls + 1, depth + 1
            deepest = max(deepest, depth)
        elif event == "return":
            depth -= 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        task()
    finally:
        sys.setprofile(before)
    return calls, deepest


@pytest.mark.parametrize(
    ("data", "midstream"),
    [
        (PUB * 3 + b"x\r\n", False),
        (PUB * 3 + b"x\r\n", True),
        (PUB * 2, False),
        (b"PING\r\nx\r\n", False),
    ],
)
def test_losing_and_finding_frames_again_does_not_recurse(data: bytes, midstream: bool) -> None:
    """Calls grow with the losses, their depth does not, however often a stream loses its place."""

    def cost(losses: int) -> tuple[int, int]:
        conversation = FramedConversation(midstream, payloads=False)
        if not midstream:
            conversation.client()
        items: list[Chunk | Gap] = []
        at = conversation.ends[ORIGINATOR]
        for number in range(losses):
            items.append(Chunk(number, number, "t.pcap", at, data))
            items.append(Gap(number, number, "t.pcap", at + len(data), 7))
            at += len(data) + 7
        calls, depth = work_and_depth(lambda: conversation.play_at_once(ORIGINATOR, items).over())
        assert len(conversation.notes) >= losses
        assert len(conversation.ops(ORIGINATOR)) > losses
        return calls, depth

    few, many = cost(100), cost(800)
    assert many[0] < 8.5 * few[0]
    assert many[1] < few[1] + 10


def test_twenty_thousand_losses_in_one_stream_do_not_recurse() -> None:
    """The first PUB claims a payload that holds all PINGs back until too many bytes wait. Then thousands of
    gaps are read in one call, and each of them loses and finds the frames again."""
    losses = 20_000
    conversation = (
        FramedConversation(payloads=False)
        .client()
        .lose(ORIGINATOR, 9)
        .say(ORIGINATOR, b"PUB a 4000000\r\n")
    )
    items: list[Chunk | Gap] = []
    for number in range(losses):
        at = conversation.ends[ORIGINATOR] + number * (len(PING) + 7)
        items.append(Chunk(number, number, "t.pcap", at, PING))
        items.append(Gap(number, number, "t.pcap", at + len(PING), 7))
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + FEW_CALLS)
    try:
        conversation.play_at_once(ORIGINATOR, items)
    finally:
        sys.setrecursionlimit(before)
    conversation.over()
    assert conversation.ops(ORIGINATOR) == ["CONNECT"] + ["PING"] * losses
    assert conversation.framing.byte_counts(ORIGINATOR).missing == 9 + 7 * losses


def test_the_span_is_the_sum_of_its_parts() -> None:
    assert ByteCounts(framed=100, skipped=20, missing=3, unfinished=4).span == 127


def started(direction: Direction) -> FrameStream:
    stream = FrameStream(direction, Quota(), True)
    stream.start()
    assert stream.state is StreamState.STARTING
    return stream


def test_a_handshake_is_reported_before_the_frames_after_it() -> None:
    stream, out = started(Direction.RESPONDER), list[Event]()
    assert stream.feed(Chunk(1, 1, "t.pcap", 0, INFO + b"PING\r\n"), out) is Unread.MORE
    found = stream.proceed(out)
    assert isinstance(found, Greeting) and found.frame.op == "INFO"
    assert stream.frames == 1
    assert stream.proceed(out) is None
    assert [frame.op for event in out if isinstance(event, Batch) for frame in event.frames] == [
        "INFO",
        "PING",
    ]


def test_a_layer_is_reported_before_its_bytes_are_read() -> None:
    stream, out = started(Direction.RESPONDER), list[Event]()
    record = b"\x16\x03\x03\x00\x01x"
    stream.feed(Chunk(1, 1, "t.pcap", 0, INFO + record), out)
    stream.proceed(out)
    found = stream.proceed(out)
    assert isinstance(found, Begin) and found.layer is tls.LAYER and not found.joined
    assert stream.withdraw(out, joins=False) == [Chunk(1, 1, "t.pcap", len(INFO), record)]
    assert (stream.state, stream.end) == (StreamState.FRAMING, len(INFO))


def test_a_proof_is_reported_before_the_frames_that_prove() -> None:
    stream, out = FrameStream(Direction.ORIGINATOR, Quota(), True), list[Event]()
    stream.feed(Chunk(1, 1, "t.pcap", 0, EMPTY * 3), out)
    found = stream.proceed(out)
    assert isinstance(found, Proven) and found.chain.frames == 3
    assert stream.frames == 0
    stream.set_kind(Kind.CLIENT, False, False, True)
    assert stream.proceed(out) is None
    assert stream.frames == 3
