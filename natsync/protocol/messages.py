"""The arguments of messages: a parser for each form of PUB, HPUB, MSG, HMSG, RMSG and LMSG.

A parser takes the tokens of a control line, the operation first, and the body that came after it, and
returns the whole frame. Source: server/client.go, route.go and leafnode.go.
"""

from __future__ import annotations

from collections.abc import Callable

from . import frames as f
from .frames import HeaderMessage, Message

Read = Callable[[int], bytes]
ParseMessage = Callable[[list[bytes], int, int, int, Read], Message]
"""The parser of a message. Takes the arguments, the offset, the size on the wire, the size of the body, and a
function that reads the body; returns the frame. Raises BadArguments.

It is the decoder's hottest call. It makes the whole frame at once, with one assignment per field: calling
the class and setting the rest takes twice as long (CPython 3.11).
"""

MAX_NUMBER = 999_999_999
"""The largest size and weight: 9 digits (server/util.go: parseSize)."""
NUMBERS = {b"%d" % number: number for number in range(2048)}
"""Numbers by their digits: `int` takes five times as long."""
RSID = (b"RSID:", b"QRSID:")
"""Prefixes of the sids on 1.x routes."""

NUMBER_DIGITS = len(str(MAX_NUMBER))
_NONE: tuple[bytes, ...] = ()
_new = object.__new__


class BadArguments(Exception):
    """The reason why the arguments of a control line do not fit its operation."""


def number(token: bytes) -> int:
    """The number that `token` spells. Raises BadArguments unless it has 1 to 9 digits and nothing else."""
    known = NUMBERS.get(token)
    if known is not None:
        return known
    if not token.isdigit() or len(token) > NUMBER_DIGITS:
        raise BadArguments("a number that is not 1 to 9 digits")
    return int(token)


def number_up_to(largest: int, token: bytes) -> int:
    """Like `number`, but also raises BadArguments for a number above `largest`."""
    found = number(token)
    if found > largest:
        raise BadArguments(f"a number above {largest}")
    return found


def count_error(args: list[bytes]) -> BadArguments:
    present = sum(1 for arg in args[1:] if arg)
    return BadArguments(f"{present} argument{'' if present == 1 else 's'}")


def _fill(frame: HeaderMessage, header_size: bytes, size: int, read: Read) -> None:
    header_bytes = NUMBERS.get(header_size)
    if header_bytes is None:
        header_bytes = number(header_size)
    if header_bytes > size:
        raise BadArguments("a header size above the total size")
    frame.header_bytes, frame.payload_bytes = header_bytes, size - header_bytes
    frame.headers = read(header_bytes)  # type: ignore[attr-defined]  # each subclass has it
    frame.payload = read(size - header_bytes)  # type: ignore[attr-defined]  # each subclass has it


def pub(args: list[bytes], offset: int, total_bytes: int, size: int, read: Read) -> Message:
    match args:
        case [_, subject, _]:
            reply = b""
        case [_, subject, reply, _]:
            pass
        case _:
            raise count_error(args)
    frame = _new(f.Pub)
    frame.subject, frame.reply = subject, reply
    frame.offset, frame.total_bytes = offset, total_bytes
    frame.payload_bytes, frame.missing_bytes, frame.payload = size, 0, read(size)
    return frame


def hpub(args: list[bytes], offset: int, total_bytes: int, size: int, read: Read) -> Message:
    match args:
        case [_, subject, headers, _]:
            reply = b""
        case [_, subject, reply, headers, _]:
            pass
        case _:
            raise count_error(args)
    frame = _new(f.HPub)
    frame.subject, frame.reply = subject, reply
    frame.offset, frame.total_bytes, frame.missing_bytes = offset, total_bytes, 0
    _fill(frame, headers, size, read)
    return frame


def msg(args: list[bytes], offset: int, total_bytes: int, size: int, read: Read) -> Message:
    match args:
        case [_, subject, sid, _]:
            reply = b""
        case [_, subject, sid, reply, _]:
            pass
        case _:
            raise count_error(args)
    frame = _new(f.Msg)
    frame.subject, frame.sid, frame.reply = subject, sid, reply
    frame.offset, frame.total_bytes = offset, total_bytes
    frame.payload_bytes, frame.missing_bytes, frame.payload = size, 0, read(size)
    return frame


