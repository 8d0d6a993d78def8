"""The kernel itself: follows connections through the packets of a run, as compiled functions.

Each packet is kept as a whole or not at all: what it changes is staged, and committed once all of it has
proved plain. So the kernel can stop at any packet with the state that Python would have before it.
"""

from __future__ import annotations

from .columns import lacks_room
from .frames import (
    begin,
    commit_events,
    commit_frames,
    read_frames,
    undo,
)
from .hashes import (
    find_way,
)
from .jit import (
    Array,
    Number,
    compiled,
)
from .packets import (
    ELSEWHERE,
    P_BODY,
    P_CLEAN,
    P_LENGTH,
    P_TCP,
    TCP,
    four,
    in_share,
    is_right,
    place,
)
from .state import (
    C_ARG,
    C_CHANGED,
    C_CLOCK,
    C_CLOCK_AT,
    C_EVENTS,
    C_EXPIRY,
    C_FIRST_NS,
    C_IP_AT,
    C_KEPT,
    C_LEAST,
    C_LISTED,
    C_MOST,
    C_NEXT,
    C_OWNED,
    C_RUN,
    C_SEED,
    C_STEP,
    C_TEXT,
    C_TYPE_AT,
    K_AGAIN,
    PACKET_FRAMES,
    PACKET_TEXT,
    S_KEPT,
    S_LAST_NS,
    W_ACK,
    W_BYTES,
    W_CHECKS,
    W_DATA,
    W_FULL,
    W_HAS_ACK,
    W_LAST,
    W_OFFSET,
    W_PACKETS,
    W_SEQ,
    W_UNIT,
    W_WINDOW,
    Stop,
)

_DONE, _BREAK, _ALONE, _FULL = int(Stop.DONE), int(Stop.BREAK), int(Stop.ALONE), int(Stop.FULL)
_PLAIN_FLAGS, _ACK_ONLY = 0x17, 0x10
_UNKNOWN_UNIT = 1 << 32
_MASK = 0xFFFFFFFF


@compiled
def _is_plain(
    text: Array, found: Array, ts_ns: int, way: Array, slot: Array, control: Array
) -> Number:
    """Whether a packet is the next one of its way, as the flow table keeps it."""
    tcp = found[P_TCP]
    return (
        found[P_CLEAN]
        and text[tcp + 13] & _PLAIN_FLAGS == _ACK_ONLY
        and four(text, tcp + 4) == way[W_SEQ]
        and (text[tcp + 14] or text[tcp + 15])
        and (not way[W_CHECKS] or not found[P_LENGTH] or is_right(text, found))
        and ts_ns <= control[C_EXPIRY]
        and ts_ns >= slot[S_LAST_NS] - control[C_STEP]
    )


@compiled
def _commit_packet(
    text: Array, found: Array, here: int, ts_ns: int, way: Array, peer: Array, slot: Array
) -> None:
    """Commits what the flow table counts."""
    tcp, length = found[P_TCP], found[P_LENGTH]
    way[W_PACKETS] += 1
    way[W_HAS_ACK], way[W_ACK] = 1, four(text, tcp + 8)
    way[W_WINDOW] = four(text, tcp + 12) & 0xFFFF
    way[W_LAST] = here
    if ts_ns > slot[S_LAST_NS]:
        slot[S_LAST_NS] = ts_ns
    slot[S_KEPT] += 1
    if length:
        way[W_BYTES] += length
        way[W_OFFSET] += length
        way[W_SEQ] = (way[W_SEQ] + length) & _MASK
        way[W_DATA] = here
        if peer[W_HAS_ACK] and way[W_UNIT] != _UNKNOWN_UNIT:
            ahead = (way[W_SEQ] - peer[W_ACK]) & _MASK
            way[W_FULL] += ahead == peer[W_WINDOW] * way[W_UNIT]


