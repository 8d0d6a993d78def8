"""Parses messages of NATS Streaming without raising, and checks whether one is plausible by itself."""

from __future__ import annotations

from typing import TypeVar

from natsync.protocol import ProtocolError
from natsync.protocol.streaming import (
    MsgProto,
    StartPosition,
    StreamingMessage,
    SubscriptionRequest,
    is_channel,
)

from ...schema.declaration import LayerFrame

_FIRST_NS = 1_400_000_000 * 10**9  # NATS Streaming is younger
_DAY_NS = 86_400 * 10**9
_M = TypeVar("_M", bound=StreamingMessage)


def is_plausible(message: MsgProto, frame: LayerFrame) -> bool:
    """Whether a parsed message may be a delivery: it has all fields that a server sets, and no other."""
    return (
        message.sequence > 0
        and not message.unknown
        and is_channel(message.subject)
        and _FIRST_NS < message.timestamp < frame.ts_ns + _DAY_NS
    )


def parsed(kind: type[_M], frame: LayerFrame) -> _M | None:
    try:
        return kind.parse(frame.content)
    except ProtocolError:
        return None


def start_text(request: SubscriptionRequest) -> str:
    position = request.start_position
    if position == StartPosition.SEQUENCE_START:
        return f"sequence {request.start_sequence}"
    if position == StartPosition.TIME_DELTA_START:
        return f"{request.start_time_delta} ns ago"
    known = {each.value: each.name.lower() for each in StartPosition}
    return known.get(position, str(position))
