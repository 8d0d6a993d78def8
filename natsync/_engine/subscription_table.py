"""The subscriptions of a client, by sid, over all its connections.

Any thread may call any method. Single dictionary operations, which are atomic, replace a lock.
"""

from __future__ import annotations

from itertools import count

from ..errors import ConnectionReconnectingError, Error, PermissionsViolationError
from ..protocol import Sub, Unsub, encode
from .outbound_buffer import SubscriptionOps
from .sink import Sink, SubscriptionSink

__all__ = ["SubscriptionTable", "control_line_bytes", "limit", "subscribe", "unsubscribe"]

_TOO_MANY_TOKENS = ", too many tokens"
_LONG = 256  # bytes of a SUB; no server is configured with a lower limit


class SubscriptionTable:
    """The subscriptions. Sids count from 1 and are never used again, as in all official clients."""

    def __init__(self) -> None:
        self._sids = count(1)
        self._sinks: dict[bytes, Sink] = {}
        self.get = self._sinks.get

    def add(self, sink: Sink) -> bytes:
        """Adds `sink`; returns its sid."""
        sid = b"%d" % next(self._sids)
        sink.sid = sid
        self._sinks[sid] = sink
        return sid

    def remove(self, sid: bytes) -> Sink | None:
        """Removes and returns the subscription with this sid; None if there is none any more."""
        return self._sinks.pop(sid, None)

    def all(self) -> list[tuple[bytes, Sink]]:
        """Returns all current subscriptions, with their sids."""
        return list(self._sinks.copy().items())

    def subscriptions(self) -> list[SubscriptionSink]:
        """Returns the subscriptions of users: all but the reply mux."""
        return [sub for _, sub in self.all() if isinstance(sub, SubscriptionSink)]

    def wire(self) -> bytes:
        """Prepares all subscriptions for a new connection; returns their SUBs, and limits."""
        parts = []
        for sid, sink in self.all():
            sink.resubscribed()
            parts.append(subscribe(sid, sink))
        return b"".join(parts)

    def deny(self, error: PermissionsViolationError, sid: bytes = b"") -> None:
        """Informs the subscriptions that the server has refused. The -ERR names subject and queue; after a
        reload of the configuration also the `sid`, and before 2.12.14 no queue then. It never names a queue
        for a subject with too many tokens."""
        if error.operation == "publish":
            return
        if sid:
            self.refuse(sid, error)
            return
        any_queue = error.text.lower().endswith(_TOO_MANY_TOKENS)
        for each, sink in self.all():
            if sink.subject == error.subject and (any_queue or sink.queue == error.queue):
                self.refuse(each, error)

    def refuse(self, sid: bytes, error: Error) -> None:
        """Informs the subscription with this sid that the server has refused it."""
        sink = self.get(sid)
        if sink is None:
            return
        if sink.has_handler:
            sink.end(error, quiet=False)
            self.remove(sid)
        else:
            sink.refuse(error)

    def remove_longest(self) -> Sink | None:
        """Removes and returns the subscription with the longest SUB; None if no SUB is unusually long."""
        sid, sink = max(
            self.all(), key=lambda each: control_line_bytes(each[1]), default=(b"", None)
        )
        if sink is None or control_line_bytes(sink) < _LONG:
            return None
        return self.remove(sid)

    def disconnected(self, error: ConnectionReconnectingError) -> None:
        """Tells all subscriptions that the connection is lost."""
        for _, sink in self.all():
            sink.disconnected(error)


def control_line_bytes(sink: Sink) -> int:
    """Returns the number of bytes in the SUB of `sink` that servers limit: subject, queue and sid."""
    return len(sink.wire_subject) + len(sink.wire_queue) + len(sink.sid) + 2


def subscribe(sid: bytes, sink: Sink) -> SubscriptionOps:
    """Returns a SUB, followed by the UNSUB of `limit` if there is a limit."""
    wire = encode(Sub(sink.wire_subject, sid, sink.wire_queue))
    return SubscriptionOps(wire + limit(sid, sink))


def limit(sid: bytes, sink: Sink) -> SubscriptionOps:
    """Returns an UNSUB with the number of messages that may still come; nothing without a limit. Messages of
    earlier connections are subtracted, since the server counts from the SUB on this one."""
    if sink.max_msgs is None:
        return SubscriptionOps()
    return SubscriptionOps(encode(Unsub(sid, max(1, sink.max_msgs - sink.received_before))))


def unsubscribe(sid: bytes) -> SubscriptionOps:
    """Returns an UNSUB that takes effect at once."""
    return SubscriptionOps(encode(Unsub(sid)))
