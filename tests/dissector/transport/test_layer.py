"""The contract of a layer: sums that close, and parts of chunks."""

from __future__ import annotations

from dissect.nats.transport.layer import (
    Begins,
    Heads,
    Layer,
    LayerBytes,
    LayerColumn,
    begins_nothing,
    rest_of,
)
from dissect.nats.types import Chunk


def test_the_span_is_the_sum_of_its_parts() -> None:
    assert LayerBytes(carried=1, overhead=20, skipped=300, missing=4000).span == 4321


def test_the_rest_of_a_chunk_keeps_its_packet() -> None:
    chunk = Chunk(1, 2, "t.pcap", 10, b"abcdef")
    assert rest_of(chunk, 13) == Chunk(1, 2, "t.pcap", 13, b"def")
    assert rest_of(chunk, 10) is rest_of(chunk, 5) is chunk


def test_a_layer_needs_no_more_than_a_name_and_a_beginning() -> None:
    layer = Layer("x", LayerColumn.NONE, begins_nothing)
    assert layer.begins(Heads(b"x", b"x")) is Begins.NO
    assert not layer.replaces(b"x", 0) and not layer.resumes(b"x")
    assert not layer.implies_nats and layer.transforms is None
