"""The law of sums, for a direction of a connection with layers below NATS or without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from dissect.nats.framing import ConnectionFraming
from dissect.nats.framing.finished import FinishedFraming
from dissect.nats.framing.frame_stream import ByteCounts
from dissect.nats.tcp import flow_table
from dissect.nats.tcp.flow import ByteStream
from dissect.nats.types import Direction

# Layers whose plaintext has offsets, and so sums, of its own. Where they become opaque, offsets are TCP's.
OWN_SUMS = {"s2", "websocket", "tls"}


@contextmanager
def kept() -> Iterator[None]:
    """Connections keep their layers to the end of the capture, instead of the facts that their rows need."""
    with patch.object(flow_table, "completed", lambda flow: []):
        yield


def closed(
    framing: ConnectionFraming | FinishedFraming, way: Direction, stream: ByteStream
) -> ByteCounts:
    """The counts of NATS, after a look at those of every layer: what a layer was sent went somewhere. For
    `kept` connections."""
    assert isinstance(framing, ConnectionFraming)
    layers = framing.stack.byte_counts(way)
    if not OWN_SUMS.intersection(layers) or framing.stream(way).layer:
        counts = framing.byte_counts(way)
        assert counts.span == stream.offset, f"sums do not close: {counts}"
        assert counts.missing == stream.missing_bytes, "losses are counted twice"
    else:
        counts = framing.stream(way).counts
        lowest = next(iter(layers.values()))
        assert lowest.span <= stream.offset, f"sums do not close: {lowest}"
        assert lowest.missing <= stream.missing_bytes, "losses are counted twice"
        assert counts.span == framing.stream(way).end, f"sums do not close: {counts}"
    assert min(counts.framed, counts.skipped, counts.unfinished) >= 0
    return counts
