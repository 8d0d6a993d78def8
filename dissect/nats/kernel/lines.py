"""Control lines and headers, as compiled functions.

They accept less than `natsync.protocol`, and never more: a line in its usual form, with one blank between
arguments, capital letters, and CR LF at its end. Anything else is Python's.
"""

from __future__ import annotations

import numpy as np

from .jit import Array, Number, compiled
from .state import (
    L_ARGS,
    L_COUNT,
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
    MOST_ARGS,
    Op,
)

CLIENT, SERVER, ROUTE, DEDICATED, GATEWAY, GATEWAY_BACK, LEAFNODE = range(7)
"""The grammars: client to server, server to client, route, route of one account, gateway in both directions,
leafnode."""

_WORDS: tuple[str, ...] = (
    "PUB ",
    "HPUB ",
    "MSG ",
    "HMSG ",
    "RMSG ",
    "LMSG ",
    "+OK\r",
    "PING\r",
    "PONG\r",
)
_WORDS += ("SUB ", "UNSUB ")
_LONGEST = max(map(len, _WORDS))
_PUB, _HPUB, _MSG, _HMSG, _RMSG, _LMSG, _OK, _PING, _PONG, _SUB, _UNSUB = range(len(_WORDS))

_SIMPLE, _ROUTED, _BARE, _LEGACY, _FREE = range(5)
"""What stands between the fixed arguments and the sizes: an optional reply; a reply and queues; nothing
after the operation; as _SIMPLE, with a sid that begins with RSID:; any of two or three arguments."""

# By grammar and word: operation, number of arguments before the reply, index of the subject, whether there
# are headers, form.
_RULES: dict[int, dict[int, tuple[int, int, int, int, int]]] = {
    CLIENT: {
        _PUB: (Op.PUB, 1, 0, 0, _SIMPLE),
        _HPUB: (Op.HPUB, 1, 0, 1, _SIMPLE),
        _SUB: (Op.SUB, 2, 0, 0, _FREE),
        _UNSUB: (Op.UNSUB, 1, 0, 0, _FREE),
    },
    SERVER: {
        _MSG: (Op.MSG, 2, 0, 0, _SIMPLE),
        _HMSG: (Op.HMSG, 2, 0, 1, _SIMPLE),
    },
    ROUTE: {
        _RMSG: (Op.RMSG, 2, 1, 0, _ROUTED),
        _HMSG: (Op.RHMSG, 2, 1, 1, _ROUTED),
        _LMSG: (Op.LMSG, 3, 2, 1, _ROUTED),
        _MSG: (Op.MSG, 2, 0, 0, _LEGACY),
    },
    DEDICATED: {
        _RMSG: (Op.RMSG, 1, 0, 0, _ROUTED),
        _HMSG: (Op.RHMSG, 1, 0, 1, _ROUTED),
        _LMSG: (Op.LMSG, 2, 1, 1, _ROUTED),
        _MSG: (Op.MSG, 2, 0, 0, _LEGACY),
    },
    GATEWAY: {
        _RMSG: (Op.RMSG, 2, 1, 0, _ROUTED),
        _HMSG: (Op.RHMSG, 2, 1, 1, _ROUTED),
    },
    GATEWAY_BACK: {},
    LEAFNODE: {
        _HMSG: (Op.RHMSG, 1, 0, 1, _ROUTED),
        _LMSG: (Op.LMSG, 1, 0, 0, _ROUTED),
    },
}
_BARE_WORDS = {_OK: (Op.OK,), _PING: (Op.PING,), _PONG: (Op.PONG,)}

WORDS = np.zeros((len(_WORDS), _LONGEST), np.uint8)
for _index, _word in enumerate(_WORDS):
    WORDS[_index, : len(_word)] = np.frombuffer(_word.encode(), np.uint8)
WORD_SIZES = np.array([len(word) for word in _WORDS], np.int64)
RULES = np.full((len(_RULES), len(_WORDS), 5), -1, np.int64)
for _grammar, _rules in _RULES.items():
    for _at, (_op,) in _BARE_WORDS.items():
        RULES[_grammar, _at] = int(_op), 0, 0, 0, _BARE
    for _at, _rule in _rules.items():
        RULES[_grammar, _at] = [int(value) for value in _rule]

OPERATIONS: dict[int, frozenset[int]] = {
    grammar: frozenset(int(op) for op in RULES[grammar, :, 0] if op >= 0) for grammar in _RULES
}
"""The operations that each grammar reads."""