def hmsg(args: list[bytes], offset: int, total_bytes: int, size: int, read: Read) -> Message:
    match args:
        case [_, subject, sid, headers, _]:
            reply = b""
        case [_, subject, sid, reply, headers, _]:
            pass
        case _:
            raise count_error(args)
    frame = _new(f.HMsg)
    frame.subject, frame.sid, frame.reply = subject, sid, reply
    frame.offset, frame.total_bytes, frame.missing_bytes = offset, total_bytes, 0
    _fill(frame, headers, size, read)
    return frame


def legacy_msg(args: list[bytes], offset: int, total_bytes: int, size: int, read: Read) -> Message:
    """MSG on a 1.x route."""
    if len(args) < 3 or not args[2].startswith(RSID):
        raise BadArguments("a sid that is not an RSID: on a route")
    return msg(args, offset, total_bytes, size, read)


def _targets(tail: list[bytes]) -> tuple[bytes, tuple[bytes, ...]]:
    """The reply and the queues. The number of tokens decides first: a lone `+` or `|` is a reply."""
    match tail:
        case []:
            return b"", ()
        case [reply]:
            return reply, ()
        case [b"+", reply, *queues]:
            return reply, tuple(queues)
        case [b"|", *queues]:
            return b"", tuple(queues)
    raise BadArguments("a marker that is neither + nor |")


def rmsg(args: list[bytes], offset: int, total_bytes: int, size: int, read: Read) -> Message:
    reply, queues = b"", _NONE
    match args:
        case [_, account, subject, _]:
            pass
        case [_, account, subject, reply, _]:
            pass
        case [_, account, subject, *tail, _]:
            reply, queues = _targets(tail)
        case _:
            raise count_error(args)
    frame = _new(f.RMsg)
    frame.subject, frame.account = subject, account
    frame.reply, frame.queues = reply, queues
    frame.offset, frame.total_bytes = offset, total_bytes
    frame.payload_bytes, frame.missing_bytes, frame.payload = size, 0, read(size)
    return frame


def routed_hmsg(args: list[bytes], offset: int, total_bytes: int, size: int, read: Read) -> Message:
    """HMSG between servers."""
    match args:
        case [_, account, subject, *tail, headers, _]:
            pass
        case _:
            raise count_error(args)
    frame = _new(f.RHMsg)
    frame.subject, frame.account = subject, account
    frame.reply, frame.queues = _targets(tail)
    frame.offset, frame.total_bytes, frame.missing_bytes = offset, total_bytes, 0
    _fill(frame, headers, size, read)
    return frame


def lmsg(args: list[bytes], offset: int, total_bytes: int, size: int, read: Read) -> Message:
    """LMSG on a route."""
    match args:
        case [_, origin, account, subject, *tail, headers, _]:
            pass
        case _:
            raise count_error(args)
    frame = _new(f.LMsg)
    frame.subject, frame.account, frame.origin = subject, account, origin
    frame.reply, frame.queues = _targets(tail)
    frame.offset, frame.total_bytes, frame.missing_bytes = offset, total_bytes, 0
    _fill(frame, headers, size, read)
    return frame


def leaf_lmsg(args: list[bytes], offset: int, total_bytes: int, size: int, read: Read) -> Message:
    """LMSG on a leafnode connection: no origin, account or headers."""
    reply, queues = b"", _NONE
    match args:
        case [_, subject, _]:
            pass
        case [_, subject, reply, _]:
            pass
        case [_, subject, *tail, _]:
            reply, queues = _targets(tail)
        case _:
            raise count_error(args)
    frame = _new(f.LMsg)
    frame.subject, frame.account, frame.origin = subject, b"", b""
    frame.reply, frame.queues = reply, queues
    frame.offset, frame.total_bytes = offset, total_bytes
    frame.header_bytes, frame.headers = 0, b""
    frame.payload_bytes, frame.missing_bytes, frame.payload = size, 0, read(size)
    return frame
