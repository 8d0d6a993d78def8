"""Finds the first record in a part of a capture that begins anywhere in the file.

The result is the first position from which a chain of plausible records is longer than any single record can
be. So the records of a capture inside a packet are not mistaken for those of the file. The result is still a
guess: `record_index` proves it, and a wrong guess only costs time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from ..capture import pcap, pcapng
from ..capture.pcapng.section import ORDERS

# Takes `data` and the position of a record; returns the position of the next record, perhaps after the end of
# `data`, or -1 if no record begins there.
NextRecord = Callable[[bytes, int], int]

# The earliest time of a plausible record, in seconds since 1970: the year 2001. No fraction of a second is
# this large, in microseconds or in nanoseconds. Without this test, a record would also be found four bytes
# after its start: there, its fraction looks like the seconds of a record that ends at the same position.
_CLOCKS = 10**9

_KINDS = {1, 2, 3, 4, 5, 6, 7, 9, 10, 0xBAD, 0x40000BAD, 0x0A0D0D0A}


def span(context: bytes) -> int:
    """The length in bytes that a chain must have. To find one, search twice as much, plus a record header."""
    if pcapng.is_section(context):
        return pcap.USUAL_SNAPLEN + 64
    order, _, header = pcap.MAGICS[context[:4]]
    (snaplen,) = struct.unpack_from(order + "I", context, 16)
    largest = snaplen if 0 < snaplen < pcap.USUAL_SNAPLEN else pcap.USUAL_SNAPLEN
    return int(largest) + header


def first_record(context: bytes, data: bytes, whole: bool) -> int | None:
    """The position in `data` where a record of the capture seems to begin; None if there is none. `whole`
    is true if the file ends with `data`."""
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


def _chain(
    data: bytes, need: int, step: NextRecord, looks: tuple[int, int], whole: bool
) -> int | None:
    """The first position from which steps lead at least `need` bytes further, or exactly to the end of the
    file; None if there is none within the length of one record."""
    size = len(data)
    # Positions from which steps lead nowhere. Without them, long runs of zeros would be walked many times.
    dead: set[int] = set()
    for start in _candidates(data, min(need, size), *looks):
        at = start
        tried: list[int] = []
        while at not in dead:
            if at - start > need or (whole and at == size and at > start):
                return start
            following = step(data, at) if at < size else -1
            if following > size and whole and tried:
                return start  # the file ends inside this record
            tried.append(at)
            if following < 0 or following > size + need:
                break
            at = following
        dead.update(tried)
    return None


def _candidates(data: bytes, end: int, highest_at: int, align: int) -> Iterator[int]:
    """Positions where a record may begin: the highest byte of its length is 0 (it is below 16 MiB)."""
    found = data.find(0, highest_at)
    while 0 <= found < end + highest_at:
        if (found - highest_at) % align == 0:
            yield found - highest_at
        found = data.find(0, found + 1)


def _record_step(context: bytes, sane: bool, since: int = 0) -> NextRecord:
    """The step over a pcap record. If `sane`, only records that a program would write are accepted, with
    times from `since` (seconds) on; otherwise all that readers accept."""
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


def _block_step(order: str) -> NextRecord:
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
