"""Values that the stages below NATS exchange: packets, segments, ticks, chunks, gaps and oddities.

`capture` yields `Packets`; `packet` takes `Segment`s out of those that carry TCP; `tcp` assigns segments to
flows and reassembles each direction into `Chunk`s of in-order bytes, `Gap`s, and an `Oddity` for anything
else worth reporting. Times are integers, nanoseconds since the epoch; packets are numbered from 1 in their
file. A value does not change once a stage has passed it on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from .anomalies import Anomaly

NEVER_NS = 1 << 128  # later than any packet: pcapng has 64 bits for seconds
TICK_NS = 1_000_000_000  # the resolution of time-outs; see `Tick`
NO_SCALE = -1  # see `Segment.window_scale`


class Direction(Enum):
    """Who sent: the side that opened the TCP connection, or the one that accepted it."""

    ORIGINATOR = "originator"
    RESPONDER = "responder"

    @property
    def other(self) -> Direction:
        """The opposite direction."""
        return Direction.RESPONDER if self is Direction.ORIGINATOR else Direction.ORIGINATOR


@dataclass(slots=True)
class Packet:
    """One captured record. `data` is what was captured of the `wire_bytes` the packet had."""

    ts_ns: int
    number: int
    capture: str
    linktype: int
    data: bytes
    wire_bytes: int


@dataclass(slots=True)
class Packets:
    """Packets of one file that follow each other, still in the block of the file where they stand.

    A whole block is handed on at once, since making an object of every packet costs more than taking the
    packet apart. Each of `places` is the packet's ts_ns, where it begins and ends in `block`, and its
    wire_bytes; the first one's number is `first`.
    """

    capture: str
    linktype: int
    block: bytes
    first: int
    places: list[tuple[int, int, int, int]]

    def __iter__(self) -> Iterator[Packet]:
        capture, linktype, block = self.capture, self.linktype, self.block
        for number, (ts_ns, start, end, wire_bytes) in enumerate(self.places, self.first):
            yield Packet(ts_ns, number, capture, linktype, block[start:end], wire_bytes)


@dataclass(slots=True)
class Segment:
    """The TCP part of one packet.

    `key` is source address, destination address, source port, destination port as they stand in the
    packet (12 bytes for IPv4, 36 for IPv6), `flags` the TCP flag byte, `payload` what was captured of
    the `length` payload bytes that the IP header says were there (snap length, offloading). `ordinal` is
    the packet's number among all packets that were read, over all files, from 1. `window` is the receive
    window as the header has it, not scaled; the largest where it was not captured. `window_scale` is the
    shift count that a SYN offers (RFC 7323), `NO_SCALE` where it has no such option, and None where that
    was not captured or this is no SYN.
    """

    ts_ns: int
    number: int
    capture: str
    key: bytes
    seq: int
    ack: int
    flags: int
    payload: bytes
    length: int
    ordinal: int = field(default=0, compare=False)
    window: int = 0xFFFF
    window_scale: int | None = None


@dataclass(slots=True)
class Tick:
    """The time of a TCP packet that belongs to another shard, and the packet's `ordinal`.

    The time of any packet may end a flow of this shard. Flows time out only between two seconds
    (`TICK_NS`), so a tick is needed only where a packet falls in another second than the TCP packet
    before it.
    """

    ts_ns: int
    ordinal: int = 0


@dataclass(slots=True)
class Chunk:
    """In-order bytes of one direction, each delivered once. `offset` 0 is the byte after the SYN, or
    the first byte seen where there was none; missing bytes count. `ts_ns`, `number` and `capture` are
    those of the packet that brought the bytes."""

    ts_ns: int
    number: int
    capture: str
    offset: int
    data: bytes


@dataclass(slots=True)
class Gap:
    """Bytes of one direction that the capture does not have, found out at `ts_ns`.

    `truncated` tells bytes cut off by a snap length from bytes whose packets are not there.
    """

    ts_ns: int
    number: int
    capture: str
    offset: int
    length: int
    truncated: bool = False


@dataclass(slots=True)
class Oddity:
    """Something in one direction that should not be there, and changed nothing: what was delivered
    stays as it is. `offset` and `length` say which bytes of the stream it is about."""

    ts_ns: int
    number: int
    capture: str
    offset: int
    length: int
    anomaly: Anomaly
    text: str = ""


# What reassembly hands up, in the order of the stream.
Item = Chunk | Gap | Oddity
