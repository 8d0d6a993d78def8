"""The last deliveries of flows that end."""

from __future__ import annotations

from collections.abc import Iterable

from ..schema.anomalies import Anomaly
from ..types import Direction, Oddity, Segment
from .flow import Delivery, End, Flow
from .strays import left_out
from .window import end_windows


def beginning(flow: Flow) -> tuple[int, str]:
    """The key that sorts flows by their beginnings."""
    return flow.first_ns, flow.id


def ends(flows: Iterable[Flow], witness: Segment | None = None) -> list[Delivery]:
    """Ends flows, and returns their last deliveries, in the order of their beginnings. `witness` is the
    segment that caused evictions, if any of the flows was evicted."""
    deliveries = []
    for flow in sorted(flows, key=beginning):
        flow.over = True
        end_windows(flow)
        for way in Direction:
            stream = flow.side(way).stream
            items = [*stream.finish(), *left_out(flow.side(way))]
            if stream.ack and is_unseen(flow, way):
                items.append(oddity(stream.ack, 0, Anomaly.ONE_DIRECTION))
            if flow.end is End.EVICTED and way is Direction.ORIGINATOR and witness:
                items.append(oddity(witness, stream.offset, Anomaly.EVICTED))
            deliveries.append((flow, way, items))
    return deliveries


def is_unseen(flow: Flow, way: Direction) -> bool:
    """Whether no packet of this side was captured, although the other side sent bytes."""
    return not flow.side(way).packets and flow.side(way.other).bytes > 0


def oddity(witness: Segment, offset: int, anomaly: Anomaly) -> Oddity:
    """An anomaly of length 0 at `offset`, with the time and place of the segment `witness`."""
    return Oddity(witness.ts_ns, witness.number, witness.capture, offset, 0, anomaly)
