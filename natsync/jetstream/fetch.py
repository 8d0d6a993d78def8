"""`Fetch`: a number of messages from a pull consumer, with a single request if nothing goes wrong.

If the connection is lost or the leader changes, the request is void; as long as there is time,
another one is sent for the missing messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic

from .._checks import check_seconds
from ..errors import ConnectionReconnectingError, Error, OptionError
from ..message import Delivered
from .inbox import ConsumerRef, Inbox
from .message import JetStreamMsg
from .pull_requests import Meaning, PullRequest, PullStatus, check_group_options
from .reader import Reader
from .reader_errors import NoHeartbeatError
from .supply import ALARM, GO_ON, LOOK, NEVER, Backoff, Effect, Then, is_soon

__all__ = ["Fetch", "FetchPlan", "FetchSupply", "MessageBatch"]

_SLACK = 1.0  # seconds to wait longer for the server's end status (nats.go)
_BEAT = 5.0  # seconds between heartbeats (nats.go)
_WORTH_BEATS = 9.9  # of a fetch of 10 seconds, a little less is left when it sends its request
_LONGEST = 30.0  # seconds of one request without a limit


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
            beat = _BEAT if expires >= _WORTH_BEATS else 0.0
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


class FetchSupply:
    """The supply of a fetch until the time `until`: a single request at a time. `max_expires` is the longest
    time of a request that the consumer allows, 0 for any. Errors are kept, and none ends it early that
    another request may get over."""

    beat = _BEAT
    closing = False

    def __init__(
        self, plan: FetchPlan, source: ConsumerRef, until: float, max_expires: float
    ) -> None:
        self.error: Error | None = None
        """The last error, unless something has arrived since."""
        self.over = False
        self.clean = True
        """Whether nothing more can arrive on the inbox after the fetch."""
        self.heard_at = 0.0
        self._plan = plan
        self._source = source
        self._until = until
        self._max_expires = max_expires
        self._left = plan.batch
        self._size_left = plan.max_bytes or NEVER
        self._request: PullRequest | None = None
        self._expiring_at = NEVER  # from when on the end of the request is that of its time alone
        self._backoff = Backoff()

    @property
    def got(self) -> bool:
        """Whether any message has arrived."""
        return self._left < self._plan.batch

    def message(self, size: int) -> None:
        """Counts a message that has arrived; `size` is its size as the server counts it."""
        self.error = None
        self._left -= 1
        self._size_left -= size
        # A request for what is missing would be one without a limit if no bytes are.
        self.over = self.over or self._left <= 0 or self._size_left <= 0

    def status(self, status: PullStatus, now: float) -> Effect:
        """Counts a status, an outage or a message that has expired."""
        meaning = status.meaning
        self.heard_at = now
        if meaning is Meaning.EXPIRED:  # as many fewer messages come
            self.message(status.size)
            return Effect(Then.GO_ON, status.error)
        if meaning is Meaning.HEARTBEAT:
            self.error = None
            return GO_ON
        self._request = None
        self.error = status.error
        match meaning:
            case Meaning.AWAY:
                pass
            case Meaning.RECONNECTED:
                self._backoff.worked()
            case Meaning.END if self._is_to_go_on(now):
                self._backoff.worked()
            case Meaning.END | Meaning.TOO_LARGE:
                self.over = True
                if self.got:
                    self.error = None
            case Meaning.FATAL:
                self.over = True
                self.clean = False  # a refusal stays with the inbox
            case _:
                if meaning is Meaning.PIN_LOST:
                    self._source.pin.id = ""
                self._backoff.failed(now, is_soon(status))
                if meaning is Meaning.UNREACHABLE:
                    return Effect(Then.CHECK)
        return GO_ON

    def _is_to_go_on(self, now: float) -> bool:
        """Returns whether the request that ended was shorter than the fetch, which is not over."""
        is_enough = self.got and self._until == NEVER
        return self._expiring_at <= now < self._until and not (is_enough or self._plan.no_wait)

    def request(self, now: float, connected: bool) -> PullRequest | None:
        """Returns the next request, which is then open; None if it is not due."""
        if self.over or self._request or now >= self._until or self._backoff.until > now:
            return None
        if not connected:
            self.error = ConnectionReconnectingError()
            return None
        plan = self._plan
        left = self._until - now
        expires = min(left, self._max_expires or (_LONGEST if left == NEVER else left))
        self._expiring_at = now + expires / 2 if expires < left else NEVER
        size = int(self._size_left) if plan.max_bytes else 0
        pin_id = self._source.pin.id if plan.group else ""
        self._request = plan.request(self._left, size, expires, pin_id)
        self.heard_at = now
        return self._request

    def wake(self, now: float, since: float, connected: bool) -> float:
        """Returns the time of the next check if nothing arrives earlier."""
        if self._request is None:
            return min(self._until, self._backoff.until if connected else now + LOOK)
        wake = self._until + _SLACK
        if self._until == NEVER:
            wake = self.heard_at + _LONGEST + _SLACK
        if self._request.heartbeat:
            wake = min(wake, self.heard_at + ALARM * self._request.heartbeat)
        return wake

    def look(self, now: float, since: float, connected: bool) -> Effect | None:
        """Ends the fetch when its time is over, and the request after too long a silence."""
        if now >= self._until and (self._request is None or now >= self._until + _SLACK):
            self.over = True
            self.clean = self.clean and self._request is None
            if self._request is not None and not (self.got or self.error):
                # A server before 2.10 does not answer for a consumer that is gone.
                return Effect(Then.CHECK)
        elif self._request is not None and now >= self.wake(now, since, connected):
            self.clean = False
            silence = now - self.heard_at
            self.error = NoHeartbeatError(self._source.stream, self._source.consumer, silence)
            self._request = None
            return Effect(Then.CHECK)
        return None

    def end(self) -> Error | None:
        """Returns the error of a fetch that is over."""
        if self._plan.max_bytes and self._request is not None:
            self.clean = False  # the server will report next that the batch is complete
        return self.error


class Fetch(Reader):
    """One fetch. No other reader uses its inbox meanwhile."""

    _supply: FetchSupply

    def __init__(
        self, source: ConsumerRef, inbox: Inbox, plan: FetchPlan, until: float, max_expires: float
    ) -> None:
        supply = FetchSupply(plan, source, until, max_expires)
        super().__init__(source, supply, inbox, source.core.report_error, shared=False)
        self._plan = plan
        self._until = until

    @property
    def clean(self) -> bool:
        """Whether nothing more can arrive on the inbox after the fetch."""
        return self._supply.clean

    def run(self) -> MessageBatch:
        """Returns the messages; raises the error that ended the fetch if there are none."""
        supply = self._supply
        found = MessageBatch()
        item: JetStreamMsg | Effect | None
        for late in self._inbox.refresh():
            if isinstance(late, JetStreamMsg):
                self._count(late)
                found.append(late)
            elif late.error:
                self._on_error(late.error)
        self._ask()
        while not supply.over:
            item = self._take()
            if item is None:
                self._pause(0.0, NEVER)
                item = self._take()
                supply.heard_at = monotonic() if item else supply.heard_at
            if item is None:
                item = self._look(0.0) or GO_ON
            if isinstance(item, Effect):
                self._perform(item, self._until)
            else:
                found.append(item)
        error = supply.end()
        if error and not found:
            raise error
        found.error = error
        return found

    def _read(self, frame: Delivered) -> JetStreamMsg | Effect:
        item = self._inbox.read(frame)
        if isinstance(item, PullStatus):
            return self._supply.status(item, monotonic())
        self._count(item)
        return item

    def _count(self, msg: JetStreamMsg) -> None:
        if self._plan.group:
            self._source.pin.learn(msg)
        self._supply.message(msg.wire_size if self._plan.max_bytes else 0)

    def _fail(self, error: Error) -> None:
        self._supply.error = error
        self._supply.over = True
