"""What one server of a link wants to get: interest per account, subject and queue group.

RS+ and LS+ open it, or say its new weight; RS- and LS- end it. On routes the cluster of a leafnode
(origin) is part of what interest is; servers that leave it out of LS-, or end an LS+ with RS-, mean any
(before 2.10.23). RS- for what was never announced is no interest that ended: an optimistic gateway says
with it what it does not want. A- leaves queue groups as they are (gateway.go: processGatewayAccountUnsub).

Messages are laid against the interest of the receiver by subject. Interest with wildcards is found by its
shape: where the `*` are, and whether a `>` follows. There are few shapes, so this needs no index.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from natsync.protocol import LMsg, LSub, LUnsub, RHMsg, RMsg, RSub, RUnsub

from .quota import EntryQuota
from .subscriptions import Emit, Forgot, Subscription

# Beyond these a message is not laid against all interest: no real link has as many.
_SHAPES = 32
_TOKENS = 32
_ORIGINS = 8
_QUEUES = 16

_Key = tuple[bytes, bytes, bytes, bytes]  # account, origin, subject, queue


class Interest:
    """That of one side. `emit` gets each once when it is over. `opened` and `forgot` as with
    `Subscriptions`."""

    def __init__(self, budget: EntryQuota, emit: Emit, forgot: Forgot) -> None:
        self.opened = 0
        self._budget = budget
        self._emit = emit
        self._forgot = forgot
        self._subs: dict[_Key, Subscription] = {}
        self._origins = [b""]
        self._shapes: dict[tuple[int, ...], None] = {}

    def open(self, frame: RSub | LSub, ts_ns: int) -> None:
        """Interest, or its new weight."""
        origin = frame.origin if isinstance(frame, LSub) else b""
        key = frame.account, origin, frame.subject, frame.queue
        sub = self._subs.get(key)
        if sub is None:
            sub = Subscription(b"", frame.subject, frame.queue, frame.account, origin)
            sub.opened_ns = ts_ns
            self.opened += 1
            if not self._has_room():
                self._forgot(1)
                self._emit(sub)
                return
            self._subs[key] = sub
            self._learn_shape(frame.subject)
            if origin not in self._origins and len(self._origins) < _ORIGINS:
                self._origins.append(origin)
        sub.weight = frame.weight

    def close(self, frame: RUnsub | LUnsub, ts_ns: int) -> None:
        """Interest ends."""
        origin = frame.origin if isinstance(frame, LUnsub) else b""
        for origin in [origin] if origin else self._origins:
            sub = self._subs.pop((frame.account, origin, frame.subject, frame.queue), None)
            if sub:
                sub.end("unsub", ts_ns)
                self._budget.release(1)
                self._emit(sub)
                return

    def deliver(self, frame: RMsg | RHMsg | LMsg, size: int, count: int = 1) -> None:
        """A message from the other side: for all plain interest, and one member of each queue group that
        it names; or `count` alike, `size` bytes together."""
        queues = (b"", *frame.queues[:_QUEUES])
        for pattern in self._patterns(frame.subject):
            for origin in self._origins:
                for queue in queues:
                    sub = self._subs.get((frame.account, origin, pattern, queue))
                    if sub:
                        sub.delivered += count
                        sub.bytes += size

    def recharge(self) -> None:
        """The budget is another one, which knows nothing of these."""
        self._budget.charge(len(self._subs))

    def finish(self, ts_ns: int | None) -> None:
        """Nothing more comes; `ts_ns` is when the session ended, None if it did not."""
        for sub in self._subs.values():
            if ts_ns is not None:
                sub.end("session", ts_ns)
            self._emit(sub)
        self._budget.release(len(self._subs))
        self._subs.clear()
        del self._emit, self._forgot  # the session's, which would not be freed at once in a cycle

    def _learn_shape(self, subject: bytes) -> None:
        if b"*" not in subject and b">" not in subject:
            return
        tokens = subject.split(b".")
        stars = tuple(place for place, token in enumerate(tokens) if token == b"*")
        more = tokens[-1] == b">"
        if (stars or more) and len(tokens) <= _TOKENS and len(self._shapes) < _SHAPES:
            self._shapes[(-len(tokens), *stars) if more else (len(tokens), *stars)] = None

    def _patterns(self, subject: bytes) -> Iterator[bytes]:
        """What interest in `subject` may look like."""
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
        """Takes a place; where none is left, the older half of this side is given up."""
        if self._budget.acquire(1):
            return True
        oldest = list(islice(self._subs.items(), (len(self._subs) + 1) // 2))
        for key, sub in oldest:
            del self._subs[key]
            self._emit(sub)
        self._budget.release(len(oldest))
        if oldest:
            self._forgot(len(oldest))
        return self._budget.acquire(1)
