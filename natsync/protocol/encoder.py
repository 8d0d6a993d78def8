"""Encodes frames as bytes: every operation, for either side of every kind of connection.

Raises ProtocolError for a frame that the grammar of its context cannot carry, so that a bad call fails at
the caller and not at the peer. A decoder of the same context reads the result back as an equal frame.
"""

from __future__ import annotations

from collections.abc import Callable

from . import frames as f
from .arguments import FREE, interest, may_send, messages
from .errors import ProtocolError
from .frames import Context, Frame, Kind, Message, Role
from .messages import MAX_NUMBER, RSID

__all__ = ["encode"]

_CLIENT = Context(Role.CLIENT, Kind.CLIENT)
_LINKS = {Kind.ROUTE, Kind.GATEWAY, Kind.LEAFNODE}


def encode(frame: Frame, context: Context = _CLIENT) -> bytes:
    """The bytes of `frame` as the sender in `context` writes it. Raises ProtocolError if it cannot."""
    write = _WRITERS.get(type(frame))
    if write is None or not _may_send(type(frame), context):
        where = context.kind.value if context.kind else "unknown"
        raise ProtocolError(
            f"{type(frame).__name__} is not sent by the {context.sender.value} of a {where} connection"
        )
    line = b" ".join([frame.op.encode(), *write(frame, context)])
    if isinstance(frame, Message):
        headers, payload = _body(frame)
        if len(headers) + len(payload) > MAX_NUMBER:
            raise _too_big()
        return b"%b\r\n%b%b\r\n" % (line, headers, payload)
    return line + b"\r\n"


def _too_big() -> ProtocolError:
    return ProtocolError(f"body of more than {MAX_NUMBER} bytes")


def _body(frame: Message) -> tuple[bytes, bytes]:
    return getattr(frame, "headers", b""), getattr(frame, "payload")


def _may_send(cls: type[Frame], context: Context) -> bool:
    """Whether a decoder of `context` would read the operation of `cls` as `cls`."""
    op = cls.op.encode()
    if op in FREE:
        sent = may_send(op, context)
    else:
        sent = op in messages(context) or op in interest(context)
    return sent and context.kind in _KINDS[cls]


def _token(text: bytes, what: str) -> bytes:
    if not text or 32 in text or 9 in text or 13 in text or 10 in text:
        raise ProtocolError(f"{what} that is empty or has a blank, tab or line end", None, text)
    return text


def _number(value: int, what: str) -> bytes:
    if not 0 <= value <= MAX_NUMBER:
        raise ProtocolError(f"{what} of {value} is not within 0 and {MAX_NUMBER}")
    return b"%d" % value


def _optional(text: bytes, what: str) -> list[bytes]:
    return [_token(text, what)] if text else []


def _line(text: bytes, what: str) -> bytes:
    if 13 in text or 10 in text:
        raise ProtocolError(f"{what} with a line end")
    return text


def _json(frame: f.Info | f.Connect, context: Context) -> list[bytes]:
    if not (frame.json.startswith(b"{") and frame.json.endswith(b"}")):
        raise ProtocolError(f"{frame.op} without a JSON object")
    return [_line(frame.json, frame.op)]


def _err(frame: f.Err, context: Context) -> list[bytes]:
    return [b"'%b'" % _line(frame.text, "error text")]


def _bare(frame: Frame, context: Context) -> list[bytes]:
    return []


def _account_line(frame: f.ASub | f.AUnsub, context: Context) -> list[bytes]:
    name = _line(frame.account, "account")
    if not name or name != name.strip(b" \t"):
        raise ProtocolError("account that is empty or has blanks around it", None, name)
    return [name]


def _sizes(frame: Message, headed: bool) -> list[bytes]:
    headers, payload = _body(frame)
    total = b"%d" % (len(headers) + len(payload))
    return [b"%d" % len(headers), total] if headed else [total]


def _pub(frame: f.Pub | f.HPub, context: Context) -> list[bytes]:
    reply = _optional(frame.reply, "reply")
    return [_token(frame.subject, "subject"), *reply, *_sizes(frame, isinstance(frame, f.HPub))]


def _msg(frame: f.Msg | f.HMsg, context: Context) -> list[bytes]:
    sid, reply = _sid(frame.sid, context), _optional(frame.reply, "reply")
    sizes = _sizes(frame, isinstance(frame, f.HMsg))
    return [_token(frame.subject, "subject"), sid, *reply, *sizes]


def _sid(sid: bytes, context: Context) -> bytes:
    if context.kind is Kind.ROUTE and not sid.startswith(RSID):
        raise ProtocolError("sid on a route that is not an RSID:", None, sid)
    return _token(sid, "sid")


def _sub(frame: f.Sub, context: Context) -> list[bytes]:
    queue = _optional(frame.queue, "queue")
    return [_token(frame.subject, "subject"), *queue, _sid(frame.sid, context)]