ADVISORY = np.frombuffer(b"$JS.EVENT.ADVISORY.", np.uint8)
ACK = np.frombuffer(b"$JS.ACK.", np.uint8)
_JETSTREAM = np.frombuffer(b"$JS.", np.uint8)
_VERSION = np.frombuffer(b"NATS/1.0", np.uint8)
_RSID = np.frombuffer(b"RSID:", np.uint8)
_LF, _CR, _BLANK, _TAB, _COLON = 10, 13, 32, 9, 58
_STREAM = np.frombuffer(b".STREAM.", np.uint8)
_CONSUMER = np.frombuffer(b".CONSUMER.", np.uint8)
_DIRECT = np.frombuffer(b".DIRECT.GET.", np.uint8)
_STREAMING = np.frombuffer(b"_STAN.", np.uint8)
_DOLLAR, _NUMBER_FIELD, _TEXT_FIELD = 36, 8, 10
_DOT, _STAR, _MORE, _PLUS, _BAR, _ZERO, _NINE = 46, 42, 62, 43, 124, 48, 57
_DIGITS = 9  # of a size
LARGEST = 64 << 20  # the largest body


@compiled
def starts(text: Array, start: int, end: int, head: Array) -> bool:
    """Whether `text[start:end]` begins with `head`."""
    if end - start < len(head):
        return False
    for index in range(len(head)):
        if text[start + index] != head[index]:
            return False
    return True


@compiled
def _word_of(text: Array, start: int) -> int:
    """The word that a line begins with, as far as its first two bytes show; the line has more bytes."""
    first, second = text[start], text[start + 1]
    if first == 77:  # M
        return _MSG
    if first == 80:  # P
        return _PUB if second == 85 else (_PING if second == 73 else _PONG)
    if first == 72:  # H
        return _HPUB if second == 80 else _HMSG
    if first == 82:  # R
        return _RMSG
    if first == 76:  # L
        return _LMSG
    if first == 43:  # +
        return _OK
    return _SUB if first == 83 else (_UNSUB if first == 85 else -1)


@compiled
def may_begin(text: Array, size: int, grammar: int) -> bool:
    """Whether a line that is not complete may become one: it begins with one of the words."""
    for word in range(len(WORD_SIZES)):
        if RULES[grammar, word, 0] < 0:
            continue
        same = True
        for index in range(min(size, WORD_SIZES[word])):
            if text[index] != WORDS[word, index]:
                same = False
                break
        if same and (size <= WORD_SIZES[word] or WORDS[word, WORD_SIZES[word] - 1] == _BLANK):
            return True
    return False


@compiled
def _split(text: Array, start: int, end: int, line: Array) -> bool:
    """Notes the arguments in `text[start:end]`. Returns False unless they are split by single blanks."""
    count, begin = 0, start
    for index in range(start, end + 1):
        char = _BLANK if index == end else int(text[index])
        if char == _BLANK:
            if index == begin or count == MOST_ARGS:
                return False
            line[L_ARGS + 2 * count] = begin
            line[L_ARGS + 2 * count + 1] = index
            count += 1
            begin = index + 1
        elif _TAB <= char <= _CR:
            return False
    line[L_COUNT] = count
    return True


@compiled
def _number(text: Array, line: Array, index: int) -> int:
    """The number that an argument spells; -1 if it is none."""
    start, end = line[L_ARGS + 2 * index], line[L_ARGS + 2 * index + 1]
    if end - start > _DIGITS:
        return -1
    value = 0
    for at in range(start, end):
        digit = int(text[at])
        if digit < _ZERO or digit > _NINE:
            return -1
        value = value * 10 + digit - _ZERO
    return value


@compiled
def _read_sizes(text: Array, line: Array, headers: int) -> Number:
    """Reads the sizes at the end of a line."""
    last = line[L_COUNT] - 1
    size = _number(text, line, last)
    line[L_SIZE], line[L_HEADERS] = size, 0
    if size < 0 or size > LARGEST:
        return False
    if headers:
        line[L_HEADERS] = _number(text, line, last - 1)
        return 0 <= line[L_HEADERS] <= size
    return True


@compiled
def _read_tail(text: Array, line: Array, fixed: int, tail: int, form: int) -> bool:
    """Reads the `tail` arguments between the fixed ones and the sizes."""
    line[L_REPLY] = line[L_REPLY_END] = line[L_QUEUES] = line[L_QUEUES_END] = 0
    if tail == 0:
        return True
    at = L_ARGS + 2 * fixed
    if tail > 1:
        if form != _ROUTED or line[at + 1] - line[at] != 1:
            return False
        marker, last = text[line[at]], at + 2 * tail - 2
        first = at + (2 if marker == _BAR else 4)
        if first <= last:
            line[L_QUEUES], line[L_QUEUES_END] = line[first], line[last + 1]
        if marker == _BAR:
            return True
        if marker != _PLUS:
            return False
        at += 2
    line[L_REPLY], line[L_REPLY_END] = line[at], line[at + 1]
    return True


