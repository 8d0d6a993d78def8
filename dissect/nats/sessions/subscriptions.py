"""The subscriptions of one endpoint of a client connection, by sid.

A subscription ends by UNSUB, by its last message (the maximum of an UNSUB counts all messages since the SUB),
by an -ERR that refuses it, or with its session. Messages that were in flight when it ended still count. A
message for a sid whose SUB was not captured opens a subscription with an unknown subject. On routes between
1.x servers, both endpoints send SUB.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from natsync.protocol import ProtocolError, Sub, Unsub, check_subscribe, read_violation

from ..schema.records import SubscriptionRecord, text_of
from ..types import Direction
from .quota import EntryQuota

# The number of ended subscriptions that may still receive messages, and for how long each may.
_ENDING = 1024
_ENDING_NS = 10 * 10**9
# An -ERR that refuses a subscription without naming its sid can only mean one of this many latest ones.
_RECENT = 256


@dataclass(slots=True, eq=False)
class Subscription:
    """One subscription or, on connections between servers, one interest. `subject` is empty if unknown."""

    sid: bytes
    subject: bytes = b""
    queue: bytes = b""
    account: bytes = b""
    origin: bytes = b""
    weight: int = 0
    opened_ns: int | None = None
    closed_ns: int | None = None
    close: str | None = None
    max_msgs: int | None = None
    delivered: int = 0
    bytes: int = 0
    _is_valid: bool | None = None

    def end(self, close: str, ts_ns: int) -> None:
        """Ends the subscription for the reason `close`."""
        self.close = close
        self.closed_ns = ts_ns

    @property
    def has_valid_subject(self) -> bool:
        """Whether the subject is valid for a subscription. Cached, because each -ERR checks many."""
        if self._is_valid is None:
            try:
                check_subscribe(self.subject)
                self._is_valid = True
            except ProtocolError:
                self._is_valid = False
        return self._is_valid


class _LatestSubscriptions:
    """The latest subscriptions of an endpoint, one of which an -ERR may refuse. Searches are short, because a
    hostile capture may have an -ERR every 24 bytes."""

    __slots__ = ("_subs", "_by_name", "_passed")

    def __init__(self) -> None:
        self._subs: list[Subscription] = []
        self._by_name: dict[tuple[bytes, bytes], list[Subscription]] = {}
        # This many at the beginning are valid or closed, so `invalid` need not check them again.
        self._passed = 0

    def add(self, sub: Subscription) -> None:
        """Adds the latest subscription; the oldest is forgotten if there are too many."""
        if len(self._subs) == _RECENT:
            oldest = self._subs.pop(0)
            self._passed = max(0, self._passed - 1)
            self._drop(oldest)
        self._subs.append(sub)
        self._by_name.setdefault((sub.subject, sub.queue), []).append(sub)

    def named(self, subject: bytes, queue: bytes) -> Subscription | None:
        """The first open subscription with this subject and queue."""
        found = self._by_name.get((subject, queue), [])
        while found and found[0].close:
            del found[0]
        return found[0] if found else None

    def invalid(self) -> Subscription | None:
        """The first open subscription whose subject is not valid."""
        for sub in self._subs[self._passed :]:
            if not sub.close and not sub.has_valid_subject:
                return sub
            self._passed += 1
        return None

    def silent(self) -> Subscription | None:
        """The last open subscription that has no messages."""
        live = (sub for sub in reversed(self._subs) if not sub.close and not sub.delivered)
        return next(live, None)

    def clear(self) -> None:
        """Forgets all of them."""
        self._subs.clear()
        self._by_name.clear()
        self._passed = 0

    def _drop(self, sub: Subscription) -> None:
        name = sub.subject, sub.queue
        same = self._by_name.get(name)
        if same and same[0] is sub:
            del same[0]
        if not same:
            self._by_name.pop(name, None)


Emit = Callable[[Subscription], None]
OnForgotten = Callable[[int], None]


class Subscriptions:
    """The subscriptions of one endpoint. `emit` is called once for each, when nothing more can change it.
    `opened` is the number of all subscriptions so far. `on_forgotten` is called with the number of
    subscriptions that were dropped because the quota was used up."""

    def __init__(self, quota: EntryQuota, emit: Emit, on_forgotten: OnForgotten) -> None:
        self.by_sid: dict[bytes, Subscription] = {}
        self.opened = 0
        self._quota = quota
        self._emit = emit
        self._on_forgotten = on_forgotten
        # Not deques, because an empty deque takes ten times the memory; both lists stay short.
        self._ending: list[Subscription] = []
        self._recent = _LatestSubscriptions()

    def open(self, frame: Sub, ts_ns: int) -> bool:
        """Adds a SUB. Returns False if its sid is in use: the server keeps the first subscription
        (nats-server: client.go, processSubEx)."""
        known = self.by_sid.get(frame.sid)
        if known:
            if known.close is None:
                if known.opened_ns is None and known.max_msgs is None:
                    # Packets of the two directions were reordered: the first messages came before the SUB.
                    known.subject, known.queue, known.opened_ns = frame.subject, frame.queue, ts_ns
                    self._recent.add(known)
                    return True
                if known.max_msgs is None:
                    return False
                known.end("auto", ts_ns)  # its last messages were not captured
            self._release(known)
        sub = self._add(Subscription(frame.sid, frame.subject, frame.queue, opened_ns=ts_ns))
        self._recent.add(sub)
        return True

    def unsub(self, frame: Unsub, ts_ns: int) -> None:
        """Adds an UNSUB; it has no effect if the sid is not open."""
        sub = self.by_sid.get(frame.sid)
        if sub is None or sub.close:
            return
        if frame.max_msgs and frame.max_msgs > sub.delivered:
            sub.max_msgs = frame.max_msgs
            return
        sub.max_msgs = frame.max_msgs or sub.max_msgs
        self.ended(sub, "auto" if frame.max_msgs else "unsub", ts_ns)

    def deliver(self, sums: Mapping[bytes, Sequence[int]]) -> bool:
        """Adds numbers of messages and bytes by sid; sids are in the order of their first messages. Returns
        False and changes nothing if the order of these messages may matter."""
        by_sid = self.by_sid
        if len(sums) - len(by_sid.keys() & sums.keys()) > self._quota.left:
            return False
        for sid, (count, _) in sums.items():
            sub = by_sid.get(sid)
            if sub and sub.max_msgs and sub.delivered < sub.max_msgs <= sub.delivered + count:
                return False
        for sid, (count, size) in sums.items():
            sub = by_sid.get(sid) or self.unknown(sid)
            sub.delivered += count
            sub.bytes += size
        return True

    def unknown(self, sid: bytes) -> Subscription:
        """Opens a subscription for a message whose sid is not open."""
        return self._add(Subscription(sid))

    def ended(self, sub: Subscription, close: str, ts_ns: int) -> None:
        """Ends a subscription. It may still receive messages that are in flight."""
        sub.end(close, ts_ns)
        ending = self._ending
        ending.append(sub)
        while len(ending) > _ENDING or (ending[0].closed_ns or 0) + _ENDING_NS < ts_ns:
            self._release(ending.pop(0))

    def refuse(self, text: bytes, ts_ns: int) -> None:
        """Adds an -ERR, which may refuse one of the latest subscriptions. Only a permissions violation names
        the subscription."""
        lower = text.lower()
        violation = read_violation(text)
        found: Subscription | None = None
        if violation and violation.sid:
            found = self.by_sid.get(violation.sid)
        elif violation and violation.operation == "subscription":
            found = self._recent.named(violation.subject, violation.queue)
        elif lower == b"invalid subject":
            found = self._recent.invalid()
        elif lower == b"maximum subscriptions exceeded":
            found = self._recent.silent()
        if found and not found.close:
            self.ended(found, "refused", ts_ns)

    def recharge(self) -> None:
        """Charges a new quota for the subscriptions that are stored here."""
        self._quota.charge(len(self.by_sid))

    def finish(self, ts_ns: int | None) -> None:
        """Ends all subscriptions. `ts_ns` is the time when the session ended; None if that was not
        captured."""
        for sub in self.by_sid.values():
            if sub.close is None and ts_ns is not None:
                sub.end("session", ts_ns)
            self._emit(sub)
        self._quota.release(len(self.by_sid))
        self.by_sid.clear()
        self._ending.clear()
        self._recent.clear()
        del self._emit, self._on_forgotten  # bound to the session: a reference cycle

    def _add(self, sub: Subscription) -> Subscription:
        self.opened += 1
        if not self._quota.acquire(1):
            self._forget()
            if not self._quota.acquire(1):
                self._on_forgotten(1)
                self._emit(sub)
                return sub
        self.by_sid[sub.sid] = sub
        return sub

    def _forget(self) -> None:
        """Drops the older half at once, so that searching for the oldest is rare."""
        oldest = list(islice(self.by_sid.values(), (len(self.by_sid) + 1) // 2))
        for sub in oldest:
            self._release(sub)
        if oldest:
            self._on_forgotten(len(oldest))

    def _release(self, sub: Subscription) -> None:
        if self.by_sid.get(sub.sid) is sub:
            del self.by_sid[sub.sid]
            self._quota.release(1)
            self._emit(sub)


def subscription_row(session: str, sender: Direction, sub: Subscription) -> SubscriptionRecord:
    """The row of a subscription in its current state."""
    return SubscriptionRecord(
        session=session,
        sid=text_of(sub.sid) or None,
        subject=text_of(sub.subject) or None,
        queue=text_of(sub.queue) or None,
        account=text_of(sub.account) or None,
        opened_ns=sub.opened_ns,
        closed_ns=sub.closed_ns,
        close=sub.close,
        max_msgs=sub.max_msgs,
        delivered=sub.delivered,
        delivered_bytes=sub.bytes,
        sender=sender.value,
        origin=text_of(sub.origin) or None,
        weight=sub.weight or None,
    )
