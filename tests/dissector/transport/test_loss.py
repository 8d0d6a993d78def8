"""Captures with layers below NATS, damaged: nothing is invented, and reading goes on after the damage."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from dissect.nats import FrameRecord, Options
from dissect.nats.framing.events import Batch
from dissect.nats.options import Payload
from dissect.nats.pipeline import records
from dissect.nats.schema.records import SessionRecord
from dissect.nats.types import Chunk

from tests.dissector.samples.rows import CAPTURES, rewritten, sample
from tests.dissector.transport.s2.test_layer import stored
from tests.support.conversations import INFO, RESPONDER, FramedConversation
from tests.support.damage import Record
from tests.support.packets import place_of
from tests.support.partitioned import in_one, in_partitions

NAMES = [
    f"{name}-2.15.1.pcap"
    for name in (
        "leafnode-s2",
        "s2",
        "websocket",
        "websocket-deflate",
        "leafnode-websocket-s2",
        "leafnode-websocket-deflate",
    )
]
LAYERED_PORTS = {6221, 7422, 8080}
OPTIONS = Options(payload=Payload.SHA256)

Content = tuple[object, ...]


def contents(path: Path) -> Counter[Content]:
    """The frames of a capture, but for their places: a loss in a layer may move what follows."""
    found: Counter[Content] = Counter()
    kinds: dict[str, str] = {}
    rows = list(records([str(path)], ("frames", "sessions"), OPTIONS))
    for row in rows:
        if isinstance(row, SessionRecord):
            kinds[row.session] = f"{row.originator}>{row.responder}"
    for row in rows:
        if isinstance(row, FrameRecord):
            place = kinds[row.session], row.sender, row.op, row.subject, row.reply, row.queue
            size = (row.total_bytes, row.payload_sha256) if not row.anomalies else ()
            found[(*place, size)] += 1
    return found


def is_layered(name: str, record: Record) -> bool:
    place = place_of(record, sample(name).linktype)
    ports = {int.from_bytes(place.key[at : at + 2], "big") for at in (8, 10)} if place else set()
    return bool(place and place.length and ports & LAYERED_PORTS)


def damaged(frames: Counter[Content]) -> Counter[Content]:
    """Without the frames whose payload has gaps: these are reported, but not whole."""
    return Counter({each: count for each, count in frames.items() if each[-1]})


@pytest.mark.parametrize("name", NAMES)
def test_one_packet_less_costs_little(name: str, tmp_path: Path) -> None:
    truth = contents(CAPTURES / name)
    packets = sample(name).records
    layered = [at for at, record in enumerate(packets) if is_layered(name, record)]
    assert len(layered) > 10
    rng = random.Random(name)
    for at in sorted(rng.sample(layered, 8)):
        path = rewritten(tmp_path, name, [*packets[:at], *packets[at + 1 :]])
        found = contents(path)
        assert not damaged(found) - truth, f"without packet {at + 1}"
        assert (truth - found).total() <= 40, f"without packet {at + 1}"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("first", [0.3, 0.6])
def test_a_capture_may_begin_in_the_middle(name: str, first: float, tmp_path: Path) -> None:
    truth = contents(CAPTURES / name)
    packets = sample(name).records
    path = rewritten(tmp_path, name, packets[int(len(packets) * first) :])
    found = contents(path)
    assert {each[1:] for each in damaged(found)} <= {(*each[1:],) for each in truth} | {
        (swapped(each)) for each in truth
    }
    assert found.total() > truth.total() * (1 - first) / 3


def swapped(content: Content) -> Content:
    """The same with the other sender: who opened a connection is not known in its middle."""
    sender = "responder" if content[1] == "originator" else "originator"
    return (sender, *content[2:])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("snap", [96, 400])
def test_a_snap_length_invents_nothing(name: str, snap: int, tmp_path: Path) -> None:
    truth = {each[:-1] for each in contents(CAPTURES / name)}
    cut = [Record(r.ts_ns, r.data[:snap], r.length) for r in sample(name).records]
    found = contents(rewritten(tmp_path, name, cut))
    assert {each[:-1] for each in found} <= truth
    assert found


@pytest.mark.parametrize(
    "name", ["leafnode-websocket-s2-2.15.1.pcap", "websocket-deflate-2.15.1.pcap"]
)
def test_the_stages_of_spark_give_the_same_rows(name: str) -> None:
    paths = [str(CAPTURES / name)]
    assert in_partitions(paths, 6_000, options=OPTIONS) == in_one(paths, options=OPTIONS)


def test_packets_that_waited_for_another_go_through_the_layer() -> None:
    """One packet fills a gap: what it completes comes in one piece, INFO and the S2 stream after it."""
    conversation = FramedConversation()
    info = INFO.replace(b"}", b',"compression":"s2_auto"}')
    wire = stored(b"PING\r\n") + stored(b"PONG\r\n")
    chunks = [
        Chunk(1, 1, "t.pcap", 0, info),
        Chunk(1, 1, "t.pcap", len(info), wire[:40]),
        Chunk(1, 1, "t.pcap", len(info) + 40, wire[40:]),
    ]
    events = conversation.framing.feed(RESPONDER, chunks)
    assert isinstance(events, list)
    ops = [frame.op for event in events if isinstance(event, Batch) for frame in event.frames]
    assert ops == ["INFO", "PING", "PONG"]
