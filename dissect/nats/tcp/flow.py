"""TCP flows: the state of a connection, the rules for its end, and its identifiers.

A flow is identified by its Community ID v1 (https://github.com/corelight/community-id-spec), which other
tools compute too, and by the time of its first packet, because ports are reused.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv6Address
from typing import NamedTuple, Protocol

from ..types import EARLIEST_NS, NO_PATH, Chunk, Direction, FlowPath, Item, Segment

_TCP = 6
_SYN, _RST, _ACK = 2, 4, 16
_IPV4_MAPPED = bytes(10) + b"\xff\xff"
UNKNOWN = 1 << 32
"""The `window_unit` if the unit is not known: so large that only a window of 0, multiplied by it, can equal a
distance between sequence numbers."""


class End(Enum):
    """How a flow ended: by its first FIN or RST, or because it was dropped. OPEN: the capture ended first."""

    FIN = "fin"
    RST = "rst"
    IDLE = "idle"
    EVICTED = "evicted"
    OPEN = "open"


class CompleteStream(NamedTuple):
    """The state of a complete stream in which no bytes wait: its counts (missing, retransmitted and duplicate
    bytes, segments out of order), its sequence numbers (but `fin` is the stream position of its end), the
    latest acknowledgement and window of the other side, and the last bytes with their position, and the
    time, sequence number, header and path of their segment.
    """

    counts: tuple[int, int, int, int]
    offset: int
    isn: int | None
    seq: int
    base_seq: int
    fin: int
    ack: tuple[int, int] | None
    last: tuple[int, bytes] | None
    source: tuple[int, int, bytes, tuple[str, ...]]


class ByteStream(Protocol):
    """The reassembly of one direction: `reassembly.Stream`.

    `held` has the bytes that wait for earlier ones. While it is empty, the caller may store an acknowledging
    segment in `ack` instead of calling `acked`, and bytes at the sequence number `next_seq` are delivered at
    once (-1: no bytes are). `advance` replaces the `push` of many segments; `last` is the chunk of the last
    one. `position` returns the stream position of a sequence number, and `near` whether it is close to the
    current position. `checks` is whether checksums of this direction have been right. `shows` is whether a
    segment on another path continues or repeats the bytes.
    """

    ack: Segment | None
    next_seq: int
    offset: int
    missing_bytes: int
    retransmitted_bytes: int
    duplicate_bytes: int
    out_of_order: int
    isn: int | None
    checks: bool

    @property
    def held(self) -> Sequence[object]: ...
    @property
    def held_bytes(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def is_complete(self) -> bool: ...
    def push(self, segment: Segment) -> list[Item]: ...
    def acked(self, segment: Segment) -> list[Item]: ...
    def advance(self, last: Chunk, source: Segment) -> None: ...
    def relieve(self) -> list[Item]: ...
    def finish(self) -> list[Item]: ...
    def shorten(self) -> None: ...
    def packed(self) -> CompleteStream: ...
    def unpack(self, state: CompleteStream) -> None: ...
    def fits(self, isn: int) -> bool: ...
    def shows(self, segment: Segment) -> bool | None: ...
    def near(self, seq: int) -> bool: ...
    def position(self, seq: int) -> int: ...


class Stray(NamedTuple):
    """A segment that fits no window of its flow (see `strays`). `packets` is the number of packets that its
    sender had sent before it; `moved` is whether another connection began with it. The payload is stored
    separately, because segments are pickled without their payload."""

    segment: Segment
    payload: bytes
    packets: int
    moved: bool = False


class Side:
    """One direction of a flow. `packets` counts all of its packets, and `bytes` the bytes of their TCP
    payload, including repetitions; `stream` counts missing and repeated bytes. `reset` is the stream position
    of its RST. `is_part` is whether it is known that other bytes travel elsewhere (see `types.ELSEWHERE`).
    For `stray` see `strays`, for `paths` see there.

    The other fields are about receive windows (see `window`). `zero_windows` counts packets with a window of
    0, and `zero_window_ns` is the total time for which the window was closed. While the window is closed,
    `closed_ns` is the time when it was closed. `stopped_ns` is the time when the window was last opened after
    it had been closed for long. `window_full` counts segments that filled the other side's window;
    `window_unit` is the unit of that window in bytes, or UNKNOWN. `window_scale` is from this side's SYN.
    While `window_watched` is set, any packet of this side may change these fields, not only one with a window
    of 0.
    """

    __slots__ = (
        "key",
        "direction",
        "paths",
        "stream",
        "packets",
        "bytes",
        "fin",
        "reset",
        "is_part",
        "stray",
        "zero_windows",
        "zero_window_ns",
        "closed_ns",
        "stopped_ns",
        "window_full",
        "window_unit",
        "window_scale",
        "window_watched",
    )

    def __init__(self, key: bytes, direction: Direction, stream: ByteStream) -> None:
        self.key = key
        self.direction = direction
        self.paths: tuple[FlowPath, ...] = ()
        self.stream = stream
        self.packets = 0
        self.bytes = 0
        self.fin = False
        self.reset: int | None = None
        self.is_part = False
        self.stray: Stray | None = None
        self.zero_windows = self.zero_window_ns = self.window_full = 0
        self.closed_ns: int | None = None
        self.stopped_ns: int | None = None
        self.window_unit = UNKNOWN
        self.window_scale: int | None = None
        self.window_watched = False


@dataclass(slots=True, eq=False)
class Flow:
    """One TCP connection. Flows compare and hash by identity.

    - `id`: the session id.
    - `key`: the key of the first packet; `capture`: the file of that packet.
    - `originator`, `responder`: "ip:port", for IPv6 "[ip]:port".
    - `midstream`: neither SYN nor SYN-ACK was seen, so the originator is a guess.
    - `accepted`: the responder sent the first packet.
    - `last_ns`: the time of the last packet, or of a later one just before; `past_ns`: the latest time before
      the clock of the capture was set back, if it was.
    - `ended_by`: the sender of the first FIN or RST, which came at `ended_ns`.
    - `closed_ns`: the time when the flow was closed.
    - `complete`: all bytes of both directions up to both FINs were delivered; late packets can only show
      oddities.
    - `over`: nothing more will be delivered.
    - `is_shared`: another flow between the same ports lived at the same time, on another path.
    - `packed`: if not empty, it contains the sides instead of `sides` (see `packed_flow`).

    A flow is in no reference cycle, so its memory is freed without the garbage collector.
    """

    id: str
    key: bytes
    capture: str
    first_ns: int
    last_ns: int
    midstream: bool
    accepted: bool
    sides: tuple[Side, ...]
    end: End = End.OPEN
    ended_by: Direction | None = None
    ended_ns: int | None = None
    closed_ns: int | None = None
    complete: bool = False
    over: bool = False
    is_shared: bool = False
    past_ns: int = EARLIEST_NS
    packed: bytes = b""

    @property
    def latest_ns(self) -> int:
        """The latest time of any packet."""
        return max(self.last_ns, self.past_ns)

    @property
    def community_id(self) -> str:
        """Community ID v1."""
        return community_id(self.key)

    @property
    def originator(self) -> str:
        """The endpoint that opened the connection."""
        return endpoints(self.key)[self.accepted]

    @property
    def responder(self) -> str:
        """The endpoint that accepted the connection."""
        return endpoints(self.key)[not self.accepted]

    def side(self, direction: Direction) -> Side:
        """The side that sends in this direction."""
        first, second = self.sides
        return first if first.direction is direction else second

    def swap(self) -> None:
        """Exchanges originator and responder. Later deliveries have the new directions; the caller must
        change the directions of earlier ones."""
        self.accepted = not self.accepted
        for side in self.sides:
            side.direction = side.direction.other
        if self.ended_by is not None:
            self.ended_by = self.ended_by.other


# A flow, the side that sends segments with this key, and the other side.
Route = tuple[Flow, Side, Side]
# Items of one direction of one flow, in stream order.
Delivery = tuple[Flow, Direction, list[Item]]


def is_another(route: Route, segment: Segment) -> bool:
    """Whether a segment belongs to a later connection between the same ports."""
    flow, side, peer = route
    stream = side.stream
    if segment.flags & _RST:
        return False
    if segment.flags & _SYN and not stream.fits(segment.seq):
        return True
    if flow.closed_ns is None:
        return False
    if segment.flags & (_SYN | _ACK) == _SYN:
        # The connection was refused, and is tried again with the same sequence number, as Windows does.
        refused = side.reset is not None or peer.reset is not None
        return refused and not stream.offset + peer.stream.offset
    return segment.length > 0 and not stream.near(segment.seq)


def is_closed(flow: Flow) -> bool:
    """Whether only late packets can be expected. If a sender continues after its RST, it did not send the RST
    itself, or the receiver did not accept the RST (RFC 5961)."""
    if flow.packed or all(side.fin or not side.packets for side in flow.sides):
        return True
    return any(side.reset is not None and side.stream.offset <= side.reset for side in flow.sides)


def completed(flow: Flow) -> list[Delivery]:
    """If a flow has just become complete, marks it and returns an empty delivery of each direction. Otherwise
    returns nothing."""
    if flow.complete or not all(side.stream.is_complete for side in flow.sides):
        return []
    flow.complete = True
    for side in flow.sides:
        side.stream.shorten()
    return [(flow, direction, []) for direction in Direction]


def worth(flow: Flow) -> tuple[bool, bool, int]:
    """The sort key of flows when some must be dropped: closed flows go first, then flows without payload,
    then the flows that have been silent for longest."""
    has_bytes = bool(flow.packed) or any(side.bytes for side in flow.sides)
    return flow.closed_ns is None, has_bytes, flow.last_ns


def move_routes(flow: Flow, source: dict[bytes, Route], target: dict[bytes, Route]) -> None:
    """Moves the routes of a flow from `source`, if they are there, to `target`."""
    for side in flow.sides:
        if side.key in source and source[side.key][0] is flow:
            target[side.key] = source.pop(side.key)


def reversed_key(key: bytes) -> bytes:
    """The key of segments in the opposite direction."""
    size = (len(key) - 4) // 2
    return key[size : 2 * size] + key[:size] + key[-2:] + key[-4:-2]


def sides_by_key(flow: Flow, key: bytes) -> Route:
    """The route of segments with this key."""
    one, other = flow.sides
    return (flow, one, other) if one.key == key else (flow, other, one)


def undirected(key: bytes) -> bytes:
    """A key that is the same for both directions: the two endpoints, the lower one first."""
    size = (len(key) - 4) // 2
    source, target = key[:size] + key[-4:-2], key[size : 2 * size] + key[-2:]
    return source + target if source < target else target + source


def endpoints(key: bytes) -> tuple[str, str]:
    """Source and target as text."""
    size = (len(key) - 4) // 2
    return _endpoint(key[:size], key[-4:-2]), _endpoint(key[size : 2 * size], key[-2:])


def _endpoint(address: bytes, port: bytes) -> str:
    host = "%d.%d.%d.%d" % tuple(address) if len(address) == 4 else f"[{_ipv6_text(address)}]"
    return f"{host}:{int.from_bytes(port, 'big')}"


def _ipv6_text(address: bytes) -> str:
    """An IPv6 address in hexadecimal groups, which the networks of audits rely on: from Python 3.13 on, `str`
    of an IPv4-mapped address ends with an IPv4 address."""
    if address.startswith(_IPV4_MAPPED):
        high, low = address[12:14], address[14:]
        return f"::ffff:{int.from_bytes(high, 'big'):x}:{int.from_bytes(low, 'big'):x}"
    return str(IPv6Address(address))


def community_id(key: bytes) -> str:
    """Community ID v1 of a TCP flow, seed 0: the same for both directions."""
    ends = undirected(key)
    half = len(ends) // 2
    low, high = ends[:half], ends[half:]
    text = b"\0\0" + low[:-2] + high[:-2] + bytes((_TCP, 0)) + low[-2:] + high[-2:]
    return "1:" + base64.b64encode(hashlib.sha1(text).digest()).decode("ascii")


def session_id(community: str, first_ns: int, path: FlowPath = NO_PATH) -> str:
    """The id of the flow with this Community ID whose first packet came at `first_ns`. It needs the `path` of
    that packet only if another flow between the same ports began at the same time."""
    names = (community, first_ns, *(path if path != NO_PATH else ()))
    return hashlib.sha1("|".join(map(str, names)).encode()).hexdigest()[:16]
