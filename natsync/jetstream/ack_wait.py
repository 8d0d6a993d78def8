"""How long a message may wait in a reader: until its `ack_wait` has passed.

The server delivers a message again that is not acknowledged within the consumer's `ack_wait`, or the
time in `backoff` that its number of deliveries selects (nats-server `server/consumer.go`:
checkPending). A message that has waited here for so long is handled by another worker, too; a reader
therefore does not hand it out, unless the server would not deliver it again.

Messages that arrived together share the time of their arrival.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import NamedTuple

from .._engine.waiter import Event
from ..core import Core
from ..errors import Error, OptionError
from ..message import Delivered, ReceivedMsg, to_text
from ..subscription import Subscription
from .configs import ConsumerConfig
from .message import is_delivery, parse_metadata
from .reader_errors import AckWaitExpiredError, NotJSMessageError

__all__ = ["AckTimes", "AckWatch", "ack_times", "check_keep_alive"]

_NEVER = float("inf")
_MARGIN = 0.5  # seconds for the way of the message and of its acknowledgement, of a long `ack_wait`
_MARGIN_PART = 0.1  # and of a short one
_NOTES = 100  # of times of arrival within `ack_wait`
_BEATS = 3  # progress acknowledgements of a message within its `ack_wait`


class AckTimes(NamedTuple):
    """What a consumer's configuration says of deliveries that are not acknowledged. `waits` are the
    seconds after the first, second ... delivery; the last one also counts for those that follow.
    `is_each`: whether each message needs its own acknowledgement."""

    waits: tuple[float, ...]
    max_deliver: int
    is_each: bool

    @property
    def least(self) -> float:
        """The shortest time that a message has, in seconds."""
        return min(self.waits)

    def patience(self, frame: Delivered) -> float:
        """Returns the seconds that this delivery has; for ever if the server will not deliver the
        message again."""
        try:
            delivered = parse_metadata(to_text(frame.reply)).num_delivered
        except NotJSMessageError:  # from another client, or a status
            return _NEVER
        if 0 < self.max_deliver <= delivered:
            return _NEVER
        return _without_margin(self.waits[min(delivered, len(self.waits)) - 1])


_NO_TIMES = AckTimes((_NEVER,), 0, False)


def _without_margin(wait: float) -> float:
    return wait - min(wait * _MARGIN_PART, _MARGIN)


def ack_times(config: ConsumerConfig) -> AckTimes | None:
    """Returns the times of a consumer; None if nothing is delivered again, or if the configuration is
    not known."""
    waits = tuple(config.backoff) or (config.ack_wait,)
    if config.ack_policy == "none" or min(waits) <= 0:
        return None
    return AckTimes(waits, config.max_deliver, config.ack_policy == "explicit")


def check_keep_alive(keep_alive: object, times: AckTimes | None) -> None:
    """Raises OptionError if messages cannot be kept alive, since their `ack_wait` is not known."""
    if keep_alive and times is None:
        raise OptionError("keep_alive", "needs a consumer whose ack_wait is known")


class _Arrivals:
    """Messages that arrived together: the number of messages up to the last of them, and the time."""

    __slots__ = ("last", "at")

    def __init__(self, last: int, at: float) -> None:
        self.last = last
        self.at = at


class AckWatch:
    """Watches over the messages that wait in a subscription. The reader counts each message and status as
    `taken`, in the order of their arrival, one thread at a time."""

    def __init__(self, times: AckTimes | None, sub: Subscription) -> None:
        self.times = times or _NO_TIMES
        self.expired = 0
        """The number of messages that were not handed out."""
        self.taken = 0
        self.late_at = 0.0 if times else _NEVER
        """No message is late before this time; later, `is_late` has to look."""
        self._sub = sub
        self._least = _without_margin(self.times.least)
        # Added to by the thread that delivers messages; all but the last one are removed by the one that
        # takes them.
        self._arrivals: deque[_Arrivals] = deque()
        self._told = False
        if times:
            sub._when_arrived(self._note)

    def _note(self) -> None:
        """Notes the time; called by the thread that has put messages into the queue."""
        now, last = monotonic(), self._sub._accepted
        if self._arrivals and now < self._arrivals[-1].at + self._least / _NOTES:
            self._arrivals[-1].last = last  # a little late: few notes, however many arrive
        else:
            self._arrivals.append(_Arrivals(last, now))

    def is_late(self, frame: Delivered) -> bool:
        """Returns whether the message that was counted last must not be handed out, and counts it then."""
        now = monotonic()
        if now < self.late_at:
            return False
        arrivals = self._arrivals
        while len(arrivals) > 1 and arrivals[0].last < self.taken:
            arrivals.popleft()
        if not arrivals or arrivals[0].last < self.taken:  # taken before its time was noted
            return False
        at = arrivals[0].at
        self.late_at = at + self._least
        if now < self.late_at:  # those before it were late
            self._told = False
            return False
        if not self.times.is_each or now < at + self.times.patience(frame):
            return False
        self.expired += 1
        return True

    def end(self) -> None:
        """Makes no message late from now on: those that are left are not handed out anyway."""
        self.late_at = _NEVER

    def news(self, stream: str, consumer: str) -> AckWaitExpiredError | None:
        """Returns the error to report for a message that was not handed out; None if the last message that
        was not is of the same episode."""
        told, self._told = self._told, True
        return (
            None if told else AckWaitExpiredError(stream, consumer, self.times.least, self.expired)
        )

    def keep_alive(self, core: Core, consumer: str) -> None:
        """Starts a thread that tells the server of all messages that wait that they are in progress, three
        times within `ack_wait`. It ends when no more will arrive, and none is left."""
        ended = Event()
        self._sub._when_ended(lambda _: ended.set())
        core.start_thread(f"keep-alive-{consumer}", partial(self._keep_alive, core, ended))

    def _keep_alive(self, core: Core, ended: Event) -> None:
        while not self._sub.closed or self._sub.pending_msgs:
            ended.wait(self.times.least / _BEATS)
            if self._sub.closed:  # those that are left still wait for their turn
                ended.clear()
            status = core.status.value
            if status == "closed":
                return
            if status in ("connected", "draining"):
                with suppress(Error):  # the connection has just been lost
                    self._beat(core)

    def _beat(self, core: Core) -> None:
        """Sends a progress acknowledgement for each message that is not late."""
        frames, last = self._sub._waiting()
        now = monotonic()
        number = last - len(frames)  # of the message before the first one
        for arrivals in self._arrivals.copy():
            count = arrivals.last - number
            if count <= 0:
                continue
            due, frames = frames[:count], frames[count:]
            number = arrivals.last
            if now < arrivals.at + self._least:
                for frame in due:
                    if is_delivery(frame.reply):
                        core.respond(ReceivedMsg(frame, core.respond), b"+WPI")
                arrivals.at = now
