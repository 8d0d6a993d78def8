"""TCP headers: packets -> segments, or the reason why there is none.

Follows RFC 9293. The only option that is read is the window scale of a SYN. Checksums are not verified here
(see `tcp.checksum`).
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import chain
from typing import NamedTuple
from zlib import crc32

from ..types import CLOCK_AHEAD_NS, NO_SCALE, TICK_NS, FlowPath, Packet, Packets, Segment, Tick
from .fragments import Fragments
from .ip import CUT_OFF, EXTENSIONS, TCP, UDP, Datagram, find_datagram, past_extensions, proto_name
from .link import ETHERNET, Networks, find_ip
from .mptcp import Notes, Subflows
from .tunnels import CARRIERS, look_inside

# One `unpack` call parses the common packet. Fields: the link header's mark of IPv4; first byte, length,
# fragment and protocol of IPv4; addresses and ports (adjacent without IP options); sequence number,
# acknowledgement number, data offset, flags and window of TCP. By link type: the struct, the mark,
# the offset of the IP header.
_COMMON = "BxH2xHxB2x12sIIBBH2x"
_SHAPES = {
    1: (struct.Struct("!12x2s" + _COMMON), b"\x08\x00", 14),
    113: (struct.Struct("!14x2s" + _COMMON), b"\x08\x00", 16),
    276: (struct.Struct("!2s18x" + _COMMON), b"\x08\x00", 20),
    0: (struct.Struct("!4s" + _COMMON), b"\x02\0\0\0", 4),
    108: (struct.Struct("!4s" + _COMMON), b"\0\0\0\x02", 4),
} | {raw: (struct.Struct("!0s" + _COMMON), b"", 0) for raw in (12, 14, 101, 228)}
_FIVE_WORDS = 0x45  # IPv4 without options
_HEADER = struct.Struct("!4sIIBB")
_WINDOW = struct.Struct("!H")
_NUMBERS = 12  # bytes of a TCP header before `Segment.header`
_SHOWN_AT = 20 + _NUMBERS
_PORTS = struct.Struct("!HH")
# The size of the IPv4 header (20 bytes) and the TCP header together, by the byte of the TCP header that has
# its data offset; 0 if there are more options than time stamps, such as those of Multipath TCP.
_TIME_STAMPS = 12
_HEADERS = tuple(
    size + 20 if (size := offset >> 2 & 60) <= 20 + _TIME_STAMPS else 0 for offset in range(256)
)
_FIXED = 20  # bytes of a TCP header before its options
_WITHOUT_OPTIONS = _FIXED - _NUMBERS
_SYN = 2
_END, _PADDING, _WINDOW_SCALE = 0, 1, 3
# The largest window scale: a larger one counts as 14 (RFC 7323, 2.3).
_LARGEST_SCALE = 14

# Far larger than the largest packet of Linux (512 KiB with "BIG TCP"), far smaller than half the sequence
# space.
_LARGEST = 1 << 24

# The most IP headers in a packet. Tunnels may be in tunnels, but no real network has ten levels.
_DEEPEST = 10

# The number of keys whose verdict is stored: enough for the flows that are probably alive.
_MOST_KEYS = 1 << 16

_WORTH_WAITING = (TCP, *CARRIERS, *EXTENSIONS)

JOINED = "ip fragment, joined with others"
_FRAGMENT = "ip fragment"


def flow_hash(key: bytes) -> int:
    """A 32-bit hash that is the same for both directions of a flow, in every process and on every machine.
    `key` is the key of a `Segment`."""
    size = (len(key) - 4) // 2
    source, target = key[:size] + key[-4:-2], key[size:-4] + key[-2:]
    return crc32(source + target if source < target else target + source)


class ParserState(NamedTuple):
    """The fragments that wait for others, and the subflows of Multipath TCP; empty if there are none."""

    fragments: bytes = b""
    subflows: bytes = b""


class PacketParser:
    """Parses packets. `passed_over` counts packets without a segment, by reason: "udp", "arp", "ip fragment"
    (of a datagram that never became complete), "header cut off", "link type 147, USER0" ... `udp_ports`
    counts those that are "udp" by the lower port.

    `wanted` selects flows by their `flow_hash`; it must always return the same result for the same hash. For
    example, `PacketParser(lambda value: value % n == k)` parses shard k of n: every segment of a capture is
    in exactly one shard, and both directions of a flow are in the same shard. The addresses of the flow
    itself count, not those of a tunnel around it. Segments of other flows are counted in `other_shard`; each
    costs one look-up, and gives a `Tick` if it is the first of a second. `passed_over` is the same in all
    shards.

    `datagrams` has the fragmented datagrams to which the packet of the last `segment_of` belonged, the
    outermost first: both a tunnel and the packet in it may be fragmented.
    """

    def __init__(self, wanted: Callable[[int], bool] | None = None) -> None:
        self.passed_over: Counter[str] = Counter()
        self.udp_ports: Counter[int] = Counter()
        self.other_shard = 0
        self.datagrams: list[bytes] = []
        self._wanted = wanted
        self._verdicts: dict[bytes, bool] = {}
        self._packets = 0
        self._second_ns = -1, -1  # start and end of the second that has the latest TCP packet
        self._fragments = Fragments(self._count_lost_fragments)
        self._subflows = Subflows()

    def segments(self, runs: Iterable[Packets]) -> Iterator[Segment | Tick]:
        """The segments in the packets, in the same order, and ticks for packets of other shards.

        A whole run is parsed before its first segment is yielded: the code and data of each stage then stay
        in the processor's caches from packet to packet, which makes the whole dissection a tenth faster.
        """
        yield from self.feed(runs)
        self.finish()

    def feed(self, runs: Iterable[Packets]) -> Iterator[Segment | Tick]:
        """Like `segments`, if more packets follow later: fragments keep waiting for the others."""
        return chain.from_iterable(map(self._segments_in, runs))

    def parse(self, run: Packets, before: int) -> list[Segment | Tick]:
        """The segments of a run, before which `before` packets were read, here or elsewhere."""
        self._packets = before
        return self._segments_in(run)

    @property
    def met_subflows(self) -> bool:
        """Whether there are subflows of Multipath TCP: segments of a flow may come under other ports."""
        return bool(self._subflows.sides)

    def _segments_in(self, run: Packets) -> list[Segment | Tick]:
        """The segments of a run, and the ticks."""
        found: list[Segment | Tick] = []
        for index, common in enumerate(_common(run, self._subflows.sides)):
            segment = common or self.segment_of(run.packet(index))
            if segment is None:
                continue
            segment.ordinal = self._packets + index + 1
            begins_second = self._wanted and self._begins_second(segment.ts_ns)
            if self._is_wanted(segment.key):
                found.append(segment)
                continue
            self.other_shard += 1
            if begins_second:
                found.append(Tick(segment.ts_ns, segment.ordinal))
        self._packets += len(run.places)
        return found

    def _begins_second(self, ts_ns: int) -> bool:
        """Whether this is the first TCP packet of a second. If the second before is long ago, the next packet
        begins one, too, and may agree."""
        before_ns, until_ns = self._second_ns
        if before_ns <= ts_ns < until_ns:
            return False
        since_ns = ts_ns - ts_ns % TICK_NS
        is_far = before_ns >= 0 and since_ns - before_ns > CLOCK_AHEAD_NS
        self._second_ns = since_ns, since_ns + TICK_NS * (not is_far)
        return True

    def finish(self) -> None:
        """Counts the fragments that still wait for others. Call it when no more packets follow."""
        self._fragments.finish()

    @property
    def met_fragments(self) -> bool:
        """Whether there were fragments. Their datagrams may have begun before the packets that were
        parsed."""
        return self._fragments.met

    def note_subflows(self) -> Notes:
        """The notes about the subflows in the packets that follow."""
        self._subflows.notes = Notes()
        return self._subflows.notes

    def save(self) -> ParserState:
        """The state, for `load`."""
        return ParserState(self._fragments.save(), self._subflows.save())

    def load(self, state: ParserState) -> None:
        """Restores the state that `save` returned."""
        self._fragments.load(state.fragments)
        self._subflows.load(state.subflows)

    def _is_wanted(self, key: bytes) -> bool:
        """Whether the segments of a flow are wanted."""
        if self._wanted is None:
            return True
        verdict = self._verdicts.get(key)
        if verdict is None:
            if len(self._verdicts) >= _MOST_KEYS:
                self._verdicts.clear()
            verdict = self._verdicts[key] = self._wanted(flow_hash(key))
        return verdict

    def segment_of(self, packet: Packet) -> Segment | None:
        """The segment of a packet with any headers, in any shard, or None. A packet without a segment is
        counted in `passed_over`; a waiting fragment is counted later, when its datagram is complete or given
        up."""
        segment = self._decoded(packet)
        if isinstance(segment, str):
            self.passed_over[segment] += 1
            return None
        return segment

    def _decoded(self, packet: Packet) -> Segment | str | None:
        """The segment in a packet, or the reason why there is none; None for a fragment that waits."""
        if self.datagrams:
            self.datagrams = []
        data, end = packet.data, packet.wire_bytes
        networks: Networks = []
        at = find_ip(packet.linktype, data, networks)
        for _ in range(_DEEPEST):
            if isinstance(at, str):
                return at
            datagram = find_datagram(data, at, end)
            while not isinstance(datagram, str) and datagram.fragment:
                if datagram.proto not in _WORTH_WAITING:
                    return proto_name(datagram.proto)
                joined = self._joined(packet.ts_ns, data, datagram)
                if joined is None:
                    return None
                data, datagram = joined
            if isinstance(datagram, str):
                return datagram
            if datagram.proto == TCP:
                path = FlowPath(packet.interface, ", ".join(networks))
                segment = _segment(packet, path, data, datagram)
                if isinstance(segment, Segment):
                    body = datagram.end - segment.length
                    options = data[datagram.start + _FIXED : body]
                    is_long = len(options) > _TIME_STAMPS
                    if segment.flags & _SYN or is_long or segment.key in self._subflows.sides:
                        before = segment.key, segment.seq, segment.ack
                        self._subflows.translate(segment, options)
                        # The checksum is not that of the segment in its new place.
                        if (segment.key, segment.seq, segment.ack) != before:
                            segment.header = segment.header[:_WITHOUT_OPTIONS]
                return segment
            inside = look_inside(datagram.proto, data, datagram.start, datagram.end, networks)
            if isinstance(inside, str):
                if datagram.proto == UDP and datagram.start + 4 <= len(data):
                    ports = _PORTS.unpack_from(data, datagram.start)
                    self.udp_ports[min(ports)] += 1  # a service has the lower one
                return inside
            data, end, at = data[inside.start :], datagram.end - inside.start, 0
            if inside.ethernet:
                at = find_ip(ETHERNET, data, networks)
        return "tunnels nested too deep"

    def _joined(
        self, ts_ns: int, data: bytes, datagram: Datagram
    ) -> tuple[bytes, Datagram | str] | None:
        """Adds a fragment. If it completes a datagram, returns the datagram's data and contents."""
        addresses, proto, start, end, fragment = datagram
        assert fragment is not None
        self.datagrams.append(fragment.datagram)
        whole = self._fragments.put(ts_ns, fragment, proto, data[start:end], end - start)
        if whole is None:
            return None
        proto, data, size, others = whole
        self.passed_over[JOINED] += others
        return data, past_extensions(data, Datagram(addresses, proto, 0, size))

    def _count_lost_fragments(self, packets: int) -> None:
        self.passed_over[_FRAGMENT] += packets


