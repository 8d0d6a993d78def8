"""Who listens to what: the subscriptions of a client, by sid, over all its connections.

Any thread may call anything. Single dictionary operations, which are atomic, take the place of a lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Protocol

from .errors import Error, PermissionsViolationError
from .message import Delivered
from .outbox import Interest
from .protocol import Sub, Unsub, encode
from .subscription import Subscription

__all__ = ["Listener", "Registry"]


class Listener(Protocol):
    """A subscription, as the connection sees it. `max_msgs`, if not None, is when it ends, `received` what
    it has had, `received_before` what of that came on connections before this one. `asked` is the subject
    of the one request whose replies it waits for, if that is what it is for."""

    sid: bytes
    asked: str

    @property
    def subject(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def wire_subject(self) -> bytes: ...
    @property
    def wire_queue(self) -> bytes: ...
    @property
    def max_msgs(self) -> int | None: ...
    @property
    def received_before(self) -> int: ...
    @property
    def received(self) -> int: ...
    @property
    def is_full(self) -> bool: ...
    def deliver(self, frames: Sequence[Delivered]) -> int: ...
    def refuse(self, error: Error) -> None: ...
    def renew(self) -> None: ...
    def end(self, error: Error, *, discard: bool = ..., quiet: bool = ...) -> None: ...


class Registry:
    """Sids count from 1 and are never used again (client-behaviour of all official clients)."""

    def __init__(self) -> None:
        self._sids = count(1)
        self._listeners: dict[bytes, Listener] = {}
        self.get = self._listeners.get

    def add(self, listener: Listener) -> bytes:
        """Takes it in; returns its sid."""
        sid = b"%d" % next(self._sids)
        listener.sid = sid
        self._listeners[sid] = listener
        return sid

    def remove(self, sid: bytes) -> Listener | None:
        """Forgets it; None if somebody did so before."""
        return self._listeners.pop(sid, None)

    def all(self) -> list[tuple[bytes, Listener]]:
        """All at this moment."""
        return list(self._listeners.copy().items())

    def subscriptions(self) -> list[Subscription]:
        """Those of users."""
        return [sub for _, sub in self.all() if isinstance(sub, Subscription)]

    def wire(self) -> bytes:
        """What tells a new connection of all interest, limits included."""
        parts = []
        for sid, listener in self.all():
            listener.renew()
            parts.append(subscribe(sid, listener))
        return b"".join(parts)

    def deny(self, error: PermissionsViolationError) -> None:
        """Tells those whose subscription, or request, was refused; the server says no more than subject and
        queue."""
        for _, listener in self.all():
            if error.operation == "publish":
                concerned = listener.asked == error.subject
            else:
                concerned = (listener.subject, listener.queue) == (error.subject, error.queue)
            if concerned:
                listener.refuse(error)

    def lose(self, error: Error) -> None:
        """The connection is lost: ends those who wait for replies to a request, which cannot come."""
        for sid, listener in self.all():
            if listener.asked:
                listener.end(error)
                self.remove(sid)


def subscribe(sid: bytes, listener: Listener) -> Interest:
    """SUB, and the limit if there is one."""
    wire = encode(Sub(listener.wire_subject, sid, listener.wire_queue))
    return Interest(wire + limit(sid, listener))


def limit(sid: bytes, listener: Listener) -> Interest:
    """UNSUB with what may still come, if that is limited: the server counts from its SUB, and that is of
    this connection."""
    if listener.max_msgs is None:
        return Interest()
    return Interest(encode(Unsub(sid, max(1, listener.max_msgs - listener.received_before))))


def unsubscribe(sid: bytes) -> Interest:
    """UNSUB, now."""
    return Interest(encode(Unsub(sid)))
