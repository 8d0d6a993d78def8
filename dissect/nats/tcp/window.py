"""Receive windows: how a receiver stops its sender. Terms are as in Wireshark.

A zero window is a packet without SYN, FIN or RST whose window is 0. The first one closes the window of the
side that sends it; that side's next packet with another window opens it. A segment fills the window if its
last byte is the last one that the receiver's latest packet allows (RFC 9293, 3.8.6). The two SYNs agree on
the unit of windows (RFC 7323); if the receiver's SYN was not captured, `window_full` stays 0.
"""

from __future__ import annotations

from ..types import NO_SCALE, Segment
from .flow import UNKNOWN, End, Flow, Side

_FIN, _SYN, _RST = 1, 2, 4
_MASK = 0xFFFFFFFF
_UNITS = frozenset(1 << scale for scale in range(15))

# A shorter stop has no effect on the sender: Linux waits at least this long before it probes a closed window.
_STOPPED_NS = 200_000_000
# When the capture ends, a window that is closed for this long counts as that of a reader that hangs.
_HUNG_NS = 2_000_000_000
# After the window opens, a stopped sender may need this long to send its waiting bytes before its FIN:
# nats-server's default write deadline.
_DRAINED_NS = 10_000_000_000


def learn_scale(side: Side, peer: Side, segment: Segment) -> None:
    """Learns the window scale of a side from its SYN. The window in the SYN itself is not scaled."""
    side.window_scale = segment.window_scale
    peer.window_unit = UNKNOWN if segment.window_scale is None else 1
    side.window_watched = True


def note_window(side: Side, peer: Side, segment: Segment) -> None:
    """Notes the window of a segment. Must be called if the window is 0 or if the side is `window_watched`."""
    if segment.flags & (_SYN | _RST):
        return
    peer.window_unit = _unit(side, peer)
    if segment.window:
        if side.closed_ns is not None:
            _add_closed(side, segment.ts_ns)
            side.closed_ns = None
    elif not segment.flags & _FIN:
        side.zero_windows += 1
        if side.closed_ns is None:
            side.closed_ns = segment.ts_ns
    side.window_watched = side.closed_ns is not None


def fills_window(side: Side, segment: Segment) -> bool:
    """Whether a segment of this side fills the window of the other one."""
    latest = side.stream.ack
    if latest is None or not segment.length or segment.flags & (_FIN | _SYN | _RST):
        return False
    if side.window_unit == UNKNOWN:
        return False
    ahead = (segment.seq + segment.length - latest.ack) & _MASK
    return ahead == latest.window * side.window_unit


def may_fill_window(side: Side, seq: int, size: int) -> bool:
    """Whether a segment among the `size` bytes of a side from `seq` on may fill the window, if the other side
    sends nothing in that time."""
    latest = side.stream.ack
    if latest is None or not size or side.window_unit == UNKNOWN:
        return False
    edge = latest.ack + latest.window * side.window_unit
    return 0 < (edge - seq) & _MASK <= size


def unit_that_fits(end_seq: int, latest: Segment) -> int:
    """The window unit for which a segment that ends before `end_seq` fills the window in `latest`, a segment
    of the other side; 0 if there is none. Without the SYNs, no more than this is known."""
    unit, rest = divmod((end_seq - latest.ack) & _MASK, latest.window)
    return 0 if rest or unit not in _UNITS else unit


def end_windows(flow: Flow) -> None:
    """Adds up the time of windows that are still closed when the flow is over."""
    for side in flow.sides:
        if side.closed_ns is not None:
            _add_closed(side, flow.last_ns if flow.ended_ns is None else flow.ended_ns)
            side.closed_ns = None


def stalled_side(flow: Flow) -> Side | None:
    """The side that had stopped the other side for long when the connection ended:

    - The other side gave it up: it ended the connection while the window was closed, or at most 10 s after
      that.
    - It sent RST while its window was closed: it was killed, and never read what it had received. The other
      side may have given it up before, because a FIN waits, too, until a closed window opens.
    - Its window was closed for 2 s or more, and still was when the capture ended.
    """
    if flow.end in (End.FIN, End.RST):
        if flow.ended_ns is None or flow.ended_by is None:
            return None
        own, other = flow.side(flow.ended_by), flow.side(flow.ended_by.other)
        if other.stopped_ns is not None and flow.ended_ns - other.stopped_ns <= _DRAINED_NS:
            return other
        return own if flow.end is End.RST and own.stopped_ns == flow.ended_ns else None
    for side in flow.sides:
        if side.stopped_ns == flow.last_ns and side.zero_window_ns >= _HUNG_NS:
            return side
    return None


def _add_closed(side: Side, until_ns: int) -> None:
    assert side.closed_ns is not None
    length_ns = max(0, until_ns - side.closed_ns)
    side.zero_window_ns += length_ns
    if length_ns >= _STOPPED_NS:
        side.stopped_ns = until_ns


def _unit(side: Side, peer: Side) -> int:
    """The unit of a side's windows, in bytes."""
    if side.window_scale is None:
        return UNKNOWN
    return 1 if NO_SCALE in (side.window_scale, peer.window_scale) else 1 << side.window_scale
