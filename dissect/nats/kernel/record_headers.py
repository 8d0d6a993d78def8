"""The headers of records in pcap and pcapng files, as compiled functions: where packets are, and when they
were captured.

They read what follows each other without a fault, as `capture.pcap` and `capture.pcapng` do, and stop at
anything else: a record that is not whole, another kind of block, a comment.
"""

from __future__ import annotations

from .jit import Array, compiled

# What is known about the records that were read.
R_AT, R_CLAIMED, R_LATEST, R_LEAST, R_BACK, R_CAPTURED, R_MISSING, R_CUT, R_WIDTH = range(9)

_SECOND_NS = 10**9
_ENHANCED = 6
_FIXED = 28  # bytes of an enhanced packet block before the packet
_COMMENT, _PACKET_DROPS = 1, 4
_LARGEST_BLOCK = 128 << 20
_MOST_NS = (1 << 63) - 1


@compiled
def _four(text: Array, at: int, is_big: bool) -> int:
    one, two, three, four = int(text[at]), int(text[at + 1]), int(text[at + 2]), int(text[at + 3])
    if is_big:
        return one << 24 | two << 16 | three << 8 | four
    return four << 24 | three << 16 | two << 8 | one


@compiled
def _two(text: Array, at: int, is_big: bool) -> int:
    one, two = int(text[at]), int(text[at + 1])
    return one << 8 | two if is_big else two << 8 | one


@compiled
def _add(place: Array, ts_ns: int, start: int, kept: int, length: int, sums: Array) -> None:
    """Adds a packet."""
    if length > kept:
        sums[R_CUT] += 1
        sums[R_MISSING] += length - kept
    sums[R_CAPTURED] += kept
    place[0], place[1], place[2], place[3] = ts_ns, start, start + kept, max(kept, length)


@compiled
def read_pcap(
    text: Array, at: int, last: int, is_big: bool, unit_ns: int, header: int, largest: int,
    step_ns: int, places: Array, sums: Array,
) -> int:  # fmt: skip
    """Reads records of a pcap file, as `capture.pcap.read_records`, until `places` is full. Returns their
    number."""
    sums[:] = 0
    latest_ns = sums[R_LEAST] = -1
    count, size = 0, len(text)
    last = min(last, size - header)
    while at <= last and count < len(places):
        start, kept = at + header, _four(text, at + 8, is_big)
        if start + kept > size or kept > largest:
            sums[R_CLAIMED] = kept
            break
        fraction_ns = _four(text, at + 4, is_big) * unit_ns
        ts_ns = _four(text, at, is_big) * _SECOND_NS + fraction_ns
        if ts_ns > latest_ns:
            latest_ns = ts_ns
        elif ts_ns < latest_ns - step_ns:
            if not sums[R_BACK] or ts_ns < sums[R_LEAST]:
                sums[R_LEAST] = ts_ns
            sums[R_BACK] = max(sums[R_BACK], latest_ns - ts_ns)
        _add(places[count], ts_ns, start, kept, _four(text, at + 12, is_big), sums)
        count += 1
        at = start + kept
    sums[R_AT], sums[R_LATEST] = at, latest_ns
    return count


@compiled
def _is_quiet(text: Array, at: int, end: int, is_big: bool) -> bool:
    """Whether no option between two positions of a block matters."""
    while at + 4 <= end:
        code, size = _two(text, at, is_big), _two(text, at + 2, is_big)
        at += 4
        if not code or at + size > end:
            return True
        if code == _COMMENT or code == _PACKET_DROPS:
            return False
        at += size + -size % 4
    return True


@compiled
def read_enhanced(
    text: Array, at: int, last: int, is_big: bool, interface: int, times: int, offset_ns: int,
    step_ns: int, places: Array, sums: Array,
) -> int:  # fmt: skip
    """Reads enhanced packet blocks of one interface until `places` is full. Returns their number."""
    sums[:] = 0
    count, size, latest_ns, least_ns = 0, len(text), 0, 0
    most = (_MOST_NS - abs(offset_ns)) // times >> 32  # the largest upper half of a time
    last = min(last, size - _FIXED - 4)
    while at <= last and count < len(places):
        length, kept = _four(text, at + 4, is_big), _four(text, at + 20, is_big)
        start, end = at + _FIXED, at + length - 4
        high = _four(text, at + 12, is_big)
        if (
            _four(text, at, is_big) != _ENHANCED
            or _four(text, at + 8, is_big) != interface
            or length % 4
            or length > _LARGEST_BLOCK
            or start + kept > end
            or end + 4 > size
            or _four(text, end, is_big) != length
            or high >= most
            or not _is_quiet(text, start + kept + -kept % 4, end, is_big)
        ):
            break
        ts_ns = (high << 32 | _four(text, at + 16, is_big)) * times + offset_ns
        if not count:
            latest_ns = least_ns = ts_ns
        latest_ns, least_ns = max(latest_ns, ts_ns), min(least_ns, ts_ns)
        if latest_ns - ts_ns > step_ns:
            sums[R_BACK] = max(sums[R_BACK], latest_ns - ts_ns)
        _add(places[count], ts_ns, start, kept, _four(text, at + 24, is_big), sums)
        count += 1
        at = end + 4
    sums[R_AT], sums[R_LATEST], sums[R_LEAST] = at, latest_ns, least_ns
    return count
