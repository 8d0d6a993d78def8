"""`Deliveries`: what comes out of the queues of one connection, and is not acknowledged yet.

One subscription brings the messages of all queues, so that one thread can wait for all of them. No more is
asked for than the consumers of kombu may have. The server delivers again what nobody acknowledges within
`visibility_timeout`; so a thread says of everything that is here that it is in progress.
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
from ..jetstream.pull import Meaning, PullRequest, read_status
from ..message import Msg
from ..subscription import Subscription
from .naming import CONSUMER
from .queues import Queues

__all__ = ["Deliveries", "Delivery"]

# Seconds of a request. After that a new one is sent, should the server have lost it.
_EXPIRES = 5.0
_PAUSE = 0.5  # seconds until a queue that could not be asked is asked again
_GRACE = 2.0  # seconds that the server's word of the end of a request may take longer

_ACK, _NAK, _TERM, _PROGRESS = b"+ACK", b"-NAK", b"+TERM", b"+WPI"


class Delivery(NamedTuple):
    """A message of a queue, before it is acknowledged."""

    queue: str
    msg: Msg
    redelivered: bool


class _Pull:
    """A request for messages of a queue that the server has not answered in full."""

    __slots__ = ("queue", "left", "until")

    def __init__(self, queue: str, left: int, until: float) -> None:
        self.queue = queue
        self.left = left
        self.until = until


class _Outage(Exception):
    """The connection is lost, or there again."""

    def __init__(self, is_over: bool) -> None:
        super().__init__(is_over)
        self.is_over = is_over


def _tell_outage(error: Error | None) -> None:
    raise _Outage(error is None)


class Deliveries:
    """The deliveries of one connection.

    One thread calls `receive`, `cancel` and `close`; any thread asks for messages and settles them.
    """

    def __init__(
        self, client: Client, next_subject: Callable[[str], str], queues: Queues, interval: float
    ) -> None:
        self._client = client
        self._next_subject = next_subject
        self._queues = queues
        self._interval = interval
        self._lock = Lock()  # guards all below; held for no call that waits for the server
        self._queue_of: dict[str, str] = {}  # by subject
        self._pulls: dict[str, _Pull] = {}  # by the last token of the reply subject
        self._paused: dict[str, float] = {}
        self._gone: set[str] = set()
        self._ready: deque[Delivery] = deque()
        self._held: dict[str, Delivery] = {}  # by reply subject, which names the delivery
        self._numbers = count(1)
        self._sub: Subscription | None = None
        self._inbox = ""
        self._ended = Event()
        self._thread: Thread | None = None

    def ask(self, queue: str, wanted: int) -> None:
        """Asks for messages of a queue, unless a request for some is open. A queue that the server says is
        gone is made again first. From any thread."""
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
        if is_gone:
            self._declare_again(queue, token)
        request = PullRequest(wanted, _EXPIRES).encode()
        self._client.publish(self._next_subject(queue), request, reply=reply)

    def receive(self, timeout: float) -> Delivery | None:
        """The next delivery; None after `timeout` seconds, or earlier when there is something to ask for."""
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
        """Keeps a message that did not come with `receive` from being delivered again."""
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
        """Has the message delivered again, to anybody."""
        self._settle(delivery, _NAK)

    def cancel(self, queue: str) -> None:
        """Asks for no more messages of a queue, and gives back what has come of it."""
        with self._lock:
            if not any(pull.queue == queue for pull in self._pulls.values()):
                self._give_back(queue)
                return
            sub, self._sub = self._sub, None
            self._pulls.clear()  # all go with their inbox: those of other queues are made again
        if sub is not None:
            sub.drain()
            with self._lock:
                self._take(sub)
                self._give_back(queue)

    def close(self) -> None:
        """Gives all messages back that are not acknowledged, and ends the thread."""
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
            pass  # without a connection the server delivers them again by itself
        if self._thread is not None:
            self._thread.join()

    def _declare_again(self, queue: str, token: str) -> None:
        try:
            self._queues.declare_again(queue)
        except BaseException:
            with self._lock:
                self._gone.add(queue)
                self._pulls.pop(token, None)
            raise

    def _note_outage(self, outage: _Outage) -> None:
        """A server that was started again may have lost queues in memory, and 2.9 does not answer requests
        for messages of such."""
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
                pending_msgs_limit=-1,  # what may come is limited by what is asked for
                pending_bytes_limit=-1,
                on_outage=_tell_outage,
            )

    def _take(self, sub: Subscription | None = None) -> None:
        """Sorts what has arrived."""
        sub = sub or self._sub
        while sub is not None:
            try:
                self._sort(sub.next_msg(0))
            except _Outage as outage:
                self._note_outage(outage)
            except (NextMsgTimeoutError, BadSubscriptionError, ConnectionClosedError):
                return  # nothing more, or what ended it is for the next call that waits

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
        """Starts the thread with the first message."""
        if self._thread is None:
            self._thread = Thread(target=self._keep, name="natsync-kombu-progress", daemon=True)
            self._thread.start()

    def _keep(self) -> None:
        """Tells the server that what is here is in progress."""
        while not self._ended.wait(self._interval):
            with self._lock:
                self._take()
                held = list(self._held.values())
            for delivery in held:
                try:
                    self._client.respond(delivery.msg, _PROGRESS)
                except Error:
                    break  # there is no connection: the next round may have one
