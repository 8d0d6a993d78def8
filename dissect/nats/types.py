"""Values that the stages below NATS exchange: packets, segments, ticks, chunks, gaps and oddities.

`capture` yields `Packets`; `packet` extracts a `Segment` from each packet that carries TCP; `tcp` assigns
segments to flows and reassembles each direction into `Chunk`s of in-order bytes, `Gap`s, and `Oddity`s for
everything else worth reporting. Times are integers in nanoseconds since the epoch; packets are numbered
from 1 in their file. A value does not change once a stage has passed it on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from .schema.anomalies import Anomaly

# Not later than any packet, because tables have 64 bits for times. As a tick, it ends no flow.
EARLIEST_NS = -(1 << 63)
NEVER_NS = 1 << 128  # later than any packet: pcapng has 64 bits for seconds
TICK_NS = 1_000_000_000  # the resolution of time-outs; see `Tick`
# A packet that is further ahead of the packet before it is believed once the next packet agrees: networks are
# rarely silent for so long, and single packets have wrong times. See `passed_ns`.
CLOCK_AHEAD_NS = 3600 * 10**9
# In `Segment.flags`: other bytes of this Multipath TCP connection travel on flows that are not known.
ELSEWHERE = 0x100
# In `Segment.flags`: the checksum is wrong although others of this side are right (see `tcp.checksum`).
DAMAGED = 0x200
NO_SCALE = -1  # see `Segment.window_scale`


def passed_ns(before_ns: int, ts_ns: int) -> int:
    """The time that has passed for all flows once a packet comes: its own, or that of the packet before if it
    is far ahead of that one. It depends on these two packets alone, so every part of a capture knows it.
    """
    return before_ns if ts_ns - before_ns > CLOCK_AHEAD_NS else ts_ns


class FlowPath(NamedTuple):
    """Where a packet was captured: the name of the `interface`, empty if the capture has none; and the
    networks in the headers around its TCP connection, from the outermost to the innermost, such as "vlan 10,
    vni 5"."""

    interface: str = ""
    networks: str = ""


NO_PATH = FlowPath()


class Direction(Enum):
    """The sending side: the one that opened the TCP connection, or the one that accepted it."""

    ORIGINATOR = "originator"
    RESPONDER = "responder"

    __hash__ = object.__hash__  # Enum.__hash__ is written in Python, and each packet calls it

    @property
    def other(self) -> Direction:
        """The opposite direction."""
        return Direction.RESPONDER if self is Direction.ORIGINATOR else Direction.ORIGINATOR


@dataclass(slots=True)
class Packet:
    """One captured record. `data` has the captured bytes; the packet on the wire had `wire_bytes`."""

    ts_ns: int
    number: int
    capture: str
    linktype: int
    data: bytes
    wire_bytes: int
    interface: str = ""


PacketPlace = tuple[int, int, int, int]
"""A packet in a block of a file: its ts_ns, its start and end in the block, and its wire_bytes."""


@dataclass(slots=True)
class Packets:
    """Consecutive packets of one file and interface, still in the block of the file that contains them.

    A whole block is passed on at once, because making an object for each packet costs more than parsing the
    packet. `first` is the number of the first packet.
    """

    capture: str
    linktype: int
    block: bytes
    first: int
    places: Sequence[PacketPlace]
    interface: str = ""

    def __iter__(self) -> Iterator[Packet]:
        return map(self.packet, range(len(self.places)))

    def packet(self, index: int) -> Packet:
        """The packet at an index of `places`."""
        ts_ns, start, end, wire_bytes = self.places[index]
        place = ts_ns, self.first + index, self.capture, self.linktype
        return Packet(*place, self.block[start:end], wire_bytes, self.interface)


@dataclass(slots=True)
class Segment:
    """The TCP part of one packet.

    `key` is source address, destination address, source port and destination port as in the packet (12
    bytes for IPv4, 36 for IPv6), `flags` the TCP flag byte, and `payload` the captured part of the `length`
    payload bytes that the IP header announces (less with a snap length). `ordinal` is the packet's number
    among all packets that were read, over all files, from 1. `window` is the unscaled receive window of the
    header, or the largest value if it was not captured. `window_scale` is the shift count that a SYN offers
    (RFC 7323), `NO_SCALE` if the SYN has no such option, and None if it was not captured or there is no SYN.
    `header` has the captured bytes of the TCP header after the acknowledgement number, options included.
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
    path: FlowPath = field(default=NO_PATH, compare=False)
    header: bytes = field(default=b"", compare=False)

    @property
    def checksum(self) -> int | None:
        """The checksum in the header, right or wrong; None if it was not captured."""
        return int.from_bytes(self.header[4:6], "big") if len(self.header) >= 6 else None


@dataclass(slots=True)
class Tick:
    """A clock tick: the time of a TCP packet that belongs to another shard, and the packet's `ordinal`.

    The time of any packet may end a flow of this shard. Flows time out only between two seconds
    (`TICK_NS`), so a tick is needed only for the first packet of each second.
    """

    ts_ns: int
    ordinal: int = 0


class Share(NamedTuple):
    """A share of the flows: those whose `flow_hash` falls in a bucket with this number. All shares have the
    same `buckets`."""

    number: int
    buckets: Sequence[int]

    def has(self, value: int) -> bool:
        """Whether a flow with this hash is in the share."""
        return self.buckets[value % len(self.buckets)] == self.number


@dataclass(slots=True)
class Chunk:
    """In-order bytes of one direction, each delivered once. `offset` 0 is the byte after the SYN, or the
    first byte seen if there was no SYN; offsets include missing bytes. `ts_ns`, `number` and `capture` are
    those of the packet with the bytes."""

    ts_ns: int
    number: int
    capture: str
    offset: int
    data: bytes


@dataclass(slots=True)
class Gap:
    """Bytes of one direction that the capture does not have, reported at `ts_ns`.

    `truncated` distinguishes bytes cut off by the snap length from bytes whose packets are missing. `noted`
    is set once its anomaly was reported, so that a layer that begins before the gap does not report it again.
    """

    ts_ns: int
    number: int
    capture: str
    offset: int
    length: int
    truncated: bool = False
    noted: bool = False


@dataclass(slots=True)
class Oddity:
    """An anomaly in one direction that does not change the delivered bytes. `offset` and `length` tell which
    bytes of the stream it concerns."""

    ts_ns: int
    number: int
    capture: str
    offset: int
    length: int
    anomaly: Anomaly
    text: str = ""


# The output of reassembly, in the order of the stream.
Item = Chunk | Gap | Oddity
