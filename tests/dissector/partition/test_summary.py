"""How a flow is followed: what is fed, what is skipped, which frames reach its session, what is left out."""

from __future__ import annotations

import pytest

from dissect.nats import Options
from dissect.nats.options import Payload
from dissect.nats.partition import summary as building
from dissect.nats.partition.chunk_summary import Bytes, Deltas, FrameBatch, SkippedFrames

from tests.dissector.partition.advancing import PUB, packets, steps_of, summary_of
from tests.dissector.transport.s2.test_layer import stored


def test_steps_feed_the_first_and_last_bytes_and_skip_the_frames_between() -> None:
    head, tail = b"lo\r\n", b"PUB a.b 5\r\nhe"
    steps = steps_of(packets((0, head), *[(0, PUB)] * 30, (0, tail)))
    kinds = [type(step) for step in steps]
    assert kinds[0] is Bytes and kinds[-1] is Bytes
    assert kinds.count(SkippedFrames) == kinds.count(Deltas) == 1
    (skip,) = [step for step in steps if isinstance(step, SkippedFrames)]
    (deltas,) = [step for step in steps if isinstance(step, Deltas)]
    fed = [step.chunk for step in steps if isinstance(step, Bytes)]
    assert fed[0].data == head
    assert fed[-1].data == tail
    assert sum(len(chunk.data) for chunk in fed[:-1]) == skip.start
    assert skip.end == fed[-1].offset
    assert skip.ops == {"PUB"}
    amount = deltas.sums[0]
    assert amount and sum(amount.counts.values()) == skip.frames
    assert skip.frames * len(PUB) == skip.end - skip.start


def test_bytes_fed_after_later_packets_are_silent() -> None:
    info, tail = b'INFO {"server_id":"NA"}\r\n', b"PUB a.b 5\r\nhe"
    steps = steps_of(packets(*[(0, PUB)] * 30, (0, info[:9]), (0, info[9:]), (0, PUB), (0, tail)))
    after = steps[next(at for at, step in enumerate(steps) if isinstance(step, SkippedFrames)) :]
    fed = [(step.chunk.data, step.silent) for step in after if isinstance(step, Bytes)]
    assert fed == [(info[:9], True), (info[9:], False), (tail, True)]


def test_a_direction_counts_its_packets_and_keeps_the_last_ones() -> None:
    one, other = summary_of(packets((0, PUB), (1, b""), (0, PUB), (0, b""))).directions
    assert (one.packets, one.size, one.first_seq) == (3, 2 * len(PUB), 5)
    assert one.chunk and (one.chunk.number, one.chunk.data) == (3, PUB)
    assert one.last and (one.last.number, one.last.payload) == (4, b"")
    assert (other.packets, other.size, other.chunk) == (1, 0, None)


def test_batches_have_no_payloads() -> None:
    options = Options(payload=Payload.TEXT)
    asked = b"PUB a.b r 6\r\nsecret\r\n"
    steps = steps_of(packets(*[(0, PUB)] * 20, (0, asked), (0, PUB)), options)
    (found,) = [step for step in steps if isinstance(step, FrameBatch)]
    (frame,) = found.batch.frames
    assert getattr(frame, "payload") == b""
    assert getattr(frame, "payload_bytes") == 6
    assert found.batch.last.number == 21


def test_bytes_without_nats_are_counted_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "_FED_BYTES", 10_000)
    summary = summary_of(packets(*[(0, bytes(1000))] * 20))
    assert summary.steps is None
    assert summary.directions[0].size == 20_000


def test_bytes_without_a_frame_are_counted_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "_UNREAD_BYTES", 10_000)
    record = b"\x17\x03\x03\x03\xe3" + bytes(range(249)) * 4
    few, many = [(0, record[:1000])] * 10, [(0, record[:1000])] * 11
    assert len(steps_of(packets(*few))) == 10
    assert summary_of(packets(*many)).steps is None
    assert len(steps_of(packets(*many, *[(0, PUB)] * 30))) > 11


def test_frames_in_a_layer_are_counted_only() -> None:
    """An S2 stream shows itself in the middle of a connection; its frames are not at these offsets."""
    wire = stored(b"PUB a.b 5\r\nhello\r\n" * 9)
    assert summary_of(packets(*[(0, wire)] * 30)).steps is None


def test_reply_subjects_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "_REPLY_SUBJECTS", 1)
    reply = b"MSG r.1 2 5\r\nhello\r\n"
    asked = [(0, b"PUB a.b r.%d 5\r\nhello\r\n" % number) for number in (1, 2)]
    lead = [(0, PUB), (1, reply), (0, PUB), (1, reply), (0, PUB), (1, reply)]
    for some, expected in (asked[:1], 2), (asked, 2):
        steps = steps_of(packets(*lead, *some, (1, reply)))
        assert sum(isinstance(step, FrameBatch) for step in steps) == expected
