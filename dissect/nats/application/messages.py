"""The frames that layers above NATS read: messages, and the subscriptions that say where messages go."""

from __future__ import annotations

from ..records import FrameRecord

LINKS = frozenset({"route", "gateway", "leafnode"})
MESSAGES = frozenset("PUB HPUB MSG HMSG RMSG LMSG".split())
_WITH_INTEREST = MESSAGES | {"SUB", "UNSUB"}


def is_message(frame: FrameRecord) -> bool:
    """Whether the frame carries a message."""
    return frame.op in MESSAGES


def is_message_or_interest(frame: FrameRecord) -> bool:
    """Whether the frame carries a message, or says where messages go."""
    return frame.op in _WITH_INTEREST
