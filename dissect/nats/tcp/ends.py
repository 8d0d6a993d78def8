"""The end of flows: their last deliveries."""

from __future__ import annotations

from collections.abc import Iterable

from ..schema.anomalies import Anomaly
from ..types import Direction, Oddity, Segment
from .flow import Delivery, End, Flow
from .strays import left_out
from .window import end_windows


def beginning(flow: Flow) -> tuple[int, str]:
    """The sort key of flows: their beginning."""
    return flow.first_ns, flow.id


def ends(flows: Iterable[Flow], witness: Segment | None = None) -> list[Delivery]:
    """The last deliveries of flows that are over, in the order of their beginnings. `witness` is the segment
    that caused an eviction, if there was one."""
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
    """Whether this side has no packet, and the other one has bytes."""
    return not flow.side(way).packets and flow.side(way.other).bytes > 0


def oddity(witness: Segment, offset: int, anomaly: Anomaly) -> Oddity:
    """An anomaly of no length, found with a segment."""
    return Oddity(witness.ts_ns, witness.number, witness.capture, offset, 0, anomaly)