def _unsub(frame: f.Unsub, context: Context) -> list[bytes]:
    most = [] if frame.max_msgs is None else [_number(frame.max_msgs, "max_msgs")]
    return [_sid(frame.sid, context), *most]


def _account(account: bytes, context: Context) -> list[bytes]:
    if context.kind is Kind.LEAFNODE or (context.kind is Kind.ROUTE and context.dedicated):
        if account:
            raise ProtocolError("account on a connection that is bound to one", None, account)
        return []
    return [_token(account, "account")]


def _origin(origin: bytes, present: bool) -> list[bytes]:
    if not present:
        if origin:
            raise ProtocolError("origin where the grammar has none", None, origin)
        return []
    return [_token(origin, "origin")]


def _interest(
    frame: f.RSub | f.RUnsub | f.LSub | f.LUnsub, context: Context, origin: list[bytes]
) -> list[bytes]:
    target = [*_account(frame.account, context), _token(frame.subject, "subject")]
    queue = _optional(frame.queue, "queue")
    weight = frame.weight if isinstance(frame, (f.RSub, f.LSub)) else 0
    if weight and not queue:
        raise ProtocolError("weight without a queue")
    if queue and isinstance(frame, (f.RSub, f.LSub)):
        queue.append(_number(weight, "weight"))
    return [*origin, *target, *queue]


def _remote_interest(frame: f.RSub | f.RUnsub, context: Context) -> list[bytes]:
    return _interest(frame, context, [])


def _leaf_interest(frame: f.LSub | f.LUnsub, context: Context) -> list[bytes]:
    present = context.kind is Kind.ROUTE and (context.lnocu or isinstance(frame, f.LSub))
    return _interest(frame, context, _origin(frame.origin, present))


def _targets(frame: f.RMsg | f.RHMsg | f.LMsg) -> list[bytes]:
    """The reply and the queues. If there are queues, a marker comes first: `+` with a reply, `|` without."""
    reply = _optional(frame.reply, "reply")
    if not frame.queues:
        return reply
    return [b"+" if reply else b"|", *reply, *[_token(queue, "queue") for queue in frame.queues]]


def _routed(frame: f.RMsg | f.RHMsg, context: Context) -> list[bytes]:
    target = [*_account(frame.account, context), _token(frame.subject, "subject")]
    return [*target, *_targets(frame), *_sizes(frame, isinstance(frame, f.RHMsg))]


def _lmsg(frame: f.LMsg, context: Context) -> list[bytes]:
    routed = context.kind is Kind.ROUTE
    if frame.headers and not routed:
        raise ProtocolError("LMSG with headers on a leafnode, where HMSG carries them")
    origin, account = _origin(frame.origin, routed), _account(frame.account, context)
    return [
        *origin,
        *account,
        _token(frame.subject, "subject"),
        *_targets(frame),
        *_sizes(frame, routed),
    ]


_Writer = Callable[[Frame, Context], list[bytes]]


def _writers(
    *pairs: tuple[tuple[type[Frame], ...], Callable[..., list[bytes]]]
) -> dict[type, _Writer]:
    return {cls: write for classes, write in pairs for cls in classes}


_WRITERS = _writers(
    ((f.Info, f.Connect), _json),
    ((f.Ping, f.Pong, f.Ok), _bare),
    ((f.Err,), _err),
    ((f.ASub, f.AUnsub), _account_line),
    ((f.Pub, f.HPub), _pub),
    ((f.Msg, f.HMsg), _msg),
    ((f.Sub,), _sub),
    ((f.Unsub,), _unsub),
    ((f.RSub, f.RUnsub), _remote_interest),
    ((f.LSub, f.LUnsub), _leaf_interest),
    ((f.RMsg, f.RHMsg), _routed),
    ((f.LMsg,), _lmsg),
)

_KINDS: dict[type[Frame], set[Kind | None]] = {
    **dict.fromkeys((f.Info, f.Connect, f.Ping, f.Pong, f.Ok, f.Err), {None, *Kind}),
    **dict.fromkeys((f.Pub, f.HPub), {Kind.CLIENT, Kind.ROUTE, Kind.LEAFNODE}),
    **dict.fromkeys((f.Sub, f.Unsub, f.Msg), {Kind.CLIENT, Kind.ROUTE}),
    f.HMsg: {Kind.CLIENT},
    f.RHMsg: {*_LINKS},
    **dict.fromkeys((f.RSub, f.RUnsub, f.RMsg), {Kind.ROUTE, Kind.GATEWAY}),
    **dict.fromkeys((f.LSub, f.LUnsub, f.LMsg), {Kind.ROUTE, Kind.LEAFNODE}),
    **dict.fromkeys((f.ASub, f.AUnsub), {*_LINKS}),
}
"""The kinds of connections on which a decoder reads each frame back as the same class. For example, a
leafnode reads RS+ as LS+."""
