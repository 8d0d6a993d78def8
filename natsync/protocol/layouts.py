"""The argument layouts of every operation, and which side of which kind of connection sends it.

A layout is a function from a control line's tokens (the operation first) to a frame without its body.
It is written for the longest form; `_lacking` makes the forms that leave out the account (dedicated
routes), the origin, or both (leafnodes). Source: server/client.go, route.go, gateway.go, leafnode.go.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from . import frames as f
from .errors import ProtocolError
from .frames import Context, Frame, HeaderMessage, Kind, Message, Role

Parsed = tuple[Frame, int, int]
"""A frame without its body, the size of the body (-1: it has none) and that of the headers in it."""
Layout = Callable[[list[bytes]], Parsed]

MAX_NUMBER = 999_999_999
"""The largest size and weight: 9 digits (server/util.go: parseSize)."""
RSID = (b"RSID:", b"QRSID:")
"""What the sids of 1.x routes begin with."""

_NUMBER_DIGITS = len(str(MAX_NUMBER))
_NUMBERS = {b"%d" % number: number for number in range(2048)}  # `int` takes five times as long


class BadArguments(Exception):
    """Why a control line's arguments do not fit its operation."""


def _number(token: bytes) -> int:
    number = _NUMBERS.get(token)
    if number is not None:
        return number
    if not token.isdigit() or len(token) > _NUMBER_DIGITS:
        raise BadArguments("a number that is not 1 to 9 digits")
    return int(token)


def _bare(frame: Frame) -> Parsed:
    return frame, -1, 0


def _sized(frame: Message, size: bytes) -> Parsed:
    frame.payload_bytes = total = _number(size)
    return frame, total, 0


def _headed(frame: HeaderMessage, header_size: bytes, size: bytes) -> Parsed:
    total, headers = _number(size), _number(header_size)
    if headers > total:
        raise BadArguments("a header size above the total size")
    frame.header_bytes, frame.payload_bytes = headers, total - headers
    return frame, total, headers


def _count(args: list[bytes]) -> BadArguments:
    present = sum(1 for arg in args[1:] if arg)
    return BadArguments(f"{present} argument{'' if present == 1 else 's'}")


def _pub(args: list[bytes]) -> Parsed:
    match args:
        case [_, subject, size]:
            return _sized(f.Pub(subject), size)
        case [_, subject, reply, size]:
            return _sized(f.Pub(subject, reply), size)
    raise _count(args)


def _hpub(args: list[bytes]) -> Parsed:
    match args:
        case [_, subject, headers, size]:
            return _headed(f.HPub(subject), headers, size)
        case [_, subject, reply, headers, size]:
            return _headed(f.HPub(subject, reply), headers, size)
    raise _count(args)


def _msg(args: list[bytes]) -> Parsed:
    match args:
        case [_, subject, sid, size]:
            return _sized(f.Msg(subject, sid), size)
        case [_, subject, sid, reply, size]:
            return _sized(f.Msg(subject, sid, reply), size)
    raise _count(args)


def _hmsg(args: list[bytes]) -> Parsed:
    match args:
        case [_, subject, sid, headers, size]:
            return _headed(f.HMsg(subject, sid), headers, size)
        case [_, subject, sid, reply, headers, size]:
            return _headed(f.HMsg(subject, sid, reply), headers, size)
    raise _count(args)


def _sub(args: list[bytes]) -> Parsed:
    match args:
        case [_, subject, sid]:
            return _bare(f.Sub(subject, sid))
        case [_, subject, queue, sid]:
            return _bare(f.Sub(subject, sid, queue))
    raise _count(args)


def _unsub(args: list[bytes]) -> Parsed:
    match args:
        case [_, sid]:
            return _bare(f.Unsub(sid))
        case [_, sid, most]:
            good = most.isdigit() and len(most) <= _NUMBER_DIGITS
            return _bare(f.Unsub(sid, int(most) if good else 0))
    raise _count(args)


