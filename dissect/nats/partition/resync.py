"""Where the first record of a part of a capture begins, if one is put down in the middle of the file.

The answer is the first place from which a chain of plausible records runs further than one record can be
long, so that no capture inside a packet is taken for the outer one. It is a guess all the same: walk.py
proves it, and a wrong one costs time only.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from ..capture import pcap, pcapng
from ..capture.pcapng_section import ORDERS

# A place in `data` -> the next record's, or -1 if none begins here. It may be behind the end of `data`.
Step = Callable[[bytes, int], int]

# Seconds that no fraction of a second is as large as: so that a record is not seen four bytes behind its
# start, where its own fields make another one that leads to the same place behind the next record.
_CLOCKS = 10**9

_KINDS = {1, 2, 3, 4, 5, 6, 7, 9, 10, 0xBAD, 0x40000BAD, 0x0A0D0D0A}


def span(context: bytes) -> int:
    """How far a chain must run. Twice as much must be looked at, with a record's header."""
    if pcapng.is_section(context):
        return pcap.USUAL_SNAPLEN + 64
    order, _, header = pcap.MAGICS[context[:4]]
    (snaplen,) = struct.unpack_from(order + "I", context, 16)
    largest = snaplen if 0 < snaplen < pcap.USUAL_SNAPLEN else pcap.USUAL_SNAPLEN
    return int(largest) + header


def first_record(context: bytes, data: bytes, whole: bool) -> int | None:
    """The place in `data` where a record of the capture seems to begin. `whole`: the file ends with it."""
    if pcapng.is_section(context):
        order = ORDERS[context[8:12]]
        size_at, align, steps = 4, 4, [_block_step(order)]
    else:
        order, size_at, align = pcap.MAGICS[context[:4]][0], 8, 1
        steps = [
            _record_step(context, True, _CLOCKS),
            _record_step(context, True),
            _record_step(context, False),
        ]
    highest_at = size_at + 3 if order == "<" else size_at
    for step in steps:
        found = _chain(data, span(context), step, (highest_at, align), whole)
        if found is not None:
            return found
    return None


def _chain(data: bytes, need: int, step: Step, looks: tuple[int, int], whole: bool) -> int | None:
    """The first place from which steps lead `need` bytes further, or exactly to the end of the file. It is
    not further away than one record is long."""
    size = len(data)
    dead: set[int] = set()  # from which they do not, so that zeros are not walked again and again
    for start in _candidates(data, min(need, size), *looks):
        at = start
        tried: list[int] = []
        while at not in dead:
            if at - start > need or (whole and at == size and at > start):
                return start
            following = step(data, at) if at < size else -1
            if following > size and whole and tried:
                return start  # a file cut short
            tried.append(at)
            if following < 0 or following > size + need:
                break
            at = following
        dead.update(tried)
    return None


def _candidates(data: bytes, end: int, highest_at: int, align: int) -> Iterator[int]:
    """Where a record of less than 16 MiB may begin: the highest byte of its length is 0."""
    found = data.find(0, highest_at)
    while 0 <= found < end + highest_at:
        if (found - highest_at) % align == 0:
            yield found - highest_at
        found = data.find(0, found + 1)


def _record_step(context: bytes, sane: bool, since: int = 0) -> Step:
    """For pcap. Sane: no time is before `since` (seconds) and lengths are what programs write; else they are
    what readers take."""
    order, unit_ns, header = pcap.MAGICS[context[:4]]
    (snaplen,) = struct.unpack_from(order + "I", context, 16)
    largest = pcap.largest_packet(snaplen)
    unpack = struct.Struct(order + "4I").unpack_from
    fractions = 10**9 // unit_ns

    def step(data: bytes, at: int) -> int:
        if at + header > len(data):
            return -1
        seconds, fraction, kept, length = unpack(data, at)
        if kept > largest:
            return -1
        if sane and not (
            fraction < fractions and kept <= length <= largest and length and seconds >= since
        ):
            return -1
        return int(at + header + kept)

    return step


def _block_step(order: str) -> Step:
    unpack = struct.Struct(order + "2I").unpack_from

    def step(data: bytes, at: int) -> int:
        if at + pcapng.HEADER > len(data):
            return -1
        kind, size = unpack(data, at)
        end = at + size
        if size % 4 or not pcapng.HEADER <= size <= pcapng.LARGEST_BLOCK:
            return -1
        if kind not in _KINDS and kind < 1 << 31:
            return -1
        if end <= len(data) and data[end - 4 : end] != data[at + 4 : at + 8]:
            return -1
        return int(end)

    return step
