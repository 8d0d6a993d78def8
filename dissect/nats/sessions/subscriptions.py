"""What one side of a client connection subscribed to, by sid.

A subscription ends by UNSUB, by its last message (UNSUB with a maximum counts all since the SUB, and what
was delivered already), by an -ERR that refuses it, or with its session. Messages that were on their way
when it ended still count for it. A message for a sid whose SUB was not captured opens one whose subject
is unknown. On 1.x routes both sides subscribe like that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from natsync.protocol import ProtocolError, Sub, Unsub, check_subscribe, read_violation

from ..records import SubscriptionRecord, text_of
from ..types import Direction
from .quota import EntryQuota

# How many that have ended may still get messages, and for how long after.
_ENDING = 1024
_ENDING_NS = 10 * 10**9
# Among how many of the latest a refused one is looked for.
_RECENT = 256


@dataclass(slots=True, eq=False)
class Subscription:
    """One subscription, or, on links between servers, one interest. `subject` is empty where unknown."""

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
        """It ended, and so."""
        self.close = close
        self.closed_ns = ts_ns

    @property
    def has_valid_subject(self) -> bool:
        """Whether one can subscribe to its subject. Found out once: each -ERR asks it of many."""
        if self._is_valid is None:
            try:
                check_subscribe(self.subject)
                self._is_valid = True
            except ProtocolError:
                self._is_valid = False
        return self._is_valid


Emit = Callable[[Subscription], None]
Forgot = Callable[[int], None]


class Subscriptions:
    """Those of one side. `emit` gets each once when nothing more can happen to it. `opened` counts
    them. `forgot` is told how many were given up because there was no room."""

    def __init__(self, budget: EntryQuota, emit: Emit, forgot: Forgot) -> None:
        self.by_sid: dict[bytes, Subscription] = {}
        self.opened = 0
        self._budget = budget
        self._emit = emit
        self._forgot = forgot
        self._ending: deque[Subscription] = deque()
        self._recent: deque[Subscription] = deque(maxlen=_RECENT)

    def open(self, frame: Sub, ts_ns: int) -> bool:
        """A SUB. False if its sid is in use: the server goes on with the first (processSubEx)."""
        known = self.by_sid.get(frame.sid)
        if known:
            if known.close is None:
                if known.opened_ns is None and known.max_msgs is None:
                    # Its first messages came before it: packets of the two directions changed places.
                    known.subject, known.queue, known.opened_ns = frame.subject, frame.queue, ts_ns
                    self._recent.append(known)
                    return True
                if known.max_msgs is None:
                    return False
                known.end("auto", ts_ns)  # its last messages were not captured
            self._release(known)
        sub = self._add(Subscription(frame.sid, frame.subject, frame.queue, opened_ns=ts_ns))
        self._recent.append(sub)
        return True

    def unsub(self, frame: Unsub, ts_ns: int) -> None:
        """An UNSUB; one for a sid that is not open means nothing."""
        sub = self.by_sid.get(frame.sid)
        if sub is None or sub.close:
            return
        if frame.max_msgs and frame.max_msgs > sub.delivered:
            sub.max_msgs = frame.max_msgs
            return
        sub.max_msgs = frame.max_msgs or sub.max_msgs
        self.ended(sub, "auto" if frame.max_msgs else "unsub", ts_ns)

    def deliver(self, sums: Mapping[bytes, Sequence[int]]) -> bool:
        """Messages and their bytes by sid, in the order in which the sids came first. False, and nothing was
        done, where it matters which message came when."""
        by_sid = self.by_sid
        if len(sums) - len(by_sid.keys() & sums.keys()) > self._budget.left:
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
        """A message came for a sid that is not open."""
        return self._add(Subscription(sid))

    def ended(self, sub: Subscription, close: str, ts_ns: int) -> None:
        """A subscription ended; messages may still be on their way."""
        sub.end(close, ts_ns)
        ending = self._ending
        ending.append(sub)
        while len(ending) > _ENDING or (ending[0].closed_ns or 0) + _ENDING_NS < ts_ns:
            self._release(ending.popleft())

    def refuse(self, text: bytes, ts_ns: int) -> None:
        """An -ERR came: perhaps it refuses one of the latest. Only a violation says of which."""
        lower = text.lower()
        violation = read_violation(text)
        found: Subscription | None = None
        if violation and violation.sid:
            found = self.by_sid.get(violation.sid)
        elif violation and violation.operation == "subscription":
            named = violation.subject, violation.queue
            found = self._first(lambda sub: (sub.subject, sub.queue) == named)
        elif lower == b"invalid subject":
            found = self._first(lambda sub: not sub.has_valid_subject)
        elif lower == b"maximum subscriptions exceeded":
            live = (sub for sub in reversed(self._recent) if not sub.close and not sub.delivered)
            found = next(live, None)
        if found and not found.close:
            self.ended(found, "refused", ts_ns)

    def recharge(self) -> None:
        """The budget is another one, which knows nothing of these."""
        self._budget.charge(len(self.by_sid))

    def finish(self, ts_ns: int | None) -> None:
        """Nothing more comes; `ts_ns` is when the session ended, None if it did not."""
        for sub in self.by_sid.values():
            if sub.close is None and ts_ns is not None:
                sub.end("session", ts_ns)
            self._emit(sub)
        self._budget.release(len(self.by_sid))
        self.by_sid.clear()
        self._ending.clear()
        del self._emit, self._forgot  # the session's, which would not be freed at once in a cycle

    def _first(self, fits: Callable[[Subscription], bool]) -> Subscription | None:
        return next((sub for sub in self._recent if not sub.close and fits(sub)), None)

    def _add(self, sub: Subscription) -> Subscription:
        self.opened += 1
        if not self._budget.acquire(1):
            self._forget()
            if not self._budget.acquire(1):
                self._forgot(1)
                self._emit(sub)
                return sub
        self.by_sid[sub.sid] = sub
        return sub

    def _forget(self) -> None:
        """Gives up the older half, so that the search for the oldest is rare."""
        oldest = list(islice(self.by_sid.values(), (len(self.by_sid) + 1) // 2))
        for sub in oldest:
            self._release(sub)
        if oldest:
            self._forgot(len(oldest))

    def _release(self, sub: Subscription) -> None:
        if self.by_sid.get(sub.sid) is sub:
            del self.by_sid[sub.sid]
            self._budget.release(1)
            self._emit(sub)


def subscription_row(session: str, sender: Direction, sub: Subscription) -> SubscriptionRecord:
    """The row of a subscription, as it is now."""
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
