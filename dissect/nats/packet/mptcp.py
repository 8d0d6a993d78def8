"""Multipath TCP (RFC 8684): segments of all subflows -> segments of the first one, in order of the data.

A connection has several subflows, which are TCP connections of their own. Options say where their bytes
belong in the data of the connection (DSS). Here, segments of later subflows become segments of the first one:
the data sequence numbers are counted on from its sequence numbers, so reassembly needs to know nothing of
this. Only the SYNs of later subflows stay what they are.

Where the place of bytes is unknown, because the beginning of the connection or of a subflow was not captured,
segments stay as they are, and have the flag ELSEWHERE once the data shows that other bytes travel elsewhere.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..types import ELSEWHERE, Segment

_FIN, _SYN, _RST, _ACK = 1, 2, 4, 16
_MASK = 0xFFFFFFFF
_END, _PADDING, _KIND = 0, 1, 30
_CAPABLE, _JOIN, _DSS = 0, 1, 2
_NEAR = 64 << 20
_MOST = 1 << 14  # subflows whose directions are known; of more, the oldest are forgotten
_FEW = 1 << 10


@dataclass(slots=True)
class _SubflowWay:
    """One direction of a connection: the key of its first subflow; the data sequence number of byte 0 of that
    subflow's numbers, once known; and the end of its data, in that subflow's numbers."""

    key: bytes
    offset: int | None = None
    end: int = 0


@dataclass(slots=True)
class _SubflowSide:
    """One direction of a subflow: of which connection, its first number, and its latest mapping: the sequence
    number, the data sequence number and the length."""

    way: _SubflowWay
    back: _SubflowWay
    isn: int
    is_first: bool
    mapping: tuple[int, int, int] | None = None


@dataclass(slots=True)
class Subflows:
    """The subflows whose beginning was seen, by the keys of their segments. `met` is whether there was any
    option of Multipath TCP."""

    met: bool = False
    sides: dict[bytes, _SubflowSide] = field(default_factory=dict)
    _tokens: dict[bytes, tuple[_SubflowWay, _SubflowWay]] = field(default_factory=dict)
    # Of subflows of unknown connections: data minus sequence.
    _loose: dict[bytes, int] = field(default_factory=dict)

    def save(self) -> bytes:
        """The state, for `load`; empty if there is none."""
        state = self.sides, self._tokens, self._loose
        return pickle.dumps(state) if self.met else b""

    def load(self, state: bytes) -> None:
        """Restores what `save` returned."""
        if state:
            self.met = True
            self.sides, self._tokens, self._loose = pickle.loads(state)

    def translate(self, segment: Segment, options: bytes) -> None:
        """Changes a segment of a later subflow into one of the first subflow. `options` are those of TCP."""
        found = dict(_options(options))
        self.met = self.met or bool(found)
        if segment.flags & _SYN:
            self._open(segment, found)
            return
        side = self.sides.get(segment.key)
        if side is not None and len(found.get(_CAPABLE, b"")) >= 18:
            self._name(found[_CAPABLE][2:10], (side.back, side.way))
        ack, mapping = _dss(found[_DSS]) if _DSS in found else (None, None)
        if side is None:
            self._observe(segment, mapping)
        elif not self._place(segment, side, ack, mapping):
            segment.flags |= ELSEWHERE

    def _open(self, segment: Segment, found: dict[int, bytes]) -> None:
        key, back = segment.key, _reversed(segment.key)
        while (
            len(self.sides) >= 2 * _MOST
        ):  # the oldest: `_observe` sees that its bytes are not mapped
            del self.sides[next(iter(self.sides))]
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
            side.isn = segment.seq
            if _CAPABLE in found:
                self._name(found[_CAPABLE][2:10], (side.back, side.way))
        else:
            self.sides.pop(key, None)  # the ports are used again
            self.sides.pop(back, None)

    def _name(self, secret: bytes, ways: tuple[_SubflowWay, _SubflowWay]) -> None:
        """Notes the token of a peer (version 1, and version 0), with the ways to and from this peer."""
        if len(secret) == 8 and len(self._tokens) < 2 * _MOST:
            self._tokens[hashlib.sha256(secret).digest()[:4]] = ways
            self._tokens[hashlib.sha1(secret).digest()[:4]] = ways

    def _between(self, key: bytes) -> tuple[_SubflowWay, _SubflowWay] | None:
        """The only connection between the same addresses, towards the same port; None among many others."""
        if len(self.sides) > _FEW:  # the search takes 0.1 us for each
            return None
        ways = [
            (side.way, side.back)
            for other, side in self.sides.items()
            if side.is_first and other[:-4] == key[:-4] and other[-2:] == key[-2:]
        ]
        return ways[0] if len(ways) == 1 else None

    def _observe(self, segment: Segment, mapping: tuple[int, int, int] | None) -> None:
        """Looks whether the bytes of a subflow whose beginning is unknown are all of the data."""
        if mapping and segment.length and len(self._loose) < 2 * _MOST:
            offset = mapping[1] - segment.seq & _MASK
            if self._loose.setdefault(segment.key, offset) != offset:
                segment.flags |= ELSEWHERE

    def _place(
        self,
        segment: Segment,
        side: _SubflowSide,
        ack: int | None,
        mapping: tuple[int, int, int] | None,
    ) -> bool:
        """Gives a segment its place in the first subflow; returns whether that is known."""
        way, back = side.way, side.back
        if mapping:
            start, data, length = side.isn + mapping[0] & _MASK, *mapping[1:]
            if (segment.seq - start & _MASK) >= max(length, 1):
                start = segment.seq
            side.mapping = start, data, length
        seq = way.end
        if segment.length:
            if side.mapping is None:
                return way.offset is None and side.is_first
            data = side.mapping[1] + (segment.seq - side.mapping[0])
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


def _dss(option: bytes) -> tuple[int | None, tuple[int, int, int] | None]:
    """The data acknowledgement of a DSS option, and its mapping: relative sequence number, data sequence
    number, length. Of numbers of 64 bits, the lower half."""
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
    return ack, (number(start, "big"), number(data, "big"), number(length, "big"))


def _reversed(key: bytes) -> bytes:
    size = (len(key) - 4) // 2
    return key[size : 2 * size] + key[:size] + key[-2:] + key[-4:-2]
