"""Traffic over time, against the rows of a sample capture."""

from __future__ import annotations

from dissect.nats.report.aggregates.traffic import (
    BYTES,
    ERROR,
    EVENTS,
    MESSAGES,
    NO_RESPONDERS,
    Lane,
    Traffic,
)
from dissect.nats.schema.records import FrameRecord

from tests.dissector.samples.rows import rows
from tests.support.paths import CAPTURES


def of(*names: str) -> tuple[Traffic, list[FrameRecord]]:
    found = Traffic()
    every = rows([CAPTURES / name for name in names], Traffic.tables)
    for row in every:
        found.add(row)
    return found, [row for row in every if isinstance(row, FrameRecord)]


def total(found: Traffic, lane: Lane) -> int:
    return sum(found.bins.series(lane)[1])


def test_messages_and_bytes_of_each_direction() -> None:
    found, frames = of("gateway-2.15.1.pcap")
    messages = [row for row in frames if row.payload_bytes is not None]
    assert found.messages == len(messages) > 0
    for kind in ("client", "gateway"):
        for sender in ("originator", "responder"):
            some = [row for row in messages if (row.kind, row.sender) == (kind, sender)]
            size = sum((row.payload_bytes or 0) + (row.header_bytes or 0) for row in some)
            assert total(found, Lane(MESSAGES, kind, sender)) == len(some)
            assert total(found, Lane(BYTES, kind, sender)) == size


def test_errors_and_losses_are_in_the_same_bins() -> None:
    found, frames = of("core-2.15.1.pcap", "midstream.pcap", "snap96.pcap")
    errors = sum(row.op == "-ERR" for row in frames)
    assert total(found, Lane(EVENTS, ERROR)) == errors > 0
    names = {lane.name for lane in found.bins.keys if lane.measure == EVENTS}
    assert {NO_RESPONDERS, "truncated"} <= names


def test_parts_add_up() -> None:
    one, _ = of("core-2.15.1.pcap")
    other, _ = of("gateway-2.15.1.pcap")
    both, _ = of("core-2.15.1.pcap", "gateway-2.15.1.pcap")
    one.merge(other)
    assert (one.messages, one.bytes, one.bins.bins) == (both.messages, both.bytes, both.bins.bins)
