"""Lines and bodies of frames, whole or in pieces, as compiled functions: what is kept from packet to packet,
and which payloads Python needs."""

from __future__ import annotations

import numpy as np

from ..outcomes import ERROR_BYTES, ERROR_HEAD
from .jit import Array, Number, compiled
from .lines import may_begin, parse, starts
from .state import (
    C_LAYERS,
    C_REPLIES,
    K_LEFT,
    K_LINE,
    K_SIZE,
    L_HEADERS,
    L_OP,
    L_SIZE,
    LINE_BYTES,
    W_GRAMMAR,
    W_READS,
    Op,
)

_MSG, _HMSG = int(Op.MSG), int(Op.HMSG)
_CR, _LF, _BRACE = 13, 10, 123
_ERROR = np.frombuffer(b'"error"', np.uint8)


@compiled
def head_of(line: Array, control: Array) -> Number:
    """How many bytes at the beginning of a payload are kept: those that show whether it may be an error, or
    all that layers may read."""
    if control[C_LAYERS]:
        return max(0, line[L_SIZE] - line[L_HEADERS])
    op, size = line[L_OP], line[L_SIZE] - line[L_HEADERS]
    if not control[C_REPLIES] or (op != _MSG and op != _HMSG) or size > ERROR_BYTES:
        return 0
    return min(size, ERROR_HEAD)


@compiled
def may_be_error(body: Array, start: int, end: int, control: Array) -> bool:
    """Whether a payload that begins so may be an error that Python has to read, by
    `outcomes.may_be_api_error`."""
    if not control[C_REPLIES] or start == end or body[start] != _BRACE:
        return False
    for at in range(start, end - len(_ERROR) + 1):
        if body[at] == _ERROR[0] and starts(body, at, end, _ERROR):
            return True
    return False


@compiled
def read_line(
    text: Array, at: int, end: int, way: Array, work: Array, control: Array, row: Array, line: Array
) -> int:
    """Keeps the bytes of a line that is not whole in this packet. Returns where it stopped, -1 if the line
    is not plain."""
    stop = at
    while stop < end and text[stop] != _LF:
        stop += 1
    whole = stop < end
    stop += whole
    size = work[K_SIZE]
    if size + stop - at > LINE_BYTES:
        return -1
    for index in range(stop - at):
        row[size + index] = text[at + index]
    size = work[K_SIZE] = size + stop - at
    if not whole:
        return stop if may_begin(row, size, way[W_GRAMMAR]) else -1
    if not parse(row, 0, size, way[W_GRAMMAR], line) or not way[W_READS] >> line[L_OP] & 1:
        return -1
    if size + line[L_HEADERS] + head_of(line, control) > len(row):
        return -1
    work[K_LINE], work[K_LEFT] = size, line[L_SIZE] + 2
    if line[L_SIZE] < 0:
        work[K_LEFT] = 0
    return stop


@compiled
def read_body(
    text: Array, at: int, end: int, work: Array, control: Array, row: Array, line: Array
) -> int:
    """Reads on in a body that began before. Returns where it stopped, -1 if its end is not CR LF, or if
    Python needs the payload."""
    left = work[K_LEFT]
    taken = min(left, end - at)
    payload = work[K_LINE] + line[L_HEADERS]
    head = head_of(line, control)
    wanted = min(taken, payload + head - work[K_SIZE])
    if wanted > 0:
        for index in range(wanted):
            row[work[K_SIZE] + index] = text[at + index]
        work[K_SIZE] += wanted
        if work[K_SIZE] == payload + head and may_be_error(row, payload, payload + head, control):
            return -1
    at, left = at + taken, left - taken
    if taken and left == 1 and text[at - 1] != _CR:
        return -1
    if taken and left == 0:
        if text[at - 1] != _LF or (taken > 1 and text[at - 2] != _CR):
            return -1
    work[K_LEFT] = left
    return at


@compiled
def whole_frame(text: Array, at: int, end: int, grammar: int, reads: int, line: Array) -> int:
    """If a whole frame begins at `at`, reads its line, and returns where the line ends; 0 if it is not whole;
    -1 if it is not plain."""
    stop = at
    while stop < end and text[stop] != _LF:
        stop += 1
    if stop >= end:
        return 0
    stop += 1
    if not parse(text, at, stop, grammar, line) or not reads >> line[L_OP] & 1:
        return -1
    if line[L_SIZE] < 0:
        return stop
    after = stop + line[L_SIZE]
    if after + 2 > end:
        return 0
    return stop if text[after] == _CR and text[after + 1] == _LF else -1
