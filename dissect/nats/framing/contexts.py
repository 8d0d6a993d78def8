"""The contexts (kinds of connections and senders) in which a control line may be sent, and the likeliest one
for a stream.

Used if no handshake was captured. Only operations that real servers and clients normally send count as
evidence: a route would accept a PUB, but a PUB is no sign of a route.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from natsync.protocol import (
    Context,
    Frame,
    Grammar,
    HMsg,
    Kind,
    Limits,
    Msg,
    ProtocolError,
    Pub,
    RHMsg,
    RMsg,
    Role,
    RSub,
    RUnsub,
    Sub,
    Unsub,
)

_BOTH = (Role.CLIENT, Role.SERVER)

ALL = (
    *(Context(role, Kind.CLIENT) for role in _BOTH),
    *(Context(role, Kind.LEAFNODE) for role in _BOTH),
    *(
        Context(role, Kind.ROUTE, dedicated, lnocu)
        for dedicated in (False, True)
        for lnocu in (True, False)
        for role in _BOTH
    ),
    *(Context(role, Kind.GATEWAY) for role in _BOTH),
)
"""Every context. If several fit, the first one is the likeliest."""

_KEYS = {
    "PUB HPUB": "client>",
    "SUB UNSUB": "client> route> route<",
    "MSG": "client< route> route<",
    "HMSG": "client< route> route< gateway> leafnode> leafnode<",
    "RS+ RS-": "route> route< gateway<",
    "RMSG": "route> route< gateway>",
    "LS+ LS- LMSG": "route> route< leafnode> leafnode<",
    "A+ A-": "gateway<",
    "INFO": "client< route> route< gateway> gateway< leafnode> leafnode<",
    "CONNECT": "client> route> gateway> leafnode>",
    "+OK": "client<",
    "-ERR": "client< route> route< gateway> gateway< leafnode> leafnode<",
}


def _key(context: Context) -> str:
    assert context.kind is not None
    return context.kind.value + (">" if context.sender is Role.CLIENT else "<")


NATURAL: dict[bytes, frozenset[Context]] = {
    op.encode(): frozenset(context for context in ALL if _key(context) in keys.split())
    for ops, keys in _KEYS.items()
    for op in ops.split()
}
"""Operation -> the contexts in which it is normally sent. An operation that is not listed may come in any."""

UNSPECIFIC = frozenset({"PING", "PONG", "+OK", "-ERR"})
"""Operations that other protocols also have."""

FREE = frozenset({b"PING", b"PONG", b"+OK", b"-ERR", b"INFO", b"CONNECT"})
"""Operations that are parsed in the same way on every kind of connection."""

_LEGACY = (b"RSID:", b"QRSID:")
_MARKERS = (b"+", b"|")
_NO_ACCOUNTS = (b"$SYS.", b"$NRG.", b"$JSC.", b"$JS.", b"_INBOX.")


class ContextReader:
    """Reads control lines in one context. `unnatural` has the operations that are normally sent only in other
    contexts."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.unnatural = frozenset(op for op, senders in NATURAL.items() if context not in senders)
        self.names_accounts = context.kind is not Kind.CLIENT  # whether lines may name an account
        self._grammar = Grammar(context, Limits())

    def __reduce__(self) -> tuple[Callable[[Context], ContextReader], tuple[Context]]:
        """Pickles only the context, because each process has its own reader of a context."""
        return reader_in, (self.context,)

    def read(self, line: bytes) -> tuple[Frame, int] | None:
        """The frame that begins with a control line, and the size of its body with CR LF (0: no body); None
        if the line is invalid in this context."""
        try:
            frame, size, _, _ = self._grammar.seen.get(line) or self._grammar.read(line)
        except ProtocolError:
            return None
        if not _is_natural(frame, self.context):
            return None
        return frame, size + 2 if size >= 0 else 0


@lru_cache(maxsize=None)  # one for each of ALL
def reader_in(context: Context) -> ContextReader:
    """The reader of a context; one object for all callers."""
    return ContextReader(context)


def _is_natural(frame: Frame, context: Context) -> bool:
    if frame.__class__ is Pub:
        return True
    if isinstance(frame, (Sub, Unsub, Msg, HMsg)):
        legacy = frame.sid.startswith(_LEGACY)
        return legacy if context.kind is Kind.ROUTE else not legacy and b"." not in frame.sid
    if isinstance(frame, (RSub, RUnsub, RMsg, RHMsg)):
        return not frame.account.startswith(_NO_ACCOUNTS) and frame.subject not in _MARKERS
    return True


def mirrored(context: Context) -> Context:
    """The same context for the other sender."""
    return context.replace(sender=Role.SERVER if context.sender is Role.CLIENT else Role.CLIENT)


def agreed(own: tuple[Context, ...], others: tuple[Context, ...]) -> Context:
    """The likeliest context of a stream: the first one in `own` that agrees with `others`, the contexts of
    the other side, or else the first one in `own`."""
    return next((context for context in own if mirrored(context) in others), own[0])