def _legacy_msg(args: list[bytes]) -> Parsed:
    if len(args) < 3 or not args[2].startswith(RSID):
        raise BadArguments("a sid that is no RSID: on a route")
    return _msg(args)


def _route_unsub(rs_minus: Layout) -> Layout:
    """UNSUB on a route: of 1.x with its RSID:, or what 2.x takes for RS-."""

    def layout(args: list[bytes]) -> Parsed:
        legacy = len(args) > 1 and args[1].startswith(RSID)
        return _unsub(args) if legacy else rs_minus(args)

    return layout


def _rs_plus(args: list[bytes]) -> Parsed:
    match args:
        case [_, account, subject]:
            return _bare(f.RSub(subject, account))
        case [_, account, subject, queue, weight]:
            return _bare(f.RSub(subject, account, queue, _number(weight)))
    raise _count(args)


def _rs_minus(args: list[bytes]) -> Parsed:
    match args:
        case [_, account, subject]:
            return _bare(f.RUnsub(subject, account))
        case [_, account, subject, queue]:
            return _bare(f.RUnsub(subject, account, queue))
    raise _count(args)


def _ls_plus(args: list[bytes]) -> Parsed:
    match args:
        case [_, origin, account, subject]:
            return _bare(f.LSub(subject, account, origin))
        case [_, origin, account, subject, queue, weight]:
            return _bare(f.LSub(subject, account, origin, queue, _number(weight)))
    raise _count(args)


def _ls_minus(args: list[bytes]) -> Parsed:
    match args:
        case [_, origin, account, subject]:
            return _bare(f.LUnsub(subject, account, origin))
        case [_, origin, account, subject, queue]:
            return _bare(f.LUnsub(subject, account, origin, queue))
    raise _count(args)


def _targets(tail: list[bytes]) -> tuple[bytes, tuple[bytes, ...]]:
    """Reply and queues. The number of tokens decides first: a lone `+` or `|` is a reply."""
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


def _rmsg(args: list[bytes]) -> Parsed:
    match args:
        case [_, account, subject, *tail, size]:
            return _sized(f.RMsg(subject, account, *_targets(tail)), size)
    raise _count(args)


def _routed_hmsg(args: list[bytes]) -> Parsed:
    match args:
        case [_, account, subject, *tail, headers, size]:
            return _headed(f.RHMsg(subject, account, *_targets(tail)), headers, size)
    raise _count(args)


def _lmsg(args: list[bytes]) -> Parsed:
    match args:
        case [_, origin, account, subject, *tail, headers, size]:
            return _headed(f.LMsg(subject, account, origin, *_targets(tail)), headers, size)
    raise _count(args)


def _leaf_lmsg(args: list[bytes]) -> Parsed:
    match args:
        case [_, subject, *tail, size]:
            return _sized(f.LMsg(subject, b"", b"", *_targets(tail)), size)
    raise _count(args)


def _lacking(layout: Layout, at: int, tokens: int = 1) -> Layout:
    """`layout` for lines that leave out `tokens` arguments at index `at`: dedicated routes, leafnodes."""
    return lambda args: layout([*args[:at], *[b""] * tokens, *args[at:]])


def _client(sender: Role) -> dict[bytes, Layout]:
    if sender is Role.SERVER:
        return {b"MSG": _msg, b"HMSG": _hmsg}
    return {b"PUB": _pub, b"HPUB": _hpub, b"SUB": _sub, b"UNSUB": _unsub}


def _route(dedicated: bool, lnocu: bool) -> dict[bytes, Layout]:
    after_op: dict[bytes, Layout] = {
        b"RS+": _rs_plus,
        b"RS-": _rs_minus,
        b"RMSG": _rmsg,
        b"HMSG": _routed_hmsg,
    }
    after_origin: dict[bytes, Layout] = {b"LS+": _ls_plus, b"LS-": _ls_minus, b"LMSG": _lmsg}
    if dedicated:
        after_op = {op: _lacking(layout, 1) for op, layout in after_op.items()}
        after_origin = {op: _lacking(layout, 2) for op, layout in after_origin.items()}
    if not lnocu:
        after_origin[b"LS-"] = _lacking(_ls_minus, 1, 2 if dedicated else 1)
    odd: dict[bytes, Layout] = {b"PUB": _pub, b"HPUB": _hpub, b"SUB": _sub, b"MSG": _legacy_msg}
    odd[b"UNSUB"] = _route_unsub(after_op[b"RS-"])
    return {**odd, **after_op, **after_origin}


