"""Multipath TCP (RFC 8684): segments of all subflows -> segments of the first one, in order of the data.

A connection has several subflows, which are TCP connections of their own. Options say where their bytes
belong in the data of the connection (DSS). Here, segments of later subflows become segments of the first one:
the data sequence numbers are counted on from its sequence numbers, so reassembly needs to know nothing of
this. Only the SYNs of later subflows stay what they are.

Where the place of bytes is unknown, because the beginning of the connection or of a subflow was not captured,
segments stay as they are, and have the flag ELSEWHERE once the data shows that other bytes travel elsewhere.

A capture may be read in parts at the same time. The state in which a part begins follows from the states and
the `Notes` of the parts before it: `replayed`.
"""

from __future__ import annotations

import hashlib
import marshal
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from ..types import ELSEWHERE, Segment

_FIN, _SYN, _RST, _ACK = 1, 2, 4, 16
_MASK = 0xFFFFFFFF
_END, _PADDING, _KIND = 0, 1, 30
_CAPABLE, _JOIN, _DSS = 0, 1, 2
_NEAR = 64 << 20
_MOST = 1 << 14  # subflows whose directions are known; of more, the oldest are forgotten
_FEW = 1 << 10
_NO_REFERENCES = (
    2  # the version of `marshal` in which it does not matter whether equal objects are the same
)


class _Mapping(NamedTuple):
    """The mapping of a DSS option: relative sequence number, data sequence number, length."""

    start: int
    data: int
    length: int


@dataclass(slots=True)
class _SubflowWay:
    """One direction of a connection: the key of its first subflow; the data sequence number of byte 0 of that
    subflow's numbers, once known; and the end of its data, in that subflow's numbers."""

    key: bytes
    offset: int | None = None
    end: int = 0


@dataclass(slots=True)
class _SubflowSide:
    """One direction of a subflow: of which connection, its first number, and its latest mapping, with its
    sequence number."""

    way: _SubflowWay
    back: _SubflowWay
    isn: int
    is_first: bool
    mapping: _Mapping | None = None


_Value = TypeVar("_Value")
_Ways = tuple[_SubflowWay, _SubflowWay]


class Noted(NamedTuple):
    """A packet of a subflow, as `Subflows.translate` needs it."""

    key: bytes
    seq: int
    ack: int
    flags: int
    length: int
    options: bytes


class Notes:
    """The packets that change the state of `Subflows` most: those that open subflows; and the first packet,
    the last one and the one with the latest data that each sender sent after that."""

    def __init__(self) -> None:
        self._packets: dict[tuple[bytes, int, str], Noted] = {}
        self._opened: Counter[bytes] = Counter()
        self._data: dict[tuple[bytes, int, str], int] = {}

    def __iter__(self) -> Iterator[Noted]:
        return iter(self._packets.values())

    def add(self, packet: Noted, opens: bool, mapping: _Mapping | None) -> None:
        """Notes a packet."""
        key, packets = packet.key, self._packets
        self._opened[key] += opens
        number = self._opened[key]
        if opens:
            packets[key, number, "opens"] = packet
            return
        packets.setdefault((key, number, "first"), packet)
        roles = ["last" if mapping else "unmapped"]
        if mapping:
            latest, data = (key, number, "latest"), mapping.data + mapping.length & _MASK
            if (data - self._data.get(latest, data) & _MASK) < 1 << 31:
                self._data[latest] = data
                roles.append("latest")
        for role in roles:
            packets.pop((key, number, role), None)  # the order is that of the packets
            packets[key, number, role] = packet


