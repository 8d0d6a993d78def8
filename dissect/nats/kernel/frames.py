"""The frames of a packet, as compiled functions: read, staged, and committed once the packet proved
plain.

A frame is counted here if nothing but sums depends on it. Other frames are passed on to Python, which does
with them what it does with any frame; a line that the kernel does not read is a reason to stop.
"""

from __future__ import annotations

from .columns import stage_row
from .hashes import (
    filter_bit,
    find_sub,
)
from .jit import (
    Array,
    compiled,
)
from .lines import (
    ACK,
    ADVISORY,
    are_good_headers,
    begins_streaming,
    is_publishable,
    is_special,
    parse,
    starts,
)
from .pieces import head_of, may_be_error, read_body, read_line, whole_frame
from .state import (
    C_ASKED,
    C_CAPTURE,
    C_CARRIED,
    C_CHANGED,
    C_EPOCH,
    C_EVENTS,
    C_FIELDS,
    C_FIRST,
    C_LAYERS,
    C_NEXT,
    C_PAIRS,
    C_REPLIES,
    C_ROWS,
    C_SEED,
    C_SESSIONS,
    C_TEXT,
    E_BASE,
    E_CHUNK,
    E_FIRST,
    E_HEADERS,
    E_INDEX,
    E_LINE,
    E_NUMBER,
    E_OP,
    E_REPLY,
    E_REPLY_END,
    E_SIZE,
    E_TEXT,
    E_TIME,
    E_WAY,
    E_WORTH,
    F_OP,
    F_SIZE,
    F_SUB,
    F_WORTH,
    K_AGAIN,
    K_ASKER,
    K_BASE,
    K_CAPTURE,
    K_CHANGED,
    K_COUNTS,
    K_EVENTS,
    K_FIELDS,
    K_FIRST,
    K_LABEL,
    K_LEFT,
    K_LINE,
    K_NOTED,
    K_NUMBER,
    K_PACKET,
    K_PASSES,
    K_ROW,
    K_ROWS,
    K_SIZE,
    K_STAGED,
    K_SUBS,
    K_TEXT,
    K_TIME,
    K_TOGETHER,
    L_HEADERS,
    L_OP,
    L_REPLY,
    L_REPLY_END,
    L_SID,
    L_SID_END,
    L_SIZE,
    L_SUBJECT,
    L_SUBJECT_END,
    LAST_MESSAGE,
    S_NUMBER,
    U_BYTES,
    U_COUNT,
    U_LEFT,
    W_ASKER,
    W_BASE,
    W_CAPTURE,
    W_COUNTS,
    W_FIRST,
    W_FRAMES,
    W_GRAMMAR,
    W_LABEL,
    W_LARGEST,
    W_LEFT,
    W_LINE,
    W_OFFSET,
    W_OPS,
    W_PACKET,
    W_READS,
    W_SIZE,
    W_SUBS,
    W_SUM,
    W_TIME,
    Op,
    Reads,
    Worth,
)

_PUB, _HPUB, _MSG, _HMSG = int(Op.PUB), int(Op.HPUB), int(Op.MSG), int(Op.HMSG)
_RMSG, _LMSG, _SUB, _UNSUB = int(Op.RMSG), int(Op.LMSG), int(Op.SUB), int(Op.UNSUB)

_SID_DIGITS = 15

_COUNTED, _PAIRED, _PASSED = int(Worth.COUNTED), int(Worth.PAIRED), int(Worth.PASSED)
_SETTLES, _IGNORED = int(Worth.SETTLES), int(Worth.IGNORED)
_ALL = int(Reads.ALL)


@compiled
def _sid_of(text: Array, start: int, end: int) -> int:
    """The number that a sid spells; -1 if it is none, or not in its shortest form."""
    if end - start > _SID_DIGITS or end == start or (text[start] == 48 and end - start > 1):
        return -1
    value = 0
    for at in range(start, end):
        digit = int(text[at])
        if digit < 48 or digit > 57:
            return -1
        value = value * 10 + digit - 48
    return value


