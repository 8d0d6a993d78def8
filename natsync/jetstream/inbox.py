"""`Inbox`: the subscription that brings messages and statuses to one reader of a consumer.

The server delivers a message under the subject it was stored with, so the message does not identify
its pull request: each reader of a pull consumer therefore has its own inbox. A lost connection takes
all pull requests with it; `take` reports this in order with the messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, NoReturn

from .._finalizers import before_exit
from ..core import Core, DrainStage
from ..errors import Error, PermissionsViolationError
from ..message import Delivered, ReceivedMsg
from .ack_wait import AckTimes, AckWatch
from .message import AckNoneMsg, JetStreamMsg
from .pull_requests import Meaning, Pin, PullRequest, PullStatus, may_be_status, read_status

__all__ = ["Inbox", "ConsumerRef"]

_RECONNECTED = PullStatus(Meaning.RECONNECTED)


class ConsumerRef(NamedTuple):
    """The consumer to read. `check(timeout)` raises ConsumerDeletedError if the server says that it
    does not exist. Without a `deliver_subject`, messages are pulled."""

    core: Core
    stream: str
    consumer: str
    next_subject: str
    acks: bool
    check: Callable[[float], None]
    pin: Pin
    ack_times: AckTimes | None
    deliver_subject: str = ""
    deliver_group: str = ""


class _Outage(Exception):
    """Raised in order with the messages: the connection is lost, with an `error`, or back, with
    None."""

    def __init__(self, error: Error | None) -> None:
        self.error = error


def _tell_outage(outage: Error | None) -> NoReturn:
    raise _Outage(outage)


class Inbox:
    """Messages and statuses in the order of their arrival, for one thread at a time. A drain of the
    connection ends it in `stage`."""

    def __init__(
        self,
        source: ConsumerRef,
        stage: DrainStage = DrainStage.CALL,
        keep_alive: bool = False,
    ) -> None:
        self._source = source
        self.core = source.core
        self.respond = source.core.respond
        self.make = JetStreamMsg if source.acks else AckNoneMsg
        """Makes a message of its frame, `respond` and `core`."""

        pushed = source.deliver_subject
        self._sub = source.core.open_inbox(
            pushed or source.core.new_inbox(),
            queue=source.deliver_group,
            limited=bool(pushed),  # otherwise, the requests limit what may arrive
            on_outage=_tell_outage,
            stage=stage,
        )
        self.watch = AckWatch(source.ack_times, self._sub)
        if keep_alive:
            self.watch.keep_alive(source.core, source.consumer)
        self.frames = self._sub._at_hand
        """What has arrived, as far as `take` knows."""
        self._poll, self._gather = self._sub._poll, self._sub._gather
        self.wait = self._sub._wait
        """Waits up to that many seconds for something to take, or for the end."""
        self._away = False
        self._began_away = not self._is_connected()

    def pull(self, request: PullRequest) -> None:
        """Sends a request for messages. Without a connection it is dropped: a buffered request
        would be sent in addition to the one that follows the outage."""
        self._sub._ask(self._source.next_subject, request.encode())

    @property
    def connected(self) -> bool:
        """Whether to send requests now. During an outage they would be dropped."""
        if self._began_away:
            self._began_away = not self._is_connected()
        return not (self._away or self._began_away)

    def _is_connected(self) -> bool:
        return self.core.status.value in ("connected", "draining")

    def take(self) -> Delivered | PullStatus | None:
        """Returns the next message or status, an outage or a refusal of the server; None if there is
        nothing now. All that has arrived after it is then in `frames`. Raises the errors of
        `Subscription.next_msg`."""
        try:
            frame = self.frames.popleft() if self.frames else self._poll()
        except IndexError:  # `end`, on another thread, has taken the last one
            return self.take()
        except _Outage as outage:
            return self._note(outage.error) or self.take()
        except PermissionsViolationError as error:
            return PullStatus(Meaning.FATAL, error)
        if frame is not None:
            self._gather()
        return frame

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

    def read(self, frame: Delivered) -> JetStreamMsg | PullStatus:
        """Returns the status or message in `frame`; EXPIRED for a message whose `ack_wait` has
        passed. To be called once for each of them, in their order."""
        self.watch.taken += 1
        if not frame.payload and may_be_status(frame):
            sent = ReceivedMsg(frame, self.respond)
            status = read_status(sent, self._source.stream, self._source.consumer)
            if status is not None:
                return status
        return self.admit(frame)

    def admit(self, frame: Delivered) -> JetStreamMsg | PullStatus:
        """Returns the message in `frame`, or EXPIRED."""
        msg = self.make(frame, self.respond, self.core)
        if self.watch.is_late(frame):
            error = self.watch.news(self._source.stream, self._source.consumer)
            return PullStatus(Meaning.EXPIRED, error, size=msg.wire_size)
        return msg

    def end(self) -> int:
        """Ends the subscription; returns the number of messages that had arrived and were not
        taken."""
        left = 0
        self.watch.end()
        before = self._sub.dropped
        try:
            while self._sub.pending_msgs:
                frame = self.take()
                if frame is not None and not isinstance(frame, PullStatus):
                    left += isinstance(self.read(frame), JetStreamMsg)
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
        """Ends the subscription and drops pending messages; so does the garbage collector, for an inbox that
        no reader and no consumer has any more."""
        self._sub.unsubscribe()

    @before_exit
    def __del__(self) -> None:
        if hasattr(self, "_sub"):
            self.abandon()

    def refresh(self) -> list[JetStreamMsg | PullStatus]:
        """Prepares the inbox for another request: forgets past outages, and returns messages that
        arrived late, or EXPIRED for one that arrived too long ago."""
        found: list[JetStreamMsg | PullStatus] = []
        while (taken := self.take()) is not None:
            item = taken if isinstance(taken, PullStatus) else self.read(taken)
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
        """The reply subject of requests, or the deliver subject."""
        return self._sub.subject