@compiled
def parse(text: Array, start: int, end: int, grammar: int, line: Array) -> Number:
    """Reads the control line `text[start:end]`, with its line end, into `line`. Returns False if it is not
    in its usual form, or no line of this grammar."""
    if end - start < 5 or text[end - 2] != _CR:
        return False
    word = _word_of(text, start)
    if word < 0:
        return False
    op, size = RULES[grammar, word, 0], WORD_SIZES[word]
    if op < 0 or not starts(text, start, end, WORDS[word, :size]):
        return False
    fixed, form = RULES[grammar, word, 1], RULES[grammar, word, 4]
    line[L_OP] = op
    line[L_SIZE] = -1
    line[L_HEADERS] = line[L_REPLY] = line[L_REPLY_END] = line[L_QUEUES] = line[L_QUEUES_END] = 0
    if form == _BARE:
        return start + size + 1 == end
    if not _split(text, start + size, end - 2, line):
        return False
    count = line[L_COUNT]
    if form == _FREE:
        return count == fixed or count == fixed + 1
    headers = RULES[grammar, word, 3]
    tail = count - fixed - 1 - headers
    if tail < 0 or (tail > 1 and form != _ROUTED):
        return False
    at = L_ARGS + 2 * RULES[grammar, word, 2]
    line[L_SUBJECT], line[L_SUBJECT_END] = line[at], line[at + 1]
    line[L_SID], line[L_SID_END] = line[L_ARGS + 2], line[L_ARGS + 3]
    if form == _LEGACY:
        sid, sid_end = line[L_SID], line[L_SID_END]
        if not starts(text, sid + (text[sid] == 81), sid_end, _RSID):  # Q
            return False
    return _read_tail(text, line, fixed, tail, form) and _read_sizes(text, line, headers)


@compiled
def is_publishable(text: Array, start: int, end: int) -> bool:
    """Whether a client may publish to this subject, as `sessions.delta.is_publishable`."""
    begin = start
    for index in range(start, end + 1):
        if index == end or text[index] == _DOT:
            if index == begin:
                return starts(text, start, end, _JETSTREAM)
            if index == begin + 1 and (text[begin] == _STAR or text[begin] == _MORE):
                return starts(text, start, end, _JETSTREAM)
            begin = index + 1
    return True


@compiled
def is_special(text: Array, start: int, end: int) -> bool:
    """Whether a subject may have a meaning to layers: it has `$`, or is a call of JetStream under another
    prefix."""
    for at in range(start, end):
        if text[at] == _DOLLAR:
            return True
        if text[at] == _DOT and (
            starts(text, at, end, _STREAM)
            or starts(text, at, end, _CONSUMER)
            or starts(text, at, end, _DIRECT)
        ):
            return True
    return False


@compiled
def begins_streaming(
    body: Array, start: int, end: int, text: Array, subject: int, subject_end: int
) -> bool:
    """Whether the message with this payload and subject may be one of NATS Streaming."""
    if start < end and (body[start] == _NUMBER_FIELD or body[start] == _TEXT_FIELD):
        return True
    return bool(starts(text, subject, subject_end, _STREAMING))


@compiled
def _past(text: Array, start: int, end: int, colon: bool) -> int:
    """The position of the next line end byte, or colon."""
    while start < end:
        char = text[start]
        if char == _CR or char == _LF or (colon and char == _COLON):
            break
        start += 1
    return start


@compiled
def _ends_line(text: Array, at: int, end: int) -> Number:
    return at + 2 <= end and text[at] == _CR and text[at + 1] == _LF


@compiled
def _past_status(text: Array, at: int, end: int) -> int:
    """The position after the status of a header block, if there is one; -1 if it is malformed."""
    if at >= end or text[at] != _BLANK:
        return at
    if at + 4 > end:
        return -1
    for index in range(at + 1, at + 4):
        if text[index] < _ZERO or text[index] > _NINE:
            return -1
    at += 4
    return _past(text, at, end, False) if at < end and text[at] == _BLANK else at


@compiled
def are_good_headers(text: Array, start: int, end: int) -> bool:
    """Whether a header block is well-formed, by the regular expression of `sessions.headers`."""
    if not starts(text, start, end, _VERSION):
        return False
    at = _past_status(text, start + len(_VERSION), end)
    if at < 0 or not _ends_line(text, at, end):
        return False
    at += 2
    while at < end and text[at] != _CR:
        char = text[at]
        if char == _COLON or char == _LF or char == _BLANK or char == _TAB:
            return False
        at = _past(text, at, end, True)
        if at >= end or text[at] != _COLON:
            return False
        at = _past(text, at, end, False)
        if not _ends_line(text, at, end):
            return False
        at += 2
    return _ends_line(text, at, end) and at + 2 == end