@dataclass(slots=True)
class Subflows:
    """The subflows whose beginning was seen, by the keys of their segments. `notes` has the packets that
    change this state, if it is set."""

    sides: dict[bytes, _SubflowSide] = field(default_factory=dict)
    notes: Notes | None = None
    _tokens: dict[bytes, _Ways] = field(default_factory=dict)
    # Of subflows of unknown connections: data minus sequence.
    _loose: dict[bytes, int] = field(default_factory=dict)

    def save(self) -> bytes:
        """The state, for `load`; empty if there is none. Equal states are equal bytes."""
        if not (self.sides or self._tokens or self._loose):
            return b""
        numbers: dict[int, int] = {}
        ways: list[tuple[bytes, int | None, int]] = []

        def number(way: _SubflowWay) -> int:
            if id(way) not in numbers:
                numbers[id(way)] = len(ways)
                ways.append((way.key, way.offset, way.end))
            return numbers[id(way)]

        def values(side: _SubflowSide) -> tuple[object, ...]:
            mapping = side.mapping and tuple(side.mapping)
            return number(side.way), number(side.back), side.isn, side.is_first, mapping

        sides = [(key, *values(side)) for key, side in self.sides.items()]
        tokens = [(token, *map(number, pair)) for token, pair in self._tokens.items()]
        return marshal.dumps((ways, sides, tokens, [*self._loose.items()]), _NO_REFERENCES)

    def load(self, state: bytes) -> None:
        """Restores what `save` returned."""
        if not state:
            return
        saved, sides, tokens, loose = marshal.loads(state)
        ways = [_SubflowWay(*way) for way in saved]
        self.sides.update(
            (
                key,
                _SubflowSide(ways[way], ways[back], isn, is_first, mapping and _Mapping(*mapping)),
            )
            for key, way, back, isn, is_first, mapping in sides
        )
        self._tokens.update((token, (ways[one], ways[other])) for token, one, other in tokens)
        self._loose.update(loose)

    def translate(self, segment: Segment, options: bytes) -> None:
        """Changes a segment of a later subflow into one of the first subflow. `options` are those of TCP."""
        found = dict(_options(options))
        ack, mapping = _dss(found[_DSS]) if _DSS in found else (None, None)
        if self.notes is not None:
            self._note(self.notes, segment, options, found, mapping)
        if segment.flags & _SYN:
            self._open(segment, found)
            return
        side = self.sides.get(segment.key)
        if side is not None and _has_keys(found):
            self._name(found[_CAPABLE][2:10], (side.back, side.way))
        if side is None:
            self._observe(segment, mapping)
        elif not self._place(segment, side, ack, mapping):
            segment.flags |= ELSEWHERE

    def _note(
        self,
        notes: Notes,
        segment: Segment,
        options: bytes,
        found: dict[int, bytes],
        mapping: _Mapping | None,
    ) -> None:
        key, flags, length = segment.key, segment.flags, segment.length
        opens = flags & _SYN and (found or key in self.sides) or _has_keys(found)
        if opens or mapping or length and key in self.sides:
            packet = Noted(key, segment.seq, segment.ack, flags, length, options)
            notes.add(packet, bool(opens), mapping)

    def _open(self, segment: Segment, found: dict[int, bytes]) -> None:
        key, back = segment.key, _reversed(segment.key)
        # Of the oldest, `_observe` sees that their bytes are not mapped.
        _forget_oldest(self.sides)
        if _CAPABLE in found and not segment.flags & _ACK:
            ways = _SubflowWay(key), _SubflowWay(back)
            self.sides[key] = _SubflowSide(*ways, segment.seq, True)
            self.sides[back] = _SubflowSide(*ways[::-1], 0, True)
        elif _JOIN in found and not segment.flags & _ACK:
            known = self._tokens.get(found[_JOIN][2:6]) or self._between(key)
            if known is None:
                segment.flags |= ELSEWHERE
                return
            self.sides[key] = _SubflowSide(*known, segment.seq, False)
            self.sides[back] = _SubflowSide(*known[::-1], 0, False)
        elif segment.flags & _ACK and key in self.sides:
            side = self.sides[key]
            if side.is_first and not side.isn and _CAPABLE not in found:  # the server has plain TCP
                del self.sides[key], self.sides[back]
                return
            side.isn = segment.seq
            if _CAPABLE in found:
                self._name(found[_CAPABLE][2:10], (side.back, side.way))
        else:
            self.sides.pop(key, None)  # the ports are used again
            self.sides.pop(back, None)

    def _name(self, secret: bytes, ways: _Ways) -> None:
        """Stores the token of a peer (version 1, and version 0), with the ways to and from this peer."""
        if len(secret) == 8:
            for token in (hashlib.sha256(secret).digest()[:4], hashlib.sha1(secret).digest()[:4]):
                _forget_oldest(self._tokens)
                self._tokens[token] = ways

    def _between(self, key: bytes) -> _Ways | None:
        """The only connection between the same addresses, towards the same port; None among many others."""
        if len(self.sides) > _FEW:  # the search takes 0.1 us for each
            return None
        ways = [
            (side.way, side.back)
            for other, side in self.sides.items()
            if side.is_first and other[:-4] == key[:-4] and other[-2:] == key[-2:]
        ]
        return ways[0] if len(ways) == 1 else None

    def _observe(self, segment: Segment, mapping: _Mapping | None) -> None:
        """Looks whether the bytes of a subflow whose beginning is unknown are all of the data. Of too many
        subflows nobody can tell: they say so, too."""
        if mapping and segment.length:
            offset = mapping.data - segment.seq & _MASK
            if segment.key not in self._loose and len(self._loose) >= 2 * _MOST:
                segment.flags |= ELSEWHERE
            elif self._loose.setdefault(segment.key, offset) != offset:
                segment.flags |= ELSEWHERE

    def _place(
        self,
        segment: Segment,
        side: _SubflowSide,
        ack: int | None,
        mapping: _Mapping | None,
    ) -> bool:
        """Gives a segment its place in the first subflow; returns whether that is known."""
        way, back = side.way, side.back
        if mapping:
            start = side.isn + mapping.start & _MASK
            if (segment.seq - start & _MASK) >= max(mapping.length, 1):
                start = segment.seq
            side.mapping = mapping._replace(start=start)
        seq = way.end
        if segment.length:
            if side.mapping is None:
                return way.offset is None and side.is_first
            data = side.mapping.data + (segment.seq - side.mapping.start)
            if way.offset is None and side.is_first:
                way.offset = data - segment.seq & _MASK
                way.end = segment.seq
            if way.offset is None:
                return False
            seq = data - way.offset & _MASK
            if (seq - way.end + _NEAR & _MASK) > 2 * _NEAR:
                return False
            if (seq + segment.length - way.end & _MASK) < 1 << 31:
                way.end = seq + segment.length & _MASK
        elif way.offset is None:
            return side.is_first
        segment.key, segment.seq = way.key, seq
        known = None if ack is None or back.offset is None else ack - back.offset & _MASK
        if known is not None and (back.end - known & _MASK) <= _NEAR:
            segment.ack = known
        elif not side.is_first:
            segment.flags &= ~_ACK
        if not side.is_first:
            segment.flags &= ~(_FIN | _RST)
        return True


