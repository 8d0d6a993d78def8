"""`PullInbox`: the subscription that brings messages and statuses to one reader of a pull consumer.

The server delivers a message under the subject it was stored with, so the message does not identify
its request: each reader therefore has its own inbox. A lost connection takes all pull requests with
it; `receive` reports this in order with the messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple, NoReturn

from .._engine.forks import notice_fork, same_process
from ..core import Core, DrainStage
from ..errors import Error, PermissionsViolationError
from ..message import Delivered, Msg, ReceivedMsg, to_text
from .ack_wait import AckTimes, AckWatch
from .message import AckNoneMsg, JetStreamMsg
from .pull import Meaning, PullRequest, PullStatus, may_be_status, read_status

__all__ = ["Outage", "Pin", "PullInbox", "PullSource", "tell_outage"]

_PIN_ID = re.compile(rb"\nNats-Pin-Id: ([^\r\n]+)")
_RECONNECTED = PullStatus(Meaning.RECONNECTED)


class Pin:
    """The pin id of a priority group: the server gives it to the client that gets the messages. All
    readers of one `Consumer` share it."""

    __slots__ = ("id",)

    def __init__(self) -> None:
        self.id = ""

    def learn(self, msg: Msg) -> None:
        """Keeps the id in the headers of a message, if there is one. The server adds it after the
        published headers, which may be invalid, or have an id that was copied."""
        found = _PIN_ID.findall(msg.header_block)
        self.id = to_text(found[-1]) if found else self.id


class PullSource(NamedTuple):
    """The consumer to pull from. `check(timeout)` raises ConsumerDeletedError if the server says
    that it does not exist."""

    core: Core
    stream: str
    consumer: str
    next_subject: str
    acks: bool
    check: Callable[[float], None]
    pin: Pin
    ack_times: AckTimes | None


class Outage(Exception):
    """Raised in order with the messages: the connection is lost, with an `error`, or back, with
    None."""

    def __init__(self, error: Error | None) -> None:
        self.error = error


def tell_outage(outage: Error | None) -> NoReturn:
    raise Outage(outage)


class PullInbox:
    """Messages and statuses in the order of their arrival; any number of threads may take them.

    An inbox that is not `shared` belongs to one thread, which moves everything that has arrived
    into `frames` at once: this is faster, but hides it from other threads. A drain of the
    connection ends the inbox in `stage`.
    """

    def __init__(
        self,
        source: PullSource,
        shared: bool = True,
        stage: DrainStage = DrainStage.CALL,
        keep_alive: bool = False,
    ) -> None:
        self._source = source
        self._core = source.core
        self._respond = source.core.respond
        self._shared = shared
        self._make = JetStreamMsg if source.acks else AckNoneMsg
        # The requests limit what may arrive.
        self._sub = source.core.open_inbox(
            source.core.new_inbox(), limited=False, on_outage=tell_outage, stage=stage
        )
        self.watch = AckWatch(source.ack_times, self._sub)
        if keep_alive:
            self.watch.keep_alive(source.core, source.consumer)
        self.frames = self._sub.at_hand
        self._next_frame = self._sub.next_frame
        self._away = False
        self._began_away = not self._is_connected()

    def pull(self, request: PullRequest) -> None:
        """Sends a request for messages. Without a connection it is dropped: a buffered request
        would be sent in addition to the one that follows the outage."""
        self._sub.ask(self._source.next_subject, request.encode())

    @property
    def connected(self) -> bool:
        """Whether to send requests now. During an outage they would be dropped."""
        if self._began_away:
            self._began_away = not self._is_connected()
        return not (self._away or self._began_away)

    def _is_connected(self) -> bool:
        return self._core.status.value in ("connected", "draining")

    def receive(self, timeout: float) -> JetStreamMsg | PullStatus | None:
        """Returns the next message or status, or None after `timeout` seconds. Raises the errors of
        `Subscription.next_msg`."""
        frame = self.pop() if self.frames else None
        if frame is None:
            try:
                frame = self._next_frame(timeout)
            except Outage as outage:
                return self._note(outage.error) or self.receive(timeout)
            except PermissionsViolationError as error:
                return PullStatus(Meaning.FATAL, error)
            if frame is None:
                return None
            if not self._shared:
                self._sub.gather()
        watch = self.watch
        number = watch.number()
        if frame.payload and number <= watch.last and monotonic() < watch.late_at:
            return self._make(frame, self._respond, self._core)
        return self.read(frame, number)

    def _note(self, outage: Error | None) -> PullStatus | None:
        """Records an outage or its end, and returns its status. Returns None at the end of an
        outage that had begun before this inbox if `connected` has already reported the end, as a
        request may have been sent since."""
        known = not (outage or self._away or self._began_away)
        self._began_away = False
        self._away = outage is not None
        if outage:
            return PullStatus(Meaning.AWAY, outage)
        return None if known else _RECONNECTED

    def read(self, frame: Delivered, number: int) -> JetStreamMsg | PullStatus:
        """Returns the status or message in `frame`; EXPIRED for a message whose `ack_wait` has passed."""
        if not frame.payload and may_be_status(frame):
            sent = ReceivedMsg(frame, self._respond)
            status = read_status(sent, self._source.stream, self._source.consumer)
            if status is not None:
                return status
        msg = self.message(frame)
        if self.watch.is_late(number, frame):
            error = self.watch.news(self._source.stream, self._source.consumer)
            return PullStatus(Meaning.EXPIRED, error, size=msg.wire_size)
        return msg

    def pop(self) -> Delivered | None:
        """Returns the first of `frames`, or None."""
        if not same_process[0]:
            notice_fork()
        try:
            return self.frames.popleft()
        except IndexError:  # `end`, on another thread, has taken the last one
            return None

    def message(self, frame: Delivered) -> JetStreamMsg:
        """Returns the message in `frame`, which is not a status."""
        return self._make(frame, self._respond, self._core)

    def end(self) -> int:
        """Ends the subscription; returns the number of messages that had arrived and were not
        taken."""
        left = 0
        self.watch.end()
        before = self._sub.dropped
        try:
            while self._sub.pending_msgs:
                left += isinstance(self.receive(0.0), JetStreamMsg)
        except Error:  # the subscription had ended, and another thread has taken the last message
            pass
        self._sub.unsubscribe()
        return left + self._sub.dropped - before

    def drain(self, timeout: float | None) -> int:
        """Ends the subscription after everything that the server has sent; returns the number of
        messages and statuses to take."""
        self._sub.drain(timeout)
        return self._sub.pending_msgs

    def abandon(self) -> None:
        """Ends the subscription and drops pending messages."""
        self._sub.unsubscribe()

    def refresh(self) -> list[JetStreamMsg | PullStatus]:
        """Prepares the inbox for another request: forgets past outages, and returns messages that
        arrived late, or EXPIRED for one that arrived too long ago."""
        found: list[JetStreamMsg | PullStatus] = []
        while (item := self.receive(0.0)) is not None:
            if isinstance(item, JetStreamMsg) or item.meaning is Meaning.EXPIRED:
                found.append(item)
            elif item.meaning is Meaning.FATAL:  # a refusal, which stays until the next request
                break
        return found

    @property
    def received(self) -> int:
        """The number of messages and statuses that have arrived."""
        return self._sub.received

    @property
    def closed(self) -> bool:
        """Whether the subscription has ended."""
        return self._sub.closed

    @property
    def subject(self) -> str:
        """The reply subject of requests."""
        return self._sub.subject
