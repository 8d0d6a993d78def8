"""Which of the connections between the same ports a segment belongs to, by its path and its numbers.

Tenants of one network may use the same addresses and ports at the same time, and differ only in the VLAN, the
tunnel or the interface in which their packets were captured. But one connection may also be seen on several
paths: where its packets are routed or mirrored, and where each direction has its own. So a path that a side
has used decides. On another path, the sequence and acknowledgement numbers decide: a connection takes up
that path if its bytes continue or repeat there; otherwise, another connection began.

Numbers alone cannot tell a late copy from a tenant whose sequence and acknowledgement numbers both are within
those of the last 64 KiB: bytes that are no longer stored count as repeated.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..types import FlowPath, Segment
from .flow import Flow, Route, Side
from .reassembly import CLOSE

_SYN, _ACK = 2, 16
_MASK = 0xFFFFFFFF
_MOST_PATHS = 16  # of one side


def chosen(routes: Sequence[Route], segment: Segment) -> Route | None:
    """The route of the connection to which a segment belongs; None if it is of another one."""
    path = segment.path
    known = [route for route in routes if path in route[1].paths or _is_first(route, path)]
    if len(known) == 1:
        return known[0]
    fitting = (route for route in known or routes if shows(route, segment) is not False)
    return next(fitting, known[0] if known else None)


def shows(route: Route, segment: Segment) -> bool | None:
    """Whether a segment on another path continues or repeats the bytes of this connection; None if it may."""
    _, side, peer = route
    if segment.flags & _ACK and not _acknowledges(peer, segment):
        return False
    return side.stream.shows(segment)


def learn_path(route: Route, segment: Segment) -> None:
    """Notes that a side sends on the path of this segment, if that is certain: without payload, it proves
    little."""
    side = route[1]
    paths = side.paths
    if len(paths) < _MOST_PATHS and (
        not paths or (segment.length or segment.flags & _SYN) and shows(route, segment)
    ):
        side.paths = *paths, segment.path


def path_text(flow: Flow) -> str | None:
    """The networks in which the packets of a connection were captured, and the interfaces if there is another
    connection between the same ports; None if there are none."""
    used: dict[str, None] = {}
    for side in flow.sides:
        for interface, networks in side.paths:
            names = interface if flow.is_shared else "", networks
            used[", ".join(filter(None, names))] = None
    return "; ".join(filter(None, used)) or None


def _is_first(route: Route, path: FlowPath) -> bool:
    """Whether a side begins on the path of the other side."""
    _, side, peer = route
    return not side.paths and path in peer.paths


def _acknowledges(peer: Side, segment: Segment) -> bool:
    """Whether a segment acknowledges the latest bytes that the other side has sent, or bytes shortly before,
    and not many more or less than its sender did before."""
    stream, last = peer.stream, peer.stream.ack
    if segment.flags & _SYN and stream.isn is not None and segment.ack != (stream.isn + 1) & _MASK:
        return False
    # A FIN takes a number, too.
    if not -CLOSE <= stream.position(segment.ack) - stream.end <= 1:
        return False
    return last is None or (segment.ack - last.ack + CLOSE) & _MASK <= 2 * CLOSE
