"""The arguments of every operation, and which side of which kind of connection sends it.

A parser takes the tokens of a control line, the operation first, and returns its frame. Parsers are
written for the longest form of a line; `_lacking` adapts one to the lines that leave out the account
(dedicated routes), the origin, or both (leafnodes). Source: server/client.go, route.go, gateway.go,
leafnode.go.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from . import frames as f
from . import messages as m
from .errors import ProtocolError
from .frames import Context, Frame, Kind, Role
from .messages import NUMBER_DIGITS, RSID, ParseMessage, count_error, number

Parse = Callable[[list[bytes]], Frame]
"""The parser of an operation without a body. Raises BadArguments."""


def _sub(args: list[bytes]) -> Frame:
    match args:
        case [_, subject, sid]:
            return f.Sub(subject, sid)
        case [_, subject, queue, sid]:
            return f.Sub(subject, sid, queue)
    raise count_error(args)


def _unsub(args: list[bytes]) -> Frame:
    match args:
        case [_, sid]:
            return f.Unsub(sid)
        case [_, sid, most]:
            good = most.isdigit() and len(most) <= NUMBER_DIGITS
            return f.Unsub(sid, int(most) if good else 0)
    raise count_error(args)


def _route_unsub(rs_minus: Parse) -> Parse:
    """Parses UNSUB on a route: with a sid that begins with `RSID:`, it comes from a 1.x server; a 2.x server
    reads any other as RS-."""

    def parse(args: list[bytes]) -> Frame:
        legacy = len(args) > 1 and args[1].startswith(RSID)
        return _unsub(args) if legacy else rs_minus(args)

    return parse


def _rs_plus(args: list[bytes]) -> Frame:
    match args:
        case [_, account, subject]:
            return f.RSub(subject, account)
        case [_, account, subject, queue, weight]:
            return f.RSub(subject, account, queue, number(weight))
    raise count_error(args)


def _rs_minus(args: list[bytes]) -> Frame:
    match args:
        case [_, account, subject]:
            return f.RUnsub(subject, account)
        case [_, account, subject, queue]:
            return f.RUnsub(subject, account, queue)
    raise count_error(args)


def _ls_plus(args: list[bytes]) -> Frame:
    match args:
        case [_, origin, account, subject]:
            return f.LSub(subject, account, origin)
        case [_, origin, account, subject, queue, weight]:
            return f.LSub(subject, account, origin, queue, number(weight))
    raise count_error(args)


def _ls_minus(args: list[bytes]) -> Frame:
    match args:
        case [_, origin, account, subject]:
            return f.LUnsub(subject, account, origin)
        case [_, origin, account, subject, queue]:
            return f.LUnsub(subject, account, origin, queue)
    raise count_error(args)


def _lacking(parse: Parse, at: int, tokens: int = 1) -> Parse:
    """Adapts `parse` to lines that leave out `tokens` arguments at index `at`."""
    return lambda args: parse([*args[:at], *[b""] * tokens, *args[at:]])


def _lacking_in_message(parse: ParseMessage, at: int) -> ParseMessage:
    """Adapts `parse` to lines that leave out the argument at index `at`."""

    def parse_rest(
        args: list[bytes], offset: int, total_bytes: int, size: int, read: m.Read
    ) -> f.Message:
        return parse([*args[:at], b"", *args[at:]], offset, total_bytes, size, read)

    return parse_rest


_PUBLISH: dict[bytes, ParseMessage] = {b"PUB": m.pub, b"HPUB": m.hpub}


@lru_cache(maxsize=64)
def messages(context: Context) -> dict[bytes, ParseMessage]:
    """The message operations that are sent in `context`, with their parsers."""
    routed: dict[bytes, ParseMessage] = {b"RMSG": m.rmsg, b"HMSG": m.routed_hmsg}
    from_client = context.sender is Role.CLIENT
    match context.kind:
        case Kind.CLIENT:
            return _PUBLISH if from_client else {b"MSG": m.msg, b"HMSG": m.hmsg}
        case Kind.ROUTE:
            lmsg: ParseMessage = m.lmsg
            if context.dedicated:
                routed = {op: _lacking_in_message(parse, 1) for op, parse in routed.items()}
                lmsg = _lacking_in_message(lmsg, 2)
            return {**_PUBLISH, b"MSG": m.legacy_msg, b"LMSG": lmsg, **routed}
        case Kind.GATEWAY:
            return routed if from_client else {}
        case Kind.LEAFNODE:
            hmsg = _lacking_in_message(m.routed_hmsg, 1)
            return {**_PUBLISH, b"LMSG": m.leaf_lmsg, b"RMSG": m.leaf_lmsg, b"HMSG": hmsg}
    return {}


@lru_cache(maxsize=64)
def interest(context: Context) -> dict[bytes, Parse]:
    """The operations on subscriptions that are sent in `context`, with their parsers."""
    from_client = context.sender is Role.CLIENT
    match context.kind:
        case Kind.CLIENT:
            return {b"SUB": _sub, b"UNSUB": _unsub} if from_client else {}
        case Kind.ROUTE:
            return _route(context.dedicated, context.lnocu)
        case Kind.GATEWAY:
            return {} if from_client else {b"RS+": _rs_plus, b"RS-": _rs_minus}
        case Kind.LEAFNODE:
            plus, minus = _lacking(_ls_plus, 1, 2), _lacking(_ls_minus, 1, 2)
            return {
                **dict.fromkeys((b"LS+", b"RS+", b"SUB"), plus),
                **dict.fromkeys((b"LS-", b"RS-", b"UNSUB"), minus),
            }
    return {}


def _route(dedicated: bool, lnocu: bool) -> dict[bytes, Parse]:
    lines: dict[bytes, Parse] = {
        b"RS+": _rs_plus,
        b"RS-": _rs_minus,
        b"LS+": _ls_plus,
        b"LS-": _ls_minus,
    }
    if dedicated:
        places = {b"RS+": 1, b"RS-": 1, b"LS+": 2, b"LS-": 2}  # the index of the account
        lines = {op: _lacking(parse, places[op]) for op, parse in lines.items()}
    if not lnocu:
        lines[b"LS-"] = _lacking(_ls_minus, 1, 2 if dedicated else 1)
    return {**lines, b"SUB": _sub, b"UNSUB": _route_unsub(lines[b"RS-"])}


def may_send(op: bytes, context: Context) -> bool:
    """Whether the sender in `context` sends `op`, one of the operations in `FREE`."""
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
"""The operations whose argument is the whole rest of the line."""

OPS: frozenset[bytes] = frozenset(FREE).union(
    *(messages(Context(role, kind)) for role in Role for kind in Kind),
    *(interest(Context(role, kind)) for role in Role for kind in Kind),
)
"""Every operation there is, in upper case."""
