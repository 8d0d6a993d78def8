"""`Deliveries`: the messages that one connection has received from its queues and not acknowledged
yet.

One subscription receives the messages of all queues, so that one thread can wait for all of them.
No more messages are requested than kombu's consumers may take. The server delivers a message again
that is not acknowledged within `visibility_timeout`; a thread therefore reports all messages held
here as in progress.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from threading import Event, Lock, Thread
from time import monotonic
from typing import NamedTuple

from ..client import Client
from ..errors import (
    BadSubscriptionError,
    ConnectionClosedError,
    Error,
    NextMsgTimeoutError,
)
from ..jetstream.message import parse_metadata
from ..jetstream.pull_requests import Meaning, PullRequest, read_status
from ..message import Msg
from ..subscription import Subscription
from .naming import CONSUMER
from .queues import Queues

__all__ = ["Deliveries", "Delivery"]

# Seconds until a request expires. A new one follows, in case the server has lost it.
_EXPIRES = 5.0
_PAUSE = 0.5  # seconds until the next request after one that failed
_GRACE = 2.0  # seconds to wait longer for the status that ends a request

_ACK, _NAK, _TERM, _PROGRESS = b"+ACK", b"-NAK", b"+TERM", b"+WPI"


class Delivery(NamedTuple):
    """A message of a queue that is not acknowledged yet."""

    queue: str
    msg: Msg
    redelivered: bool


class _Pull:
    """A request for messages of a queue that is not completely answered."""

    __slots__ = ("queue", "left", "until")

    def __init__(self, queue: str, left: int, until: float) -> None:
        self.queue = queue
        self.left = left
        self.until = until


class _Outage(Exception):
    """Raised in order with the messages: the connection is lost, or back."""

    def __init__(self, is_over: bool) -> None:
        super().__init__(is_over)
        self.is_over = is_over


def _tell_outage(error: Error | None) -> None:
    raise _Outage(error is None)


class Deliveries:
    """The deliveries of one connection.

    One thread calls `receive`, `cancel` and `close`; any thread may request messages and settle
    them.
    """

    def __init__(
        self, client: Client, next_subject: Callable[[str], str], queues: Queues, interval: float
    ) -> None:
        self._client = client
        self._next_subject = next_subject
        self._queues = queues
        self._interval = interval
        self._lock = Lock()  # guards the fields below; not held while waiting for the server
        self._queue_of: dict[str, str] = {}  # by subject
        self._pulls: dict[str, _Pull] = {}  # by the last token of the reply subject
        self._paused: dict[str, float] = {}
        self._gone: set[str] = set()
        self._ready: deque[Delivery] = deque()
        self._held: dict[str, Delivery] = {}  # by reply subject, which identifies the delivery
        self._numbers = count(1)
        self._sub: Subscription | None = None
        self._inbox = ""
        self._ended = Event()
        self._thread: Thread | None = None

    def ask(self, queue: str, wanted: int) -> None:
        """Requests messages of a queue, unless a request for it is open. If the server has reported
        the queue as gone, declares it again first. Any thread may call this."""
        now = monotonic()
        with self._lock:
            if self._ended.is_set() or self._is_asked(queue, now):
                return
            self._open()
            self._queue_of[self._queues.names.subject(queue)] = queue
            token = str(next(self._numbers))
            self._pulls[token] = _Pull(queue, wanted, now + _EXPIRES + _GRACE)
            reply = f"{self._inbox}.{token}"
            is_gone = queue in self._gone
            self._gone.discard(queue)
        try:
            if is_gone:
                self._queues.declare_again(queue)
            request = PullRequest(wanted, _EXPIRES).encode()
            self._client.publish(self._next_subject(queue), request, reply=reply)
        except BaseException:
            with self._lock:
                self._pulls.pop(token, None)
                if is_gone:
                    self._gone.add(queue)
            raise

    def receive(self, timeout: float) -> Delivery | None:
        """Returns the next delivery; None after `timeout` seconds, or earlier if messages may have
        to be requested."""
        with self._lock:
            self._take()
            if self._ready:
                return self._ready.popleft()
            sub = self._sub
        if sub is None:
            self._ended.wait(timeout)
            return None
        try:
            msg = sub.next_msg(timeout)
        except NextMsgTimeoutError:
            return None
        except _Outage as outage:
            with self._lock:
                self._note_outage(outage)
            return None
        with self._lock:
            self._sort(msg)
            return self._ready.popleft() if self._ready else None

    def hold(self, delivery: Delivery) -> None:
        """Takes over a message that did not arrive through `receive`, and keeps it from being
        delivered again."""
        with self._lock:
            self._held[delivery.msg.reply] = delivery
            self._begin()

    def ack(self, delivery: Delivery) -> None:
        """Deletes the message from its queue."""
        self._settle(delivery, _ACK)

    def reject(self, delivery: Delivery) -> None:
        """Deletes a message that nobody wants."""
        self._settle(delivery, _TERM)

    def requeue(self, delivery: Delivery) -> None:
        """Has the message delivered again, to any worker."""
        self._settle(delivery, _NAK)

    def cancel(self, queue: str) -> None:
        """Stops requesting messages of a queue, and returns those to it that have arrived and were
        not received."""
        with self._lock:
            if not any(pull.queue == queue for pull in self._pulls.values()):
                self._give_back(queue)
                return
            sub, self._sub = self._sub, None
            self._pulls.clear()  # all end with their inbox; other queues are requested again
        if sub is not None:
            sub.drain()
            with self._lock:
                self._take(sub)
                self._give_back(queue)

    def close(self) -> None:
        """Returns all unacknowledged messages to their queues, and ends the thread."""
        self._ended.set()
        with self._lock:
            sub, self._sub = self._sub, None
        try:
            if sub is not None:
                sub.drain()
                with self._lock:
                    self._take(sub)
            for delivery in list(self._held.values()):
                self.requeue(delivery)
        except Error:
            pass  # without a connection, the server delivers them again anyway
        if self._thread is not None:
            self._thread.join()

    def _note_outage(self, outage: _Outage) -> None:
        """Records an outage or its end. A restarted server may have lost queues in memory, and
        server 2.9 does not answer requests for messages of a lost queue."""
        self._pulls.clear()
        if outage.is_over:
            self._gone.update(self._queue_of.values())

    def _is_asked(self, queue: str, now: float) -> bool:
        for token, pull in list(self._pulls.items()):
            if pull.until < now:
                del self._pulls[token]
        is_open = any(pull.queue == queue for pull in self._pulls.values())
        return is_open or self._paused.get(queue, 0.0) > now

    def _settle(self, delivery: Delivery, answer: bytes) -> None:
        with self._lock:
            self._held.pop(delivery.msg.reply, None)
        self._client.respond(delivery.msg, answer)

    def _give_back(self, queue: str) -> None:
        for delivery in [each for each in self._ready if each.queue == queue]:
            self._ready.remove(delivery)
            del self._held[delivery.msg.reply]
            self._client.respond(delivery.msg, _NAK)

    def _open(self) -> None:
        if self._sub is None:
            self._inbox = self._client.new_inbox()
            self._sub = self._client.subscribe(
                f"{self._inbox}.*",
                pending_msgs_limit=-1,  # the requests limit what may arrive
                pending_bytes_limit=-1,
                on_outage=_tell_outage,
            )

    def _take(self, sub: Subscription | None = None) -> None:
        """Sorts the messages and statuses that have arrived."""
        sub = sub or self._sub
        while sub is not None:
            try:
                self._sort(sub.next_msg(0))
            except _Outage as outage:
                self._note_outage(outage)
            except (NextMsgTimeoutError, BadSubscriptionError, ConnectionClosedError):
                return  # nothing more; the next waiting call reports an end

    def _sort(self, msg: Msg) -> None:
        queue = self._queue_of.get(msg.subject)
        if queue is None:
            self._note_status(msg)
            return
        again = parse_metadata(msg.reply).num_delivered > 1
        delivery = Delivery(queue, msg, again)
        for token, pull in self._pulls.items():
            if pull.queue == queue:
                pull.left -= 1
                if not pull.left:
                    del self._pulls[token]
                break
        self._held[msg.reply] = delivery
        self._ready.append(delivery)
        self._begin()

    def _note_status(self, msg: Msg) -> None:
        pull = self._pulls.pop(msg.subject.rpartition(".")[2], None)
        status = read_status(msg, "", CONSUMER)
        if pull and status and status.meaning not in (Meaning.END, Meaning.INTERRUPTED):
            self._paused[pull.queue] = monotonic() + _PAUSE
            if status.meaning in (Meaning.UNREACHABLE, Meaning.FATAL):
                self._gone.add(pull.queue)

    def _begin(self) -> None:
        """Starts the thread when the first message arrives."""
        if self._thread is None:
            self._thread = Thread(target=self._keep, name="natsync-kombu-progress", daemon=True)
            self._thread.start()

    def _keep(self) -> None:
        """Reports the held messages to the server as in progress."""
        while not self._ended.wait(self._interval):
            with self._lock:
                self._take()
                held = list(self._held.values())
            for delivery in held:
                try:
                    self._client.respond(delivery.msg, _PROGRESS)
                except Error:
                    break  # no connection; the next round may have one
