"""The operations that layers above NATS read: messages, subscriptions and others."""

from __future__ import annotations

from ..schema.records import FrameRecord

OTHER = {"originator": "responder", "responder": "originator"}
"""The other side, by sender."""
LINKS = frozenset({"route", "gateway", "leafnode"})
MESSAGES = frozenset("PUB HPUB MSG HMSG RMSG LMSG".split())
MESSAGES_AND_INTEREST = MESSAGES | {"SUB", "UNSUB"}
GREETINGS = frozenset({"INFO", "CONNECT"})
EVERY_OP = (
    MESSAGES_AND_INTEREST
    | GREETINGS
    | frozenset("PING PONG +OK -ERR RS+ RS- LS+ LS- A+ A-".split())
)


def is_message(frame: FrameRecord) -> bool:
    """Whether the frame carries a message."""
    return frame.op in MESSAGES
