"""The interest of one server on a route, gateway or leafnode connection, per account, subject and queue
group.

RS+ and LS+ open interest or change its weight; RS- and LS- end it. On routes, the cluster of a leafnode
(origin) is part of the key. Servers before 2.10.23 omit it from LS-, or end an LS+ with RS-: then any origin
matches. RS- for interest that was never announced ends nothing: an optimistic gateway uses it to decline
a subject. A- does not change queue groups (gateway.go: processGatewayAccountUnsub).

A message counts for the interest of its receiver that matches the subject. Interest with wildcards is found
by its shape: the positions of `*`, and whether the subject ends with `>`. Real links have few shapes, so no
index is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from natsync.protocol import LMsg, LSub, LUnsub, RHMsg, RMsg, RSub, RUnsub

from .quota import EntryQuota
from .subscriptions import Emit, OnForgotten, Subscription

# Limits on the work for a message: beyond them, messages are not counted for some of the interest. No real
# link comes near these limits.
_SHAPES = 32
_TOKENS = 32
_ORIGINS = 8
_QUEUES = 16

_Key = tuple[bytes, bytes, bytes, bytes]  # account, origin, subject, queue


class Interest:
    """The interest of one endpoint. `emit` is called once for each interest, when it has ended or is
    forgotten. `opened` and `on_forgotten` are as in `Subscriptions`."""

    def __init__(self, quota: EntryQuota, emit: Emit, on_forgotten: OnForgotten) -> None:
        self.opened = 0
        self._quota = quota
        self._emit = emit
        self._on_forgotten = on_forgotten
        self._subs: dict[_Key, Subscription] = {}
        self._origins = [b""]
        self._shapes: dict[tuple[int, ...], None] = {}

    def open(self, frame: RSub | LSub, ts_ns: int) -> None:
        """Opens interest, or updates its weight."""
        origin = frame.origin if isinstance(frame, LSub) else b""
        key = frame.account, origin, frame.subject, frame.queue
        sub = self._subs.get(key)
        if sub is None:
            sub = Subscription(b"", frame.subject, frame.queue, frame.account, origin)
            sub.opened_ns = ts_ns
            self.opened += 1
            if not self._has_room():
                self._on_forgotten(1)
                self._emit(sub)
                return
            self._subs[key] = sub
            self._learn_shape(frame.subject)
            if origin not in self._origins and len(self._origins) < _ORIGINS:
                self._origins.append(origin)
        sub.weight = frame.weight

    def close(self, frame: RUnsub | LUnsub, ts_ns: int) -> None:
        """Ends interest."""
        origin = frame.origin if isinstance(frame, LUnsub) else b""
        for origin in [origin] if origin else self._origins:
            sub = self._subs.pop((frame.account, origin, frame.subject, frame.queue), None)
            if sub:
                sub.end("unsub", ts_ns)
                self._quota.release(1)
                self._emit(sub)
                return

    def deliver(self, frame: RMsg | RHMsg | LMsg, size: int, count: int = 1) -> None:
        """Counts a message from the other endpoint, or `count` equal messages of `size` bytes in total. They
        count for all matching interest without a queue, and for the queue groups that the message names.
        """
        queues = (b"", *frame.queues[:_QUEUES])
        for pattern in self._patterns(frame.subject):
            for origin in self._origins:
                for queue in queues:
                    sub = self._subs.get((frame.account, origin, pattern, queue))
                    if sub:
                        sub.delivered += count
                        sub.bytes += size

    def recharge(self) -> None:
        """Charges a new quota for the interest that is stored here."""
        self._quota.charge(len(self._subs))

    def finish(self, ts_ns: int | None) -> None:
        """Ends all interest. `ts_ns` is when the session ended; None if its end was not captured."""
        for sub in self._subs.values():
            if ts_ns is not None:
                sub.end("session", ts_ns)
            self._emit(sub)
        self._quota.release(len(self._subs))
        self._subs.clear()
        del self._emit, self._on_forgotten  # bound to the session: a reference cycle

    def _learn_shape(self, subject: bytes) -> None:
        if b"*" not in subject and b">" not in subject:
            return
        tokens = subject.split(b".")
        stars = tuple(place for place, token in enumerate(tokens) if token == b"*")
        more = tokens[-1] == b">"
        if (stars or more) and len(tokens) <= _TOKENS and len(self._shapes) < _SHAPES:
            self._shapes[(-len(tokens), *stars) if more else (len(tokens), *stars)] = None

    def _patterns(self, subject: bytes) -> Iterator[bytes]:
        """The subjects, with wildcards of the known shapes, that match `subject`."""
        yield subject
        tokens = subject.split(b".")
        if len(tokens) > _TOKENS:
            return
        for length, *stars in self._shapes:
            if length == len(tokens):
                pattern = tokens.copy()
            elif length < 0 and -length <= len(tokens):
                pattern = [*tokens[: -length - 1], b">"]
            else:
                continue
            for place in stars:
                pattern[place] = b"*"
            found = b".".join(pattern)
            if found != subject:
                yield found

    def _has_room(self) -> bool:
        """Acquires an entry of the quota. If none is left, the older half of this interest is forgotten."""
        if self._quota.acquire(1):
            return True
        oldest = list(islice(self._subs.items(), (len(self._subs) + 1) // 2))
        for key, sub in oldest:
            del self._subs[key]
            self._emit(sub)
        self._quota.release(len(oldest))
        if oldest:
            self._on_forgotten(len(oldest))
        return self._quota.acquire(1)
