"""`Fetch`: a number of messages from a pull consumer, with a single request if nothing goes wrong.

If the connection is lost or the leader changes, the request is void; as long as there is time,
another one is sent for the missing messages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic

from .._checks import check_seconds
from ..errors import ConnectionReconnectingError, Error, OptionError
from .consume_errors import ConsumerDeletedError, NoHeartbeatError
from .message import JetStreamMsg
from .messages import ALARM, LOOK, Backoff, is_soon
from .pull import Meaning, PullRequest, PullStatus, check_group_options
from .pull_inbox import PullInbox, PullSource

__all__ = ["Fetch", "FetchPlan", "MessageBatch"]

_SLACK = 1.0  # seconds to wait longer for the server's end status (nats.go)
_WORTH_BEATS = 9.9  # of a fetch of 10 seconds, a little less is left when it sends its request
_LONGEST = 30.0  # seconds of one request without a limit
_NEVER = float("inf")


class MessageBatch(list[JetStreamMsg]):
    """The messages of one `fetch`, a list. `error` is the error that ended it early, or None."""

    error: Error | None = None


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """What to fetch: `batch` messages, and at most `max_bytes` bytes if that is not 0. `heartbeat`
    is the heartbeat interval in seconds, 0 for none."""

    batch: int
    max_bytes: int = 0
    no_wait: bool = False
    heartbeat: float | None = None
    group: str = ""
    min_pending: int = 0
    min_ack_pending: int = 0
    priority: int = 0

    def __post_init__(self) -> None:
        check_group_options(self.group, self.min_pending, self.min_ack_pending, self.priority)
        if self.heartbeat is not None:
            check_seconds(heartbeat=self.heartbeat)
            if self.heartbeat < 0:
                raise OptionError("heartbeat", "must not be negative")

    def request(self, left: int, size: int, expires: float, pin_id: str) -> PullRequest:
        """Returns a request for the missing messages."""
        beat = self.heartbeat
        if beat is None:  # as nats.go: only if the request lasts long enough
            beat = 5.0 if expires >= _WORTH_BEATS else 0.0
        return PullRequest(
            left,
            0.0 if self.no_wait else max(expires, 0.001),
            0.0 if self.no_wait else min(beat, expires / 2),
            size,
            self.no_wait,
            self.group,
            pin_id,
            self.min_pending,
            self.min_ack_pending,
            self.priority,
        )


@dataclass(slots=True)
class Fetch:
    """One fetch. No other reader uses its inbox meanwhile. `max_expires` is the longest time of a
    request that the consumer allows, 0 for any."""

    source: PullSource
    inbox: PullInbox
    plan: FetchPlan
    until: float
    max_expires: float
    clean: bool = True
    """Whether nothing more can arrive on the inbox after the fetch."""

    _got: MessageBatch = field(default_factory=MessageBatch)
    _size: int = 0
    _expired: int = 0
    _request: PullRequest | None = None
    _received_at: float = 0.0
    _expiring_at: float = _NEVER  # from when on the end of the request is that of its time alone
    _over: bool = False
    _error: Error | None = None
    _backoff: Backoff = field(default_factory=Backoff)

    def run(self) -> MessageBatch:
        """Returns the messages; raises the error that ended the fetch if there are none."""
        for early in self.inbox.refresh():
            if isinstance(early, JetStreamMsg):
                self._take(early)
            elif early.error:
                self.source.core.report_error(early.error)
        most = self.plan.max_bytes or _NEVER
        # A request for what is missing would be one without a limit if no bytes are.
        while not self._over and self._left > 0 and self._size < most:
            now = monotonic()
            if self._request is None and now < self.until and self._backoff.until <= now:
                self._pull(now)
            item = self.inbox.receive(self._wake() - now)
            if item is None:
                self._look(monotonic())
            elif isinstance(item, PullStatus):
                self._react(item)
            else:
                self._received_at = monotonic()
                self._take(item)
                self._take_more()
        return self._finish()

    @property
    def _left(self) -> int:
        return self.plan.batch - len(self._got) - self._expired

    def _take_more(self) -> None:
        """Takes the messages that have arrived, without reading the clock for each."""
        while self._left > 0:
            item = self.inbox.receive(0.0)
            if isinstance(item, JetStreamMsg):
                self._take(item)
            else:
                if item is not None:
                    self._react(item)
                return

    def _pull(self, now: float) -> None:
        if not self.inbox.connected:
            self._error = ConnectionReconnectingError()
            return
        plan = self.plan
        left = self.until - now
        expires = min(left, self.max_expires or (_LONGEST if left == _NEVER else left))
        self._expiring_at = now + expires / 2 if expires < left else _NEVER
        self._request = plan.request(
            self._left,
            plan.max_bytes and plan.max_bytes - self._size,
            expires,
            self.source.pin.id if plan.group else "",
        )
        self._received_at = now
        self.inbox.pull(self._request)

    def _wake(self) -> float:
        """Returns the time of the next check if nothing arrives earlier."""
        if self._request is None:
            pause = self._backoff.until
            return min(self.until, pause if self.inbox.connected else monotonic() + LOOK)
        wake = self.until + _SLACK
        if self.until == _NEVER:
            wake = self._received_at + _LONGEST + _SLACK
        if self._request.heartbeat:
            wake = min(wake, self._received_at + ALARM * self._request.heartbeat)
        return wake

    def _look(self, now: float) -> None:
        """Ends the fetch when its time is over; raises NoHeartbeatError after too long a
        silence."""
        if now >= self.until and (self._request is None or now >= self.until + _SLACK):
            self._over = True
            self.clean = self.clean and self._request is None
            if self._request is not None and not (self._got or self._error):
                self._check()  # a server before 2.10 does not answer for a consumer that is gone
        elif self._request is not None and now >= self._wake():
            self.clean = False
            silence = now - self._received_at
            self._error = NoHeartbeatError(self.source.stream, self.source.consumer, silence)
            self._request = None
            self._check()

    def _take(self, msg: JetStreamMsg) -> None:
        self._error = None
        if self.plan.group:
            self.source.pin.learn(msg)
        if self.plan.max_bytes:
            self._size += msg.wire_size
        self._got.append(msg)

    def _react(self, status: PullStatus) -> None:
        """Acts on a status."""
        now = monotonic()
        self._received_at = now
        if status.meaning is Meaning.HEARTBEAT:
            self._error = None
            return
        if status.meaning is Meaning.EXPIRED:  # as many fewer messages come
            self._expired += 1
            if status.error:
                self.source.core.report_error(status.error)
            return
        self._request = None
        self._error = status.error
        match status.meaning:
            case Meaning.AWAY:
                pass
            case Meaning.RECONNECTED:
                self._backoff.worked()
            case Meaning.END if self._is_to_go_on(now):
                self._backoff.worked()
            case Meaning.TOO_LARGE if self._got:
                self._error = None
                self._over = True
            case Meaning.END | Meaning.TOO_LARGE:
                self._over = True
            case Meaning.FATAL:
                self._over = True
                self.clean = False  # a refusal stays with the inbox
            case _:
                if status.meaning is Meaning.PIN_LOST:
                    self.source.pin.id = ""
                self._backoff.failed(now, is_soon(status))
                if status.meaning is Meaning.UNREACHABLE:
                    self._check()

    def _is_to_go_on(self, now: float) -> bool:
        """Returns whether the request that ended was shorter than the fetch, which is not over."""
        is_enough = bool(self._got) and self.until == _NEVER
        return self._expiring_at <= now < self.until and not (is_enough or self.plan.no_wait)

    def _check(self) -> None:
        try:
            self.source.check(max(0.1, min(5.0, self.until - monotonic())))
        except ConsumerDeletedError as error:
            self._error = error
            self._over = True

    def _finish(self) -> MessageBatch:
        if self.plan.max_bytes and self._request is not None:
            self.clean = False  # the server will report next that the batch is complete
        if self._error and not self._got:
            raise self._error
        self._got.error = self._error
        return self._got