def _common(run: Packets, subflows: Container[bytes]) -> Iterator[Segment | None]:
    """The segments of packets with common headers; None for any other packet."""
    shape, mark, ip_at = _SHAPES.get(run.linktype, (None, b"", 0))
    block, capture, path = run.block, run.capture, FlowPath(run.interface)
    for number, (ts_ns, start, end, _) in enumerate(run.places, run.first):
        if shape is None or start + shape.size > end:
            yield None
            continue
        kind, first, total, part, proto, key, seq, ack, offset, flags, window = shape.unpack_from(
            block, start
        )
        headers = _HEADERS[offset]
        if (
            kind != mark
            or first != _FIVE_WORDS
            or proto != TCP
            or not total >= headers >= 40
            or flags & _SYN
            or part & 0x3FFF  # an offset, or more to follow
            or key in subflows
        ):
            yield None
            continue
        at = start + ip_at
        size, payload = total - headers, block[at + headers : min(at + total, end)]
        rest = block[at + _SHOWN_AT : at + headers]
        yield Segment(
            ts_ns, number, capture, key, seq, ack, flags, payload, size, 0, window, None, path, rest
        )


def _segment(packet: Packet, path: FlowPath, data: bytes, datagram: Datagram) -> Segment | str:
    addresses, _, start, end, _ = datagram
    if start + _HEADER.size > len(data):
        return CUT_OFF
    ports, seq, ack, offset, flags = _HEADER.unpack_from(data, start)
    body = start + (offset >> 4) * 4
    options = start + _FIXED
    if not options <= body <= end or end - body > _LARGEST:
        return "bad tcp header"
    key = addresses + ports
    payload = data[body:end]
    place = packet.ts_ns, packet.number, packet.capture, key
    header = data[start + _NUMBERS : body]
    segment = Segment(*place, seq, ack, flags, payload, end - body, path=path, header=header)
    if start + _HEADER.size + _WINDOW.size <= len(data):
        (segment.window,) = _WINDOW.unpack_from(data, start + _HEADER.size)
    if flags & _SYN:
        segment.window_scale = window_scale(data[options:body], body - options)
    return segment


def window_scale(captured: bytes, size: int) -> int | None:
    """The window scale in the options of a SYN. NO_SCALE means that there is none; None means that it is
    unknown, because not all of the `size` bytes of options were captured."""
    options = captured[:size]
    at = 0
    while at + 2 < len(options) and options[at] != _END:
        if options[at] == _WINDOW_SCALE:
            return min(options[at + 2], _LARGEST_SCALE)
        at += 1 if options[at] == _PADDING else max(options[at + 1], 2)
    return NO_SCALE if len(options) == size else None
