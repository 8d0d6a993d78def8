"""`Supply`: what a reader of a consumer does next. No I/O, no clock, no threads.

A reader tells its supply what arrives, and that nothing does; the supply answers with the `Effect`, and with
the next pull request when it is due. Lost connections, changes of leader and server shutdowns void all
requests (ADR-37, nats.go `jetstream/pull.go`); requests that fail at once are repeated with growing pauses.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ..errors import Error
from .pull_requests import Meaning, OpenPulls, Pin, PullPlan, PullRequest, PullStatus
from .reader_errors import NoHeartbeatError

__all__ = ["ALARM", "GO_ON", "LOOK", "NEVER", "Backoff", "Effect", "Supply", "Then", "is_soon"]

LOOK = 0.25  # seconds between checks for a connection
ALARM = 2  # intervals without a heartbeat that raise the alarm (nats.go)
NEVER = float("inf")
_SOON = frozenset({Meaning.END, Meaning.INTERRUPTED, Meaning.PIN_LOST, Meaning.TOO_LARGE})


def is_soon(status: PullStatus) -> bool:
    """Returns whether another request may succeed at once."""
    return status.meaning in _SOON


class Then(Enum):
    """What a reader does after an event."""

    GO_ON = "go on"
    """Sends the next request if it is due."""
    CHECK = "check"
    """Asks the server whether the consumer exists, and ends if not."""
    RESET = "reset"
    """Leaves this consumer for another one."""
    FAIL = "fail"
    """Ends."""


class Effect(NamedTuple):
    """What follows from an event, and its error: to raise with FAIL, otherwise to report. `answer` is the
    subject of a flow control request to answer."""

    then: Then
    error: Error | None = None
    answer: str = ""


GO_ON = Effect(Then.GO_ON)


class Backoff:
    """Pauses between requests that fail: none at first, then 0.25 s doubling up to 10 s."""

    __slots__ = ("failures", "until")

    def __init__(self) -> None:
        self.failures = 0
        self.until = 0.0

    def failed(self, now: float, soon: bool) -> None:
        """Notes a request that failed; with `soon`, the next one may succeed at once."""
        self.failures += 1
        step = self.failures - (2 if soon else 1)
        self.until = now + min(0.25 * 2 ** min(step, 10), 10.0) if step >= 0 else 0.0

    def worked(self) -> None:
        """Notes a sign of life: the next failure is the first one."""
        self.failures = 0
        self.until = 0.0


class Supply:
    """The supply of an endless reader of a pull consumer."""

    def __init__(self, plan: PullPlan, stream: str, consumer: str, pin: Pin, now: float) -> None:
        self.plan = plan
        self.stream = stream
        self.consumer = consumer
        self.pin = pin
        self.open = OpenPulls(plan)
        self.backoff = Backoff()
        self.beat = plan.beat
        """Seconds between signs of life; 0 for none."""
        self.heard_at = now
        """The time of the last sign of life, as far as it was noted: the clock is not read for messages."""
        self.closing = False
        """Whether no more is requested."""

    def status(self, status: PullStatus, now: float) -> Effect:
        """Counts a status, an outage or a message that has expired."""
        self.heard_at = now
        meaning, error = status.meaning, status.error
        self.open.status(status)
        match meaning:
            case Meaning.HEARTBEAT | Meaning.RECONNECTED:
                self.backoff.worked()
                return GO_ON
            case Meaning.EXPIRED | Meaning.AWAY:
                return Effect(Then.GO_ON, error)
            case Meaning.FATAL:
                return Effect(Then.FAIL, error)
            case Meaning.PIN_LOST:
                self.pin.id = ""
        self.backoff.failed(now, is_soon(status))
        match meaning:
            case Meaning.TOO_LARGE if status.pending_bytes == self.plan.max_bytes:
                # Even a request for the full `max_bytes` is too small for the next message.
                return Effect(Then.FAIL, error)
            case Meaning.TOO_LARGE:
                return GO_ON
            case Meaning.UNREACHABLE:
                return Effect(Then.CHECK, error)
        return Effect(Then.GO_ON, error)

    def wake(self, now: float, since: float, connected: bool) -> float:
        """Returns the time to look again if nothing arrives earlier, for a wait that began at the time
        `since`."""
        if self.closing:
            return NEVER
        if not connected:
            return now + LOOK
        if self.open.is_low:
            return self.backoff.until
        return self._alarm_at(since)

    def look(self, now: float, since: float, connected: bool) -> Effect | None:
        """Returns the effect of a silence that has lasted for too long."""
        # Without a connection, nothing can arrive.
        if self.closing or not connected or not self.open.msgs or now < self._alarm_at(since):
            return None
        self.heard_at = now
        self.open.forget()
        self.backoff.until = 0.0
        return self.alarm(now)

    def alarm(self, now: float) -> Effect:
        """Returns the effect of missed heartbeats."""
        silence = ALARM * self.beat
        return Effect(Then.CHECK, NoHeartbeatError(self.stream, self.consumer, silence))

    def _alarm_at(self, since: float) -> float:
        return max(self.heard_at, since) + ALARM * self.beat

    def request(self, now: float, connected: bool) -> PullRequest | None:
        """Returns the next request, which is then open; None if it is not due."""
        if self.closing or not connected or not self.open.is_low or self.backoff.until > now:
            return None  # the end of the pause or of the outage leads here again
        self.backoff.until = 0.0
        if not self.open.msgs:
            self.heard_at = now
        return self.open.ask(self.pin.id if self.plan.group else "")
