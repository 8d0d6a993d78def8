"""Which kinds of connection a control line may belong to, and which one a stream's lines agree on.

Used where no handshake tells. Only what real servers and clients send normally counts as evidence: that a
route would swallow a PUB makes no PUB the sign of a route.
"""

from __future__ import annotations

from dataclasses import replace
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
"""Every way to read a stream, the likeliest first where lines leave several."""

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
"""Who normally sends an operation; those that are not here come from everybody."""

UNSPECIFIC = frozenset({"PING", "PONG", "+OK", "-ERR"})
"""Operations that other protocols have as well."""

FREE = frozenset({b"PING", b"PONG", b"+OK", b"-ERR", b"INFO", b"CONNECT"})
"""Operations that read the same on every kind of connection."""

_LEGACY = (b"RSID:", b"QRSID:")
_MARKERS = (b"+", b"|")
_NO_ACCOUNTS = (b"$SYS.", b"$NRG.", b"$JSC.", b"$JS.", b"_INBOX.")


class ContextReader:
    """One way to read a stream: a context, and its grammar of control lines."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._grammar = Grammar(context, Limits())

    def read(self, line: bytes) -> tuple[Frame, int] | None:
        """The frame that a control line begins and the size of its body with CR LF (0: none); None if
        it makes no sense in this context."""
        try:
            frame, size, _, _ = self._grammar.seen.get(line) or self._grammar.read(line)
        except ProtocolError:
            return None
        if not _is_natural(frame, self.context):
            return None
        return frame, size + 2 if size >= 0 else 0


@lru_cache(maxsize=None)  # one for each of ALL
def reader_in(context: Context) -> ContextReader:
    """The reading in a context; one object for all who ask."""
    return ContextReader(context)


def _is_natural(frame: Frame, context: Context) -> bool:
    if isinstance(frame, (Sub, Unsub, Msg, HMsg)):
        legacy = frame.sid.startswith(_LEGACY)
        return legacy if context.kind is Kind.ROUTE else not legacy and b"." not in frame.sid
    if isinstance(frame, (RSub, RUnsub, RMsg, RHMsg)):
        return not frame.account.startswith(_NO_ACCOUNTS) and frame.subject not in _MARKERS
    return True


def mirrored(context: Context) -> Context:
    """The same, read from the other side."""
    return replace(context, sender=Role.SERVER if context.sender is Role.CLIENT else Role.CLIENT)


def agreed(own: tuple[Context, ...], others: tuple[Context, ...]) -> Context:
    """The likeliest way to read a stream, if possible one that the other side's `others` agree with."""
    return next((context for context in own if mirrored(context) in others), own[0])
