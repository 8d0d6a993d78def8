"""IP fragments -> whole datagrams.

Reassembles as RFC 791 and RFC 8200 require of a receiver, with two exceptions: if bytes come twice, the first
copy counts; and a datagram whose fragments were cut by a snap length is complete when the fragments' lengths
on the wire add up to it. Waiting fragments are limited in number, in bytes, and to 30 s of capture time, as
in Linux.
"""

from __future__ import annotations

import pickle
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field

from .ip import Fragment

MOST_DATAGRAMS = 1024
MOST_BYTES = 16 << 20
MOST_PARTS = 256  # of one datagram; with an MTU of 576 bytes, the largest datagram has 119
LONGEST = 65535
PATIENCE_NS = 30 * 10**9


@dataclass(slots=True)
class _Incomplete:
    """A datagram that is not complete. `parts` are the offset, end on the wire and captured bytes of each
    part, in order and without overlaps."""

    first_ns: int
    proto: int | None = None
    size: int | None = None
    parts: list[tuple[int, int, bytes]] = field(default_factory=list)
    held: int = 0
    packets: int = 0


class Fragments:
    """The datagrams that are not complete yet. When one is given up, `lost` is called with its number of
    packets. `met` is whether there were any fragments."""

    def __init__(self, lost: Callable[[int], None]) -> None:
        self.met = False
        self._lost = lost
        self._waiting: dict[bytes, _Incomplete] = {}
        self._bytes = 0

    def put(
        self, ts_ns: int, fragment: Fragment, proto: int, data: bytes, size: int
    ) -> tuple[int, bytes, int, int] | None:
        """Adds a fragment of `size` bytes, of which `data` was captured. If it completes a datagram, returns
        the datagram's protocol, its contents up to the first byte that was not captured, its size, and its
        number of packets before this one; otherwise None."""
        self.met = True
        self._expire(ts_ns)
        offset, end = fragment.offset, fragment.offset + size
        datagram = self._waiting.get(fragment.datagram) or _Incomplete(ts_ns)
        last = None if fragment.more else end
        if not self._fits(datagram, offset, end, last):
            self._lost(1)
            return None
        self._waiting[fragment.datagram] = datagram
        datagram.packets += 1
        if offset == 0 and datagram.proto is None:
            datagram.proto = proto
        datagram.size = datagram.size if last is None else last
        self._bytes -= datagram.held
        datagram.held += _insert(datagram.parts, offset, end, data[:size])
        self._bytes += datagram.held
        if self._is_complete(datagram):
            self._forget(fragment.datagram)
            assert datagram.proto is not None and datagram.size is not None
            return datagram.proto, _joined(datagram.parts), datagram.size, datagram.packets - 1
        while len(self._waiting) > MOST_DATAGRAMS or self._bytes > MOST_BYTES:
            self._give_up(next(iter(self._waiting)))
        return None

    def finish(self) -> None:
        """Gives up all datagrams that are not complete."""
        while self._waiting:
            self._give_up(next(iter(self._waiting)))

    def save(self) -> bytes:
        """The waiting fragments, for `load`; empty if there are none."""
        return pickle.dumps(self._waiting) if self._waiting else b""

    def load(self, state: bytes) -> None:
        """Restores fragments that `save` returned."""
        if state:
            self._waiting = pickle.loads(state)
            self._bytes = sum(datagram.held for datagram in self._waiting.values())

    def _fits(self, datagram: _Incomplete, offset: int, end: int, last: int | None) -> bool:
        """Whether a fragment can be part of the datagram."""
        size = datagram.size
        reach = max(end, datagram.parts[-1][1] if datagram.parts else 0)
        return (
            offset < end <= LONGEST
            and (size is None or (end <= size and last in (None, size)))
            and (last is None or reach <= last)
            and len(datagram.parts) < MOST_PARTS
        )

    def _is_complete(self, datagram: _Incomplete) -> bool:
        reach = 0
        for offset, end, _ in datagram.parts:
            if offset != reach:
                return False
            reach = end
        return reach == datagram.size and datagram.proto is not None

    def _expire(self, ts_ns: int) -> None:
        while self._waiting:
            name = next(iter(self._waiting))
            if ts_ns - self._waiting[name].first_ns <= PATIENCE_NS:
                break
            self._give_up(name)

    def _give_up(self, name: bytes) -> None:
        self._lost(self._forget(name).packets)

    def _forget(self, name: bytes) -> _Incomplete:
        datagram = self._waiting.pop(name)
        self._bytes -= datagram.held
        return datagram


def _insert(parts: list[tuple[int, int, bytes]], offset: int, end: int, data: bytes) -> int:
    """Inserts the bytes from `offset` to `end` that no part covers; returns how many of them were
    captured."""
    held = 0
    at = bisect_left(parts, (offset, 0, b""))
    if at and parts[at - 1][1] > offset:
        at -= 1
    here = offset
    while here < end:
        start, stop = parts[at][:2] if at < len(parts) else (end, end)
        if here < start:
            upto = min(start, end)
            piece = data[here - offset : upto - offset]
            parts.insert(at, (here, upto, piece))
            held += len(piece)
            at += 1
            here = upto
        else:
            here = max(here, stop)
            at += 1
    return held


def _joined(parts: list[tuple[int, int, bytes]]) -> bytes:
    """The bytes up to the first one that was not captured."""
    found = []
    for offset, end, data in parts:
        found.append(data)
        if len(data) < end - offset:
            break
    return b"".join(found)