@compiled
def _worth_of_delivery(
    text: Array, line: Array, way: Array, work: Array, control: Array, tables: Array, bits: Array
) -> int:
    """What a message to a subscriber is worth. Notes the row of its subscription."""
    sid = _sid_of(text, line[L_SID], line[L_SID_END])
    if sid < 0 or starts(text, line[L_SUBJECT], line[L_SUBJECT_END], ADVISORY):
        return _PASSED
    row = find_sub(tables, work[K_SUBS], sid, control[C_SEED])
    if row < 0:
        return _PASSED
    work[K_ROW] = row
    if tables[row, U_LEFT] <= 1:
        return _SETTLES
    if work[K_ASKER] > 0:
        if starts(text, line[L_REPLY], line[L_REPLY_END], ACK):
            return _PAIRED
        start, end = line[L_SUBJECT], line[L_SUBJECT_END]
        if bits[filter_bit(text, start, end, work[K_ASKER], control[C_SEED], len(bits))]:
            return _PAIRED
    return _COUNTED


@compiled
def _worth_of(
    text: Array, line: Array, way: Array, work: Array, control: Array, tables: Array, bits: Array
) -> int:
    """What a frame is worth."""
    op, worth = line[L_OP], _COUNTED
    work[K_ROW] = -1
    if op == _SUB or op == _UNSUB:
        return _SETTLES
    if op > LAST_MESSAGE:
        return _PASSED
    if op == _PUB or op == _HPUB:
        if line[L_SIZE] > way[W_LARGEST]:
            return _PASSED
        if not is_publishable(text, line[L_SUBJECT], line[L_SUBJECT_END]):
            return _PASSED
        if line[L_REPLY_END] > line[L_REPLY] and control[C_PAIRS]:
            worth = _PAIRED
    elif op == _MSG or op == _HMSG:
        worth = _worth_of_delivery(text, line, way, work, control, tables, bits)
    elif control[C_CARRIED]:
        return _PASSED
    elif starts(text, line[L_SUBJECT], line[L_SUBJECT_END], ADVISORY):
        return _PASSED
    if worth <= _PAIRED and not work[K_COUNTS] >> op & 1:
        return _PASSED
    # In order of frames, after one that is passed on.
    return _PASSED if worth == _PAIRED and work[K_PASSES] else worth


@compiled
def _note_text(source: Array, start: int, end: int, work: Array, arena: Array) -> None:
    """Copies text that Python needs."""
    used = work[K_TEXT]
    for index in range(end - start):
        arena[used + index] = source[start + index]
    work[K_TEXT] = used + end - start


@compiled
def _note_event(
    body: Array,
    headers: int,
    text: Array,
    start: int,
    end: int,
    line: Array,
    work: Array,
    control: Array,
    events: Array,
    arena: Array,
) -> None:
    """Notes a frame that is passed on: its line is `text[start:end]`, its headers are in `body`, and so is
    its payload, which is copied if there are layers."""
    event = events[work[K_EVENTS]]
    event[E_OP] = line[L_OP]
    event[E_BASE], event[E_FIRST] = work[K_BASE], work[K_FIRST]
    event[E_TEXT], event[E_LINE] = work[K_TEXT], end - start
    event[E_HEADERS], event[E_SIZE] = line[L_HEADERS], line[L_SIZE]
    event[E_REPLY], event[E_REPLY_END] = line[L_REPLY] - start, line[L_REPLY_END] - start
    event[E_NUMBER] = work[K_NUMBER]
    _note_text(text, start, end, work, arena)
    size = max(0, line[L_SIZE]) if control[C_LAYERS] else line[L_HEADERS]
    _note_text(body, headers, headers + size, work, arena)
    work[K_EVENTS] += 1


@compiled
def _is_read(
    body: Array, headers: int, text: Array, line: Array, work: Array, control: Array, worth: int
) -> bool:
    """Whether layers may read a message, by `schema.declaration.ApplicationLayer`."""
    op, payload, end = line[L_OP], headers + line[L_HEADERS], headers + line[L_SIZE]
    subject, subject_end = line[L_SUBJECT], line[L_SUBJECT_END]
    reply, reply_end = line[L_REPLY], line[L_REPLY_END]
    if control[C_LAYERS] == _ALL:
        return True
    if begins_streaming(body, payload, end, text, subject, subject_end):
        work[K_CHANGED] = 1
    if work[K_CHANGED] or worth == _PAIRED or (op != _PUB and op != _MSG):
        return True
    if op == _PUB and reply_end > reply:
        return True
    return bool(is_special(text, subject, subject_end) or is_special(text, reply, reply_end))