def _gateway(sender: Role) -> dict[bytes, Layout]:
    if sender is Role.CLIENT:
        return {b"RMSG": _rmsg, b"HMSG": _routed_hmsg}
    return {b"RS+": _rs_plus, b"RS-": _rs_minus}


def _leafnode() -> dict[bytes, Layout]:
    plus, minus = _lacking(_ls_plus, 1, 2), _lacking(_ls_minus, 1, 2)
    return {
        **{b"LS+": plus, b"RS+": plus, b"SUB": plus, b"LS-": minus, b"RS-": minus, b"UNSUB": minus},
        **{b"LMSG": _leaf_lmsg, b"RMSG": _leaf_lmsg, b"HMSG": _lacking(_routed_hmsg, 1)},
        **{b"PUB": _pub, b"HPUB": _hpub},
    }


@lru_cache(maxsize=64)
def layouts(context: Context) -> dict[bytes, Layout]:
    match context.kind:
        case Kind.CLIENT:
            return _client(context.sender)
        case Kind.ROUTE:
            return _route(context.dedicated, context.lnocu)
        case Kind.GATEWAY:
            return _gateway(context.sender)
        case Kind.LEAFNODE:
            return _leafnode()
    return {}


def may_send(op: bytes, context: Context) -> bool:
    """Whether `op`, whose argument is no list, comes from this side of this kind."""
    sender, kind = context.sender, context.kind
    if op == b"CONNECT":
        return sender is Role.CLIENT
    if op in (b"A+", b"A-"):
        return kind in (Kind.ROUTE, Kind.LEAFNODE) or (kind, sender) == (Kind.GATEWAY, Role.SERVER)
    # A server ends the connection of a client that sends one (server/client.go: processErr).
    return op != b"-ERR" or (kind, sender) != (Kind.CLIENT, Role.CLIENT)


def _json(cls: type[f.Info] | type[f.Connect], rest: bytes) -> Frame:
    text = rest.strip(b" \t")
    if not (text.startswith(b"{") and text.endswith(b"}")):
        raise ProtocolError(f"{cls.op} without a JSON object", None, cls.op.encode())
    return cls(text)


def _named(cls: type[f.ASub] | type[f.AUnsub], rest: bytes) -> Frame:
    account = rest.strip(b" \t")
    if rest[:1] not in (b" ", b"\t") or not account:
        raise ProtocolError(f"{cls.op} without an account", None, cls.op.encode() + rest)
    return cls(account)


def _err(rest: bytes) -> Frame:
    if rest[:1] not in (b" ", b"\t"):
        raise ProtocolError("no blank after -ERR", None, b"-ERR" + rest[:1])
    text = rest.strip(b" \t")
    quoted = len(text) > 1 and text.startswith(b"'") and text.endswith(b"'")
    return f.Err(text[1:-1] if quoted else text)


FREE: dict[bytes, Callable[[bytes], Frame]] = {
    b"INFO": lambda rest: _json(f.Info, rest),
    b"CONNECT": lambda rest: _json(f.Connect, rest),
    b"PING": lambda rest: f.Ping(),
    b"PONG": lambda rest: f.Pong(),
    b"+OK": lambda rest: f.Ok(),
    b"-ERR": _err,
    b"A+": lambda rest: _named(f.ASub, rest),
    b"A-": lambda rest: _named(f.AUnsub, rest),
}
"""The operations whose argument is the rest of the line."""

OPS: frozenset[bytes] = frozenset(FREE).union(
    *(layouts(Context(sender, kind)) for sender in Role for kind in Kind)
)
"""Every operation there is, in upper case."""
