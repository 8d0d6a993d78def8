"""Segments whose numbers fit no window of their flow: packets of another connection between the same ports.

Two captures of different networks, or of different days, can have connections with the same addresses and
ports. Within one connection, the sequence number of a segment may jump if much was not captured, but its
acknowledgement number is then close to the one before. A segment is a stray if both numbers are further from
the sender's previous ones than any window in use (RFC 9293, 3.4: each connection chooses a new initial
sequence number).

A single stray proves nothing: it may be forged, or belong to a second capture of the same time. So a stray
waits. If the next segment of either side fits it, another connection began with the stray; otherwise the
stray is left out. Both cases are reported as `Anomaly.SEQUENCE_JUMP`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..schema.anomalies import Anomaly
from ..types import Oddity, Segment
from .flow import Route, Side
from .reassembly import NEAR

_SYN, _RST, _ACK = 2, 4, 16
_MASK = 0xFFFFFFFF


def is_stray(route: Route, segment: Segment) -> bool:
    """Whether the sequence and acknowledgement numbers of a segment are both far from its sender's previous
    ones."""
    _, side, peer = route
    last = peer.stream.ack
    return (
        segment.flags & (_SYN | _RST | _ACK) == _ACK
        and last is not None
        and not side.stream.near(segment.seq)
        and not is_near(segment.ack, last.ack)
    )


def fitting(route: Route, segment: Segment) -> list[Segment]:
    """The waiting strays of a flow that form another connection with the stray `segment`, in order."""
    _, side, peer = route
    found = []
    for sender, seq, ack in ((side, segment.seq, segment.ack), (peer, segment.ack, segment.seq)):
        stray = sender.stray
        # If the sender of a stray then continued in the flow, the stray was a single packet.
        if stray is not None and stray.packets == sender.packets:
            if is_near(seq, stray.segment.seq) and is_near(ack, stray.segment.ack):
                found.append(replace(stray.segment, payload=stray.payload))
                sender.stray = stray._replace(moved=True)
    return sorted(found, key=lambda each: (each.ts_ns, each.ordinal, each.number))


def left_out(side: Side) -> Iterator[Oddity]:
    """Removes the waiting stray of a side, if there is one, and yields its anomaly."""
    stray, side.stray = side.stray, None
    if stray is not None:
        segment = stray.segment
        length = 0 if stray.moved else segment.length
        if not stray.moved:
            side.packets += 1
            side.bytes += length
        place = segment.ts_ns, segment.number, segment.capture, side.stream.offset
        yield Oddity(*place, length, Anomaly.SEQUENCE_JUMP)


def is_near(one: int, other: int) -> bool:
    """Whether two sequence numbers can be in one window."""
    return (one - other + NEAR) & _MASK <= 2 * NEAR
