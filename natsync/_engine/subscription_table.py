"""The subscriptions of a client, by sid, over all its connections.

Any thread may call anything. Single dictionary operations, which are atomic, take the place of a lock.
"""

from __future__ import annotations

from itertools import count

from ..errors import ConnectionReconnectingError, Error, PermissionsViolationError
from ..protocol import Sub, Unsub, encode
from .outbound_buffer import SubscriptionOps
from .sink import Sink, SubscriptionSink

__all__ = ["SubscriptionTable", "control_line_bytes", "limit", "subscribe", "unsubscribe"]

_LONG = 256  # bytes of a SUB: no server is configured to take less


class SubscriptionTable:
    """Sids count from 1 and are never used again (client-behaviour of all official clients)."""

    def __init__(self) -> None:
        self._sids = count(1)
        self._sinks: dict[bytes, Sink] = {}
        self.get = self._sinks.get

    def add(self, sink: Sink) -> bytes:
        """Takes it in; returns its sid."""
        sid = b"%d" % next(self._sids)
        sink.sid = sid
        self._sinks[sid] = sink
        return sid

    def remove(self, sid: bytes) -> Sink | None:
        """Forgets it; None if somebody did so before."""
        return self._sinks.pop(sid, None)

    def all(self) -> list[tuple[bytes, Sink]]:
        """All at this moment."""
        return list(self._sinks.copy().items())

    def subscriptions(self) -> list[SubscriptionSink]:
        """Those of users."""
        return [sub for _, sub in self.all() if isinstance(sub, SubscriptionSink)]

    def wire(self) -> bytes:
        """What tells a new connection of all interest, limits included."""
        parts = []
        for sid, sink in self.all():
            sink.resubscribed()
            parts.append(subscribe(sid, sink))
        return b"".join(parts)

    def deny(self, error: PermissionsViolationError) -> None:
        """Tells those whose subscription was refused; the server says no more than subject and queue."""
        if error.operation == "publish":
            return
        for sid, sink in self.all():
            if (sink.subject, sink.queue) == (error.subject, error.queue):
                self.refuse(sid, error)

    def refuse(self, sid: bytes, error: Error) -> None:
        """Tells the one with this sid that its subscription was refused."""
        sink = self.get(sid)
        if sink is None:
            return
        if sink.has_handler:
            sink.end(error, quiet=False)
            self.remove(sid)
        else:
            sink.refuse(error)

    def remove_longest(self) -> Sink | None:
        """Forgets, and returns, the one with the longest SUB; None if all are as short as usual."""
        sid, sink = max(
            self.all(), key=lambda each: control_line_bytes(each[1]), default=(b"", None)
        )
        if sink is None or control_line_bytes(sink) < _LONG:
            return None
        return self.remove(sid)

    def disconnected(self, error: ConnectionReconnectingError) -> None:
        """Tells all that the connection is lost."""
        for _, sink in self.all():
            sink.disconnected(error)


def control_line_bytes(sink: Sink) -> int:
    """Bytes of its SUB that servers limit: subject, queue, sid."""
    return len(sink.wire_subject) + len(sink.wire_queue) + len(sink.sid) + 2


def subscribe(sid: bytes, sink: Sink) -> SubscriptionOps:
    """SUB, and the limit if there is one."""
    wire = encode(Sub(sink.wire_subject, sid, sink.wire_queue))
    return SubscriptionOps(wire + limit(sid, sink))


def limit(sid: bytes, sink: Sink) -> SubscriptionOps:
    """UNSUB with what may still come, if that is limited: the server counts from its SUB, and that is of
    this connection."""
    if sink.max_msgs is None:
        return SubscriptionOps()
    return SubscriptionOps(encode(Unsub(sid, max(1, sink.max_msgs - sink.received_before))))


def unsubscribe(sid: bytes) -> SubscriptionOps:
    """UNSUB, now."""
    return SubscriptionOps(encode(Unsub(sid)))
