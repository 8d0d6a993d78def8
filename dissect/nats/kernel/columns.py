"""Rows of the frames that are counted in the kernel, as columns, as compiled functions.

Numbers stand in a row of `rows`. Texts of one kind stand one after another in `texts`, and `ends` has where
each of them ends. Rows are staged after those that are there, and stay if the packet is kept.
"""

from __future__ import annotations

import numpy as np

from .jit import Array, compiled
from .state import (
    C_BEFORE,
    C_FIELDS,
    C_NEXT,
    C_ROWS,
    K_BASE,
    K_CAPTURE,
    K_FIELDS,
    K_LABEL,
    K_NUMBER,
    K_PACKET,
    K_ROWS,
    K_TIME,
    L_ARGS,
    L_HEADERS,
    L_OP,
    L_QUEUES,
    L_QUEUES_END,
    L_REPLY,
    L_REPLY_END,
    L_SID,
    L_SID_END,
    L_SIZE,
    L_SUBJECT,
    L_SUBJECT_END,
    PACKET_FRAMES,
    PACKET_TEXT,
    R_CAPTURE,
    R_FIELDS,
    R_HEADERS,
    R_LABEL,
    R_NUMBER,
    R_OFFSET,
    R_OP,
    R_ORDINAL,
    R_PACKET,
    R_SIZE,
    R_TIME,
    R_TOTAL,
    T_ACCOUNT,
    T_BLOCK,
    T_NAME,
    T_ORIGIN,
    T_QUEUES,
    T_REPLY,
    T_SID,
    T_SUBJECT,
    T_VALUE,
    Op,
)

_MSG, _HMSG, _LMSG = int(Op.MSG), int(Op.HMSG), int(Op.LMSG)
_CR, _BLANK, _TAB, _COLON, _LAST_ASCII = 13, 32, 9, 58, 127
_LINE_END = 2
_VERSION_LINE = np.frombuffer(b"NATS/1.0\r\n", np.uint8)
_MOST_FIELDS = 32
READ_BY_PYTHON = -1
"""In `R_FIELDS`: the headers have an inline status, repeat a name, or are otherwise unusual."""


@compiled
def lacks_room(control: Array, out: Array) -> bool:
    """Whether there may be too little room for the rows of another packet."""
    rows, ends, texts = out
    count, fields = control[C_ROWS], control[C_FIELDS]
    if not count:
        return False
    if count + PACKET_FRAMES > len(rows) or fields + PACKET_FRAMES > len(rows):
        return True
    most = texts.shape[1] - PACKET_TEXT
    for text in range(T_NAME):
        if ends[text, count] > most:
            return True
    return bool(ends[T_NAME, fields] > most or ends[T_VALUE, fields] > most)


@compiled
def _add(out: Array, text: int, index: int, source: Array, start: int, stop: int) -> None:
    """Adds a text with this index."""
    _, ends, texts = out
    at, row = ends[text, index], texts[text]
    for place in range(start, stop):
        row[at + place - start] = source[place]
    ends[text, index + 1] = at + stop - start


@compiled
def _has_name(out: Array, first: int, last: int, source: Array, start: int, stop: int) -> bool:
    """Whether one of the fields has this name."""
    _, ends, texts = out
    names, sizes = texts[T_NAME], ends[T_NAME]
    for field in range(first, last):
        at = sizes[field]
        if sizes[field + 1] - at != stop - start:
            continue
        same = True
        for place in range(start, stop):
            if names[at + place - start] != source[place]:
                same = False
                break
        if same:
            return True
    return False


@compiled
def _stage_fields(body: Array, at: int, work: Array, out: Array) -> int:
    """Stages the fields of a well-formed header block; returns how many there are, or `READ_BY_PYTHON`."""
    for index in range(len(_VERSION_LINE)):
        if body[at + index] != _VERSION_LINE[index]:
            return READ_BY_PYTHON
    at += len(_VERSION_LINE)
    first = field = work[K_FIELDS]
    while body[at] != _CR:
        start = at
        while body[at] != _COLON:
            if body[at] > _LAST_ASCII:  # two names may be the same text
                return READ_BY_PYTHON
            at += 1
        if field - first == _MOST_FIELDS or _has_name(out, first, field, body, start, at):
            return READ_BY_PYTHON
        _add(out, T_NAME, field, body, start, at)
        begin = at = at + 1
        while body[at] != _CR:
            at += 1
        end = at
        while begin < end and (body[begin] == _BLANK or body[begin] == _TAB):
            begin += 1
        while begin < end and (body[end - 1] == _BLANK or body[end - 1] == _TAB):
            end -= 1
        _add(out, T_VALUE, field, body, begin, end)
        field += 1
        at += _LINE_END
    work[K_FIELDS] = field
    return int(field - first)


@compiled
def _stage_names(text: Array, line: Array, row: int, out: Array) -> None:
    """Stages what a line names besides its subject."""
    op, subject, at = line[L_OP], line[L_SUBJECT], L_ARGS
    start = stop = 0
    if op == _MSG or op == _HMSG:
        start, stop = line[L_SID], line[L_SID_END]
    _add(out, T_SID, row, text, start, stop)
    start = stop = 0
    if op == _LMSG and line[at] != subject:
        start, stop = line[at], line[at + 1]
        at += 2
    _add(out, T_ORIGIN, row, text, start, stop)
    start = stop = 0
    if line[at] != subject:
        start, stop = line[at], line[at + 1]
    _add(out, T_ACCOUNT, row, text, start, stop)
    _add(out, T_QUEUES, row, text, line[L_QUEUES], line[L_QUEUES_END])


@compiled
def stage_row(
    body: Array,
    headers: int,
    text: Array,
    start: int,
    end: int,
    line: Array,
    work: Array,
    control: Array,
    out: Array,
) -> None:
    """Stages the row of a message, whose line is `text[start:end]` and whose headers are in `body`."""
    index, size = work[K_ROWS], line[L_HEADERS]
    row = out[0][index]
    row[R_ORDINAL], row[R_LABEL] = control[C_BEFORE] + control[C_NEXT] + 1, work[K_LABEL]
    row[R_NUMBER], row[R_TIME] = work[K_NUMBER], work[K_TIME]
    row[R_PACKET], row[R_CAPTURE] = work[K_PACKET], work[K_CAPTURE]
    row[R_OP], row[R_HEADERS] = line[L_OP], size
    row[R_SIZE], row[R_TOTAL] = line[L_SIZE] - size, end - start + line[L_SIZE] + _LINE_END
    row[R_OFFSET], row[R_FIELDS] = work[K_BASE], 0
    _add(out, T_SUBJECT, index, text, line[L_SUBJECT], line[L_SUBJECT_END])
    _add(out, T_REPLY, index, text, line[L_REPLY], line[L_REPLY_END])
    _stage_names(text, line, index, out)
    stop = headers
    if size:
        row[R_FIELDS] = _stage_fields(body, headers, work, out)
        if row[R_FIELDS] == READ_BY_PYTHON:
            stop += size
    _add(out, T_BLOCK, index, body, headers, stop)
    work[K_ROWS] = index + 1