@compiled
def _stage(
    text: Array,
    body: Array,
    headers: int,
    start: int,
    end: int,
    line: Array,
    way: Array,
    work: Array,
    control: Array,
    subs: Array,
    bits: Array,
    staged: Array,
    events: Array,
    arena: Array,
    out: Array,
) -> bool:
    """Stages a whole frame. Returns False if Python needs its payload."""
    worth, op = _IGNORED, line[L_OP]
    work[K_NUMBER] += 1
    if control[C_SESSIONS]:
        worth = _worth_of(text, line, way, work, control, subs, bits)
        if worth <= _PAIRED and line[L_HEADERS] and op != _RMSG:
            if not are_good_headers(body, headers, headers + line[L_HEADERS]):
                worth = _PASSED
        noted = worth != _COUNTED
        if control[C_LAYERS] and op <= LAST_MESSAGE:
            noted = _is_read(body, headers, text, line, work, control, worth) or noted
        if noted:
            if worth <= _PAIRED and work[K_TOGETHER]:
                worth = _PASSED
            payload = headers + line[L_HEADERS]
            if may_be_error(body, payload, payload + head_of(line, control), control):
                return False
            _note_event(body, headers, text, start, end, line, work, control, events, arena)
            events[work[K_EVENTS] - 1, E_WORTH] = worth
            work[K_PASSES] |= worth > _PAIRED
            work[K_NOTED] |= worth <= _PAIRED
        if worth <= _PAIRED and work[K_LABEL] >= 0:
            stage_row(body, headers, text, start, end, line, work, control, out)
    entry = staged[work[K_STAGED]]
    entry[F_OP], entry[F_SIZE], entry[F_WORTH] = op, line[L_SIZE], worth
    entry[F_SUB] = work[K_ROW] if op == _MSG or op == _HMSG else -1
    work[K_STAGED] += 1
    work[K_COUNTS] |= 1 << op
    if worth != _IGNORED and entry[F_SUB] >= 0:
        # Staged at once, because the next frame of the packet may be for the same subscription.
        subs[entry[F_SUB], U_LEFT] -= 1
    if worth == _SETTLES and op != _SUB and op != _UNSUB:
        work[K_SUBS] = -1  # unknown until Python has ended the subscription
    return True


@compiled
def undo(work: Array, staged: Array, subs: Array) -> None:
    """Takes back what was staged in the table of subscriptions."""
    for index in range(work[K_STAGED]):
        entry = staged[index]
        if entry[F_WORTH] != _IGNORED and entry[F_SUB] >= 0:
            subs[entry[F_SUB], U_LEFT] += 1


@compiled
def read_frames(
    text: Array,
    start: int,
    end: int,
    here: int,
    number: int,
    way: Array,
    work: Array,
    control: Array,
    carry: Array,
    lines: Array,
    line: Array,
    subs: Array,
    bits: Array,
    staged: Array,
    events: Array,
    arena: Array,
    out: Array,
) -> bool:
    """Reads the payload `text[start:end]` of the packet at the place `here`. Returns False if it is not
    plain. `carry` has the frames in progress by way, and a new one in its last row; `lines` is the same,
    read-only, as packets are. The rows of a packet are released together: if Python has to add one of the
    frames that are noted, it adds all of them, and the packet is read again."""
    at, scratch = start, len(carry) - 1
    kept = number if work[K_SIZE] else scratch
    grammar, reads = way[W_GRAMMAR], way[W_READS]
    while at < end:
        if not work[K_SIZE]:
            work[K_FIRST], work[K_BASE] = here, way[W_OFFSET] + at - start
            work[K_PACKET] = control[C_FIRST] + control[C_NEXT]
            work[K_CAPTURE] = control[C_CAPTURE]
            stop = whole_frame(text, at, end, grammar, reads, line)
            if stop < 0:
                return False
            if stop:
                if not _stage(
                    text, text, stop, at, stop, line, way, work, control, subs, bits, staged,
                    events, arena, out,
                ):  # fmt: skip
                    return False
                at = stop + line[L_SIZE] + 2 if line[L_SIZE] >= 0 else stop
                continue
        if not work[K_LINE]:
            at = read_line(text, at, end, way, work, control, carry[kept], line)
            if at < 0:
                return False
            if not work[K_LINE]:
                break
        if not parse(lines[kept], 0, work[K_LINE], grammar, line):
            return False
        at = read_body(text, at, end, work, control, carry[kept], line)
        if at < 0:
            return False
        if work[K_LEFT]:
            break
        size, read = work[K_LINE], lines[kept]
        if not _stage(
            read, read, size, 0, size, line, way, work, control, subs, bits, staged, events, arena,
            out,
        ):  # fmt: skip
            return False
        work[K_SIZE] = work[K_LINE] = 0
        kept = scratch
    if work[K_NOTED] and work[K_PASSES] and (control[C_REPLIES] or control[C_LAYERS]):
        work[K_AGAIN] = 1
        return False
    if kept == scratch:
        for index in range(work[K_SIZE]):
            carry[number, index] = carry[scratch, index]
    return True


