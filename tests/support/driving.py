"""Stand-ins for what moves a connection's bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable

from natsync._engine.sink import SubscriptionHost, SubscriptionSink
from natsync._engine.waiter import Guest
from natsync.headers import HeadersLike
from natsync.message import Data, Msg


def idle(done: Callable[[], object], until: float, guest: Guest | None = None) -> None:
    """Moves nothing: somebody else does."""


def nothing() -> None:
    """Anybody may wait."""


def respond(msg: Msg, data: Data, *, headers: HeadersLike | None) -> None:
    """Sends nothing."""


def host(ended: list[int | None] | None = None) -> SubscriptionHost:
    """A client that notes what subscriptions tell it of their ends."""

    def unsubscribe(sub: SubscriptionSink, max_msgs: int | None) -> None:
        if ended is not None:
            ended.append(max_msgs)

    def drain(subs: list[SubscriptionSink], timeout: float) -> None:
        pass

    def ask(sub: SubscriptionSink, subject: str, data: bytes) -> None:
        pass

    return SubscriptionHost(respond, idle, threading.RLock(), ask, unsubscribe, drain, lambda: None)