def replayed(state: bytes, notes: Iterable[Noted]) -> bytes:
    """The state after packets, from the state before them: most likely the same as after all of them."""
    subflows = Subflows()
    subflows.load(state)
    for key, seq, ack, flags, length, options in notes:
        segment = Segment(0, 0, "", key, seq, ack, flags, b"", length)
        subflows.translate(segment, options)
    return subflows.save()


def _forget_oldest(known: dict[bytes, _Value]) -> None:
    while len(known) >= 2 * _MOST:
        del known[next(iter(known))]


def _options(options: bytes) -> Iterator[tuple[int, bytes]]:
    """The options of Multipath TCP, by subtype, without kind and length."""
    at = 0
    while at + 2 < len(options) and options[at] != _END:
        if options[at] == _PADDING:
            at += 1
            continue
        size = max(options[at + 1], 2)
        if options[at] == _KIND:
            yield options[at + 2] >> 4, options[at + 2 : at + size]
        at += size


def _has_keys(found: dict[int, bytes]) -> bool:
    """Whether a client says its key again after the handshake."""
    return len(found.get(_CAPABLE, b"")) >= 18


def _dss(option: bytes) -> tuple[int | None, _Mapping | None]:
    """The data acknowledgement of a DSS option, and its mapping. Of numbers of 64 bits, the lower half."""
    flags, at = option[1] if len(option) > 1 else 0, 2
    ack = None
    if flags & 1:
        at += 8 if flags & 2 else 4
        ack = int.from_bytes(option[at - 4 : at], "big")
    if not flags & 4:
        return ack, None
    at += 8 if flags & 8 else 4
    data, start = option[at - 4 : at], option[at : at + 4]
    length = option[at + 4 : at + 6]
    if len(length) < 2:
        return ack, None
    number = int.from_bytes
    return ack, _Mapping(number(start, "big"), number(data, "big"), number(length, "big"))


def _reversed(key: bytes) -> bytes:
    size = (len(key) - 4) // 2
    return key[size : 2 * size] + key[:size] + key[-2:] + key[-4:-2]