@compiled
def _keep(
    text: Array,
    ts_ns: int,
    number: int,
    found: Array,
    control: Array,
    ways: Array,
    slots: Array,
    carry: Array,
    lines: Array,
    line: Array,
    work: Array,
    subs: Array,
    bits: Array,
    staged: Array,
    events: Array,
    arena: Array,
    out: Array,
) -> bool:
    """Keeps a packet of a way, if it is plain; otherwise returns False, and changes nothing."""
    way, peer, slot = ways[number], ways[number ^ 1], slots[number >> 1]
    if not _is_plain(text, found, ts_ns, way, slot, control):
        return False
    here = control[C_RUN] + control[C_NEXT]
    length = found[P_LENGTH]
    if length:
        start = found[P_BODY]
        for together in (0, 1):
            begin(ts_ns, way, slot, work, control, together)
            if read_frames(
                text, start, start + length, here, number, way, work, control, carry, lines, line,
                subs, bits, staged, events, arena, out,
            ):  # fmt: skip
                break
            undo(work, staged, subs)
            if not work[K_AGAIN]:
                return False
        commit_events(number, way, peer, work, control, bits, staged, events, arena)
        commit_frames(way, peer, slot, work, control, subs, staged)
    _commit_packet(text, found, here, ts_ns, way, peer, slot)
    control[C_CLOCK], control[C_CLOCK_AT] = ts_ns, control[C_NEXT]
    control[C_KEPT] += 1
    return True


@compiled
def _list(ts_ns: int, control: Array, listed: Array) -> None:
    """Lists the next packet for Python."""
    count = control[C_LISTED]
    listed[count] = control[C_NEXT]
    if count == 0 or ts_ns < control[C_FIRST_NS]:
        control[C_FIRST_NS] = ts_ns
    control[C_LISTED] = count + 1
    control[C_NEXT] += 1


@compiled
def _is_full(ts_ns: int, control: Array, events: Array, arena: Array, out: Array) -> bool:
    """Whether there may be too little room for another packet, or whether what was listed may have to be read
    by Python before it."""
    if control[C_LISTED] and (
        control[C_LISTED] >= control[C_MOST] or ts_ns > control[C_FIRST_NS] + control[C_LEAST]
    ):
        return True
    if control[C_CHANGED] or control[C_EVENTS] + PACKET_FRAMES > len(events):
        return True
    return lacks_room(control, out) or bool(control[C_TEXT] + PACKET_TEXT > len(arena))


@compiled
def walk(
    text: Array,
    places: Array,
    control: Array,
    keys: Array,
    table: Array,
    ways: Array,
    slots: Array,
    carry: Array,
    lines: Array,
    line: Array,
    work: Array,
    key: Array,
    found: Array,
    subs: Array,
    bits: Array,
    staged: Array,
    events: Array,
    arena: Array,
    listed: Array,
    out: Array,
    share: Array,
) -> int:
    """Walks on through the packets of a run, whose bytes are `text`, and returns a `Stop`. Packets of flows
    in other shares are passed over, if their times end no flow."""
    while control[C_NEXT] < len(places):
        packet = places[control[C_NEXT]]
        ts_ns = packet[0]
        if _is_full(ts_ns, control, events, arena, out):
            return _FULL
        control[C_ARG] = -1
        what = place(text, packet[1], packet[2], control[C_TYPE_AT], control[C_IP_AT], key, found)
        number = find_way(keys, table, key, control[C_SEED]) if what == TCP else -1
        if number < 0:
            if (
                len(share) > 1
                and what == TCP
                and ts_ns <= control[C_EXPIRY]
                and not in_share(text, found, share)
            ):
                control[C_CLOCK], control[C_CLOCK_AT] = ts_ns, control[C_NEXT]
                control[C_NEXT] += 1
                continue
            _list(ts_ns, control, listed)
            if ts_ns > control[C_EXPIRY] or (what < ELSEWHERE and control[C_OWNED]):
                return _ALONE
            continue
        control[C_ARG] = number
        if not _keep(
            text, ts_ns, number, found, control, ways, slots, carry, lines, line, work, subs,
            bits, staged, events, arena, out,
        ):  # fmt: skip
            return _BREAK
        control[C_NEXT] += 1
    return _DONE
