"""Stand-ins for what moves a connection's bytes."""

from __future__ import annotations

from collections.abc import Callable

from natsync.message import HeadersLike
from natsync.subscription import Home, Subscription


def idle(done: Callable[[], object], until: float) -> None:
    """Moves nothing: somebody else does."""


def publish(
    subject: str, data: bytes | bytearray | memoryview, *, headers: HeadersLike | None
) -> None:
    """Sends nothing."""


def home(ended: list[int | None] | None = None) -> Home:
    """A client that notes what subscriptions tell it of their ends."""

    def unsubscribe(sub: Subscription, max_msgs: int | None) -> None:
        if ended is not None:
            ended.append(max_msgs)

    def drain(sub: Subscription, timeout: float) -> None:
        pass

    return Home(publish, idle, unsubscribe, drain, lambda: None)
