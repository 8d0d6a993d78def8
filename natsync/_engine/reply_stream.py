"""Reply streams: any number of replies on the inbox that all requests of a connection share.

A stream costs no SUB and no UNSUB. It ends with the connection that its requests were sent on, since
replies to them cannot arrive on another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ..errors import BadSubscriptionError, Error, ForkedError, SlowConsumerError
from ..headers import HeadersLike
from ..message import Data, Delivered, Msg, ReceivedMsg, Respond
from ..options import MAX_WAIT, PENDING_BYTES_LIMIT, PENDING_MSGS_LIMIT
from .forks import notice_fork, same_process
from .pending_queue import Overflow, PendingQueue
from .waiter import Drive, StateLock, deadline_after

__all__ = ["ReplyStream", "StreamHost"]


class StreamHost(NamedTuple):
    """The calls that a stream makes on its connection. `send` takes subject, data, reply token and headers;
    `forget` takes the token of a stream that has ended, `wake` wakes the driver.
    """

    send: Callable[[str, Data, bytes, HeadersLike | None], None]
    forget: Callable[[bytes], object]
    respond: Respond
    drive: Drive
    lock: StateLock
    report: Callable[[Error], None]
    wake: Callable[[], None]


class ReplyStream:
    """Replies to the requests that one caller sends on `subject`, in the order in which they arrive.

    Made by `Client.open_replies`. `reply` is the reply subject. If it is `limited`, replies over the pending
    limits of a subscription are dropped, counted in `dropped`, and reported as SlowConsumerError.

    The stream ends with `close`, or with an error that `next` raises after the replies that arrived before:
    ConnectionReconnectingError when the connection is lost, ConnectionClosedError,
    PermissionsViolationError when the server refuses the request.
    """

    def __init__(
        self, subject: str, reply: str, token: bytes, host: StreamHost, limited: bool = True
    ) -> None:
        self.subject = subject
        self.reply = reply
        self._token = token
        self._host = host
        self._limits = (PENDING_MSGS_LIMIT, PENDING_BYTES_LIMIT) if limited else (-1, -1)
        self._replies = self._queue(host.lock)

    @property
    def _pending(self) -> PendingQueue:
        if not same_process[0]:
            notice_fork()
        return self._replies

    def _queue(self, lock: StateLock) -> PendingQueue:
        return PendingQueue(*self._limits, Overflow.DROP_NEW, self._host.drive, lock)

    def request(self, data: Data = b"", *, headers: HeadersLike | None = None) -> None:
        """Publishes `data` to `subject`, with `reply` as the reply subject, any number of times.

        A request made without a connection is sent when there is one again. A request that was not sent
        before the connection was lost is dropped. Raises the errors of `Client.publish`, and ForkedError for
        a stream of the parent process.
        """
        if isinstance(self._pending.end, ForkedError):
            raise ForkedError
        self._host.send(self.subject, data, self._token, headers)

    def next(self, timeout: float | None = None) -> Msg | None:
        """Returns the next reply, or None if there is none within `timeout` seconds; None waits for ever.

        A reply with status 503 and without a payload means that nobody listens on `subject`.
        """
        frame = self._pending.next()
        while frame is None:
            frame = self._pending.take(
                deadline_after(MAX_WAIT if timeout is None else timeout), True
            )
            if timeout is not None:
                break
        return None if frame is None else ReceivedMsg(frame, self._host.respond)

    def __iter__(self) -> Iterator[Msg]:
        """Yields replies until `close`; raises as `next` does."""
        try:
            while msg := self.next():
                yield msg
        except BadSubscriptionError:
            return

    @property
    def dropped(self) -> int:
        """The number of replies that were dropped because nobody took them in time."""
        return self._pending.dropped

    def close(self) -> None:
        """Ends the stream; drops the replies that nobody has taken, and those that are still to come."""
        self._host.forget(self._token)
        self._pending.close(BadSubscriptionError(self.reply), True)
        self._host.wake()

    def __enter__(self) -> ReplyStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def settle(self, frames: Sequence[Delivered]) -> bool:
        """Takes replies in; returns whether the stream has ended. For the reply mux."""
        dropped = self._pending.put(frames)
        if dropped:
            self._host.report(SlowConsumerError(self.reply, dropped))
        return self._pending.end is not None

    def fail(self, error: Error) -> None:
        """Ends the stream for the reason `error`; replies that have arrived stay. For the reply mux."""
        self._pending.close(error, False)

    def abandon(self, lock: StateLock) -> None:
        """Ends the copy in a forked child, where a thread of the parent may have held the old lock."""
        self._replies = self._queue(lock)
        self._replies.close(ForkedError(), True)