@compiled
def begin(ts_ns: int, way: Array, slot: Array, work: Array, control: Array, together: int) -> None:
    """Begins the work of a packet. If `together`, Python adds all frames that are noted."""
    work[K_TIME], work[K_NUMBER] = max(way[W_TIME], ts_ns), slot[S_NUMBER]
    work[K_LABEL], work[K_PACKET] = way[W_LABEL], way[W_PACKET]
    work[K_CAPTURE] = way[W_CAPTURE]
    work[K_ROWS], work[K_FIELDS] = control[C_ROWS], control[C_FIELDS]
    work[K_SIZE], work[K_LINE], work[K_LEFT] = way[W_SIZE], way[W_LINE], way[W_LEFT]
    work[K_FIRST], work[K_BASE] = way[W_FIRST], way[W_BASE]
    work[K_STAGED] = work[K_PASSES] = work[K_CHANGED] = work[K_NOTED] = work[K_AGAIN] = 0
    work[K_TOGETHER] = together
    work[K_EVENTS], work[K_TEXT] = control[C_EVENTS], control[C_TEXT]
    work[K_COUNTS], work[K_SUBS], work[K_ASKER] = way[W_COUNTS], way[W_SUBS], way[W_ASKER]


@compiled
def commit_frames(
    way: Array, peer: Array, slot: Array, work: Array, control: Array, subs: Array, staged: Array
) -> None:
    """Commits the frames of a packet."""
    way[W_TIME], slot[S_NUMBER] = work[K_TIME], work[K_NUMBER]
    control[C_ROWS], control[C_FIELDS] = work[K_ROWS], work[K_FIELDS]
    for index in range(work[K_STAGED]):
        entry = staged[index]
        worth, op = entry[F_WORTH], entry[F_OP]
        if worth <= _PAIRED:
            way[W_OPS + op] += 1
            if entry[F_SIZE] > 0:
                way[W_SUM] += entry[F_SIZE]
            if entry[F_SUB] >= 0:
                subs[entry[F_SUB], U_COUNT] += 1
                subs[entry[F_SUB], U_BYTES] += entry[F_SIZE]
        elif worth == _SETTLES:
            control[C_EPOCH] += 1
            if op == _SUB or op == _UNSUB:
                peer[W_SUBS] = control[C_EPOCH]
            else:
                way[W_SUBS] = control[C_EPOCH]
    way[W_COUNTS] = work[K_COUNTS]
    way[W_FRAMES] += work[K_STAGED]
    way[W_SIZE], way[W_LINE], way[W_LEFT] = work[K_SIZE], work[K_LINE], work[K_LEFT]
    if work[K_SIZE]:
        way[W_FIRST], way[W_BASE] = work[K_FIRST], work[K_BASE]
        way[W_PACKET], way[W_CAPTURE] = work[K_PACKET], work[K_CAPTURE]


@compiled
def commit_events(
    number: int,
    way: Array,
    peer: Array,
    work: Array,
    control: Array,
    bits: Array,
    staged: Array,
    events: Array,
    arena: Array,
) -> None:
    """Commits the frames that a packet passes on, and notes which replies are asked for."""
    for index in range(control[C_EVENTS], work[K_EVENTS]):
        event = events[index]
        event[E_INDEX], event[E_WAY] = control[C_NEXT], number
        event[E_TIME], event[E_CHUNK] = work[K_TIME], way[W_OFFSET]
        if event[E_OP] <= _HPUB and event[E_REPLY_END] > event[E_REPLY] and control[C_PAIRS]:
            if peer[W_ASKER] < 0:
                peer[W_ASKER] = -peer[W_ASKER]
            start, end = event[E_TEXT] + event[E_REPLY], event[E_TEXT] + event[E_REPLY_END]
            at = filter_bit(arena, start, end, peer[W_ASKER], control[C_SEED], len(bits))
            control[C_ASKED] += not bits[at]
            bits[at] = 1
    control[C_EVENTS], control[C_TEXT] = work[K_EVENTS], work[K_TEXT]
    control[C_CHANGED] |= work[K_CHANGED]
