"""TCP flows: the state of a connection, its limits, and its identifiers.

Flows are named by Community ID v1 (https://github.com/corelight/community-id-spec), which other tools
compute as well, and, as ports are reused, by the time of the first packet.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv6Address
from typing import NamedTuple, Protocol

from ..types import Chunk, Direction, Item, Segment

_TCP = 6
_SYN, _RST, _ACK = 2, 4, 16
UNKNOWN = 1 << 32
"""A `window_unit` with which no window is equal to a distance between sequence numbers, but 0."""


class End(Enum):
    """How a flow ended: the first sign of its end, or the reason why it was dropped without one."""

    FIN = "fin"
    RST = "rst"
    IDLE = "idle"
    EVICTED = "evicted"
    OPEN = "open"


class StreamState(NamedTuple):
    """A complete stream that holds nothing: its counts, its sequence numbers (`fin` is the position of its
    end), the latest number and window that the other side sent, and its last bytes with their position.
    """

    counts: tuple[int, int, int]
    offset: int
    isn: int | None
    seq: int
    base_seq: int
    fin: int
    ack: tuple[int, int] | None
    last: tuple[int, bytes] | None


class ByteStream(Protocol):
    """One direction's reassembly: `reassembly.Stream`. `held` is what waits: while it is empty, an
    acknowledgement only has to be left in `ack`; `next_seq` is then the sequence number whose bytes are
    handed up at once (-1: they are not). `advance` is a `push` of many, the last of which brings `last`.
    `position` is where in the stream a sequence number is,
    and `near` whether that is about where the stream is now."""

    ack: Segment | None
    next_seq: int
    offset: int
    missing_bytes: int
    retransmitted_bytes: int
    out_of_order: int

    @property
    def held(self) -> Sequence[object]: ...
    @property
    def held_bytes(self) -> int: ...
    @property
    def is_complete(self) -> bool: ...
    def push(self, segment: Segment) -> list[Item]: ...
    def acked(self, segment: Segment) -> list[Item]: ...
    def advance(self, last: Chunk) -> None: ...
    def relieve(self) -> list[Item]: ...
    def finish(self) -> list[Item]: ...
    def shorten(self) -> None: ...
    def packed(self) -> StreamState: ...
    def unpack(self, state: StreamState) -> None: ...
    def fits(self, isn: int) -> bool: ...
    def near(self, seq: int) -> bool: ...
    def position(self, seq: int) -> int: ...


class Stray(NamedTuple):
    """A segment that fits no window of its flow, and the number of packets that its sender had sent
    before. `moved`: another connection began with it. The payload is stored separately, because a saved
    segment has none."""

    segment: Segment
    payload: bytes
    packets: int
    moved: bool = False


class Side:
    """One direction of a flow. `packets` counts all of its packets, `bytes` their TCP payload,
    repetitions included; what is lost and repeated in it is counted by its `stream`. `reset` is where
    in the stream it sent RST. `stray`: see `strays`.

    Of receive windows (see `window`): `zero_windows` are the packets with a window of 0,
    `zero_window_ns` is how long that lasted in all, `closed_ns` since when it lasts now, `stopped_ns` when
    it last ended after long; `window_full` are the segments that filled the other side's window, which
    counts in units of `window_unit` bytes, or UNKNOWN; `window_scale` is that of the SYN. While
    `window_watched`, any packet may change these.
    """

    __slots__ = (
        "key",
        "direction",
        "stream",
        "packets",
        "bytes",
        "fin",
        "reset",
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
        self.stream = stream
        self.packets = 0
        self.bytes = 0
        self.fin = False
        self.reset: int | None = None
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

    `id` is the session id; `key` is that of the first packet's sender, as in segments, and `capture` is the
    file of that packet. `originator` and `responder` are "ip:port", "[ip]:port" for IPv6. `midstream`:
    neither SYN nor SYN-ACK was seen, so that the originator is a guess; `accepted`: the responder sent the
    first packet. `ended_by` is who sent the first FIN or RST, at `ended_ns`. `closed_ns` is when it was
    closed, if it was. `complete`: all bytes of both directions were delivered, up to both FINs, and late
    packets can only be odd. `over`: nothing more will be delivered. `packed` has the sides in few bytes,
    instead of `sides`, while it is not empty (see `packed_flow`).

    Nothing that a flow holds refers back to it, so that its memory is free with the last reference to it
    and not when a garbage collector looks.
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
    packed: bytes = b""

    @property
    def community_id(self) -> str:
        """Community ID v1."""
        return community_id(self.key)

    @property
    def originator(self) -> str:
        """Who opened the connection."""
        return endpoints(self.key)[self.accepted]

    @property
    def responder(self) -> str:
        """Who accepted it."""
        return endpoints(self.key)[not self.accepted]

    def side(self, direction: Direction) -> Side:
        """The counters of one direction."""
        first, second = self.sides
        return first if first.direction is direction else second

    def swap(self) -> None:
        """Exchange originator and responder: what comes from now on says the new direction. The caller
        turns round what it already holds."""
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
    """Whether a segment belongs to a later flow between the same ports."""
    flow, side, peer = route
    stream = side.stream
    if segment.flags & _RST:
        return False
    if segment.flags & _SYN and not stream.fits(segment.seq):
        return True
    if flow.closed_ns is None:
        return False
    if segment.flags & (_SYN | _ACK) == _SYN:
        # Refused, and tried again with the same number, as Windows does.
        refused = side.reset is not None or peer.reset is not None
        return refused and not stream.offset + peer.stream.offset
    return segment.length > 0 and not stream.near(segment.seq)


def is_closed(flow: Flow) -> bool:
    """Whether only late packets can be expected. A sender that continues after its RST did not send the
    RST itself, or the receiver did not believe it (RFC 5961)."""
    if flow.packed or all(side.fin or not side.packets for side in flow.sides):
        return True
    return any(side.reset is not None and side.stream.offset <= side.reset for side in flow.sides)


def completed(flow: Flow) -> list[Delivery]:
    """An empty delivery of each direction, once, when a flow has become complete."""
    if flow.complete or not all(side.stream.is_complete for side in flow.sides):
        return []
    flow.complete = True
    for side in flow.sides:
        side.stream.shorten()
    return [(flow, direction, []) for direction in Direction]


def worth(flow: Flow) -> tuple[bool, bool, int]:
    """The rank of a flow when some must be dropped: closed flows go first, then flows without payload,
    then the longest silent."""
    said = bool(flow.packed) or any(side.bytes for side in flow.sides)
    return flow.closed_ns is None, said, flow.last_ns


def move_routes(flow: Flow, source: dict[bytes, Route], target: dict[bytes, Route]) -> None:
    """Moves the routes of a flow from one table to another, as far as they are there."""
    for side in flow.sides:
        if side.key in source and source[side.key][0] is flow:
            target[side.key] = source.pop(side.key)


def reversed_key(key: bytes) -> bytes:
    """The key of segments in the opposite direction."""
    size = (len(key) - 4) // 2
    return key[size : 2 * size] + key[:size] + key[-2:] + key[-4:-2]


def undirected(key: bytes) -> bytes:
    """The same key for both directions: the two endpoints, the lower one first."""
    size = (len(key) - 4) // 2
    source, target = key[:size] + key[-4:-2], key[size : 2 * size] + key[-2:]
    return source + target if source < target else target + source


def endpoints(key: bytes) -> tuple[str, str]:
    """Source and target as text."""
    size = (len(key) - 4) // 2
    return _endpoint(key[:size], key[-4:-2]), _endpoint(key[size : 2 * size], key[-2:])


def _endpoint(address: bytes, port: bytes) -> str:
    host = "%d.%d.%d.%d" % tuple(address) if len(address) == 4 else f"[{IPv6Address(address)}]"
    return f"{host}:{int.from_bytes(port, 'big')}"


def community_id(key: bytes) -> str:
    """Community ID v1 of a TCP flow, seed 0: the same for both directions."""
    ends = undirected(key)
    half = len(ends) // 2
    low, high = ends[:half], ends[half:]
    text = b"\0\0" + low[:-2] + high[:-2] + bytes((_TCP, 0)) + low[-2:] + high[-2:]
    return "1:" + base64.b64encode(hashlib.sha1(text).digest()).decode("ascii")


def session_id(community: str, first_ns: int) -> str:
    """The name of the flow with this Community ID whose first packet came at `first_ns`."""
    return hashlib.sha1(f"{community}|{first_ns}".encode()).hexdigest()[:16]
