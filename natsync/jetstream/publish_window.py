"""Publishing without waiting for each acknowledgement: futures, and a limit on unacknowledged
messages.

A message with an id is published again, until its timeout, when the connection is lost or the
stream has no leader: the stream stores it only once. It fails earlier if the server lists no stream
with its subject. After a lost connection a message without an id may already be stored, so its
future fails.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from .._checks import check_count, check_data
from .._engine.forks import notice_fork, same_process, watch
from ..core import Core
from ..errors import (
    ConnectionReconnectingError,
    NoRespondersError,
    OptionError,
    RequestTimeoutError,
)
from ..message import Data, HeadersLike, Msg
from ..options import DEFAULT, wait_time
from .api import API, Timeout
from .errors import NoStreamResponseError, TooManyStalledMsgsError
from .publishing import (
    ATTEMPT,
    EXPECTATIONS,
    RETRIED_WITH_ID,
    RETRIES,
    RETRY_WAIT,
    PubAck,
    PublishOptions,
    lists_none,
    message_headers,
    names_request,
    names_time,
    read_ack,
)

if TYPE_CHECKING:
    from .._engine.futures import WindowFuture
    from .._engine.request_window import RequestWindow

__all__ = ["PublishWindow"]

_QUESTIONS = 64
"""How many messages at a time may be waiting for the answer whether a stream has their subject: the
server drops API requests when too many are pending."""

_RETRIED = (NoRespondersError, RequestTimeoutError, *RETRIED_WITH_ID)


class PublishWindow:
    """Keeps at most `most` published messages unacknowledged; a publish waits up to `stall` seconds
    for room. For any number of threads; a forked child begins with an empty window."""

    def __init__(self, api: API, most: int, stall: float | None) -> None:
        check_count(most=most)
        if most < 1:
            raise OptionError("publish_window", "must be at least 1")
        self._api = api
        self._most = most
        self._stall = wait_time(stall)
        self._begin()
        watch(self, PublishWindow._begin)

    def _begin(self) -> None:
        """Begins with an empty window; also called in a forked child."""
        self._plain: RequestWindow[PubAck] | None = None
        self._kept: RequestWindow[PubAck] | None = None
        self._attempts: RequestWindow[PubAck] | None = None
        self._early: dict[Future[PubAck], Exception] = {}
        """The errors of futures that failed before `publish` attached their messages. Accessed in
        single operations, which are atomic."""
        self._rescued: dict[Future[PubAck], None] = {}
        self._asking: dict[Future[PubAck], None] = {}
        self._again = _Again(self._api.core)

    def publish(
        self,
        subject: str,
        data: Data,
        headers: HeadersLike | None,
        timeout: Timeout,
        options: PublishOptions,
        attempts: int | None = None,
        wait: float = RETRY_WAIT,
    ) -> Future[PubAck]:
        """Publishes, and returns the future of the acknowledgement: see `JetStream.publish_async`."""
        if not same_process[0]:
            notice_fork()
        api = self._api
        seconds = api.timeout if timeout is DEFAULT else api.seconds(timeout)
        if options:
            headers = message_headers("publish_async", api, headers, options)
        if attempts or "msg_id" in options:
            message = _Kept(subject, data, headers, seconds, "msg_id" in options, attempts, wait)
            return self._publish_kept(message)
        window = self._plain or self._open_plain()
        if len(window.futures) >= self._most:
            self._wait_for_room(window)
        return window.ask(subject, data, headers, seconds)

    def _publish_kept(self, message: _Kept) -> Future[PubAck]:
        window = self._kept or self._open_kept()
        if len(window.futures) >= self._most:
            self._wait_for_room(window)
        data = message.data
        if data.__class__ is not bytes:
            check_data(data)
            message.data = data = bytes(data)
        message.begin()
        future = window.ask(
            message.subject, data, message.headers, min(message.patience, message.seconds)
        )
        future.kept = message  # type: ignore[attr-defined]  # it is a WindowFuture
        # In this order: `_rescue` stores the error, then reads `kept`, so one of them sees both.
        error = self._early.pop(future, None)
        if error:
            self._keep_or_fail(future, message, error)  # type: ignore[arg-type]  # as above
        return future

    def _open_plain(self) -> RequestWindow[PubAck]:
        self._plain = self._api.core.open_window(self._most, _read)
        return self._plain

    def _open_kept(self) -> RequestWindow[PubAck]:
        self._kept = self._api.core.open_window(self._most, _read, self._rescue)
        return self._kept

    def _wait_for_room(self, window: RequestWindow[PubAck]) -> None:
        if not window.wait_for_room(self._stall):
            raise TooManyStalledMsgsError(window.in_flight, self._stall)

    @property
    def pending(self) -> int:
        """The number of messages that have neither an acknowledgement nor an error."""
        if not same_process[0]:
            notice_fork()
        in_flight = sum(window.in_flight for window in (self._plain, self._kept) if window)
        # A future that has just finished may still be here: it is removed only afterwards.
        return in_flight + sum(not future.done() for future in self._rescued.copy())

    def wait(self, timeout: float) -> bool:
        """Returns whether every message has an acknowledgement or an error within `timeout`
        seconds."""
        if not same_process[0]:
            notice_fork()
        until = monotonic() + timeout
        for window in (self._plain, self._kept):
            if window and not window.wait(max(0.0, until - monotonic())):
                return False
        return not wait(self._rescued.copy(), max(0.0, until - monotonic())).not_done

    def _rescue(self, future: WindowFuture[PubAck], error: Exception) -> bool:
        """Called by the reading thread when a message with an id fails. Returns True if the window
        handles the failure, and may publish the message again."""
        self._early[future] = error
        message = future.kept
        if message is None or self._early.pop(future, None) is None:
            return True  # `publish` handles it
        assert isinstance(message, _Kept)
        return self._keep(future, message, error)

    def _keep(self, future: WindowFuture[PubAck], message: _Kept, error: Exception) -> bool:
        """Schedules another attempt, or finishes the future if no attempt can help. Returns False
        if the caller must let the future fail with `error`."""
        if message.unsure and isinstance(error, EXPECTATIONS):
            self._finish(future, message.unsure)
            return True
        if not message.may_retry(error) or monotonic() + message.wait >= message.until:
            is_late = isinstance(error, RequestTimeoutError)
            if is_late or (message.unsure and isinstance(error, NoRespondersError)):
                outage = error.outage if isinstance(error, RequestTimeoutError) else ""
                late = RequestTimeoutError(message.subject, message.seconds, outage)
                self._finish(future, late)
                return True
            return False
        if isinstance(error, RequestTimeoutError):
            message.patience *= 2
        if isinstance(error, (RequestTimeoutError, ConnectionReconnectingError)):
            message.unsure = error
        message.unheard = message.unheard + 1 if isinstance(error, NoRespondersError) else 0
        self._rescued[future] = None
        try:
            self._again.add(partial(self._try_again, future, message), message.wait)
        except RuntimeError:  # the system cannot start another thread
            self._rescued.pop(future, None)
            return False
        return True

    def _keep_or_fail(self, future: WindowFuture[PubAck], message: _Kept, error: Exception) -> None:
        if not self._keep(future, message, error):
            self._finish(future, error)

    def _finish(self, future: WindowFuture[PubAck], outcome: PubAck | Exception) -> None:
        assert self._kept
        self._kept.finish(future, outcome)
        self._rescued.pop(future, None)

    def _try_again(self, future: WindowFuture[PubAck], message: _Kept) -> None:
        unheard = message.unheard > message.attempts and not message.unsure
        if unheard and len(self._asking) < _QUESTIONS:
            self._ask_for_stream(future, message)
        else:
            self._send_again(future, message)

    def _ask_for_stream(self, future: WindowFuture[PubAck], message: _Kept) -> None:
        """Publishes the message again, unless the server says that no stream has its subject."""

        def answered(answer: Future[Msg]) -> None:
            self._asking.pop(future, None)
            if not answer.exception() and lists_none(answer.result()):
                self._finish(future, NoStreamResponseError(message.subject))
            else:
                self._send_again(future, message)

        call, data = names_request(self._api, message.subject)
        self._asking[future] = None
        try:
            answer = self._api.core.request_async(call, data, timeout=names_time(message.asked))
            answer.add_done_callback(answered)
        except Exception as error:  # also if the system cannot start another thread
            self._asking.pop(future, None)
            self._finish(future, error)

    def _send_again(self, future: WindowFuture[PubAck], message: _Kept) -> None:
        def ended(attempt: Future[PubAck]) -> None:
            error = attempt.exception()
            if error is None:
                self._finish(future, attempt.result())
            else:
                assert isinstance(error, Exception)
                self._keep_or_fail(future, message, error)

        message.asked = monotonic()
        left = max(0.0, min(message.patience, message.until - message.asked))
        try:
            # In a window of its own: `_rescued` counts the message already.
            self._attempts = self._attempts or self._api.core.open_window(self._most, _read)
            attempt = self._attempts.request(
                message.subject, message.data, timeout=left, headers=message.headers
            )
            attempt.add_done_callback(ended)
        except Exception as error:  # as above
            self._finish(future, error)


def _read(subject: str, payload: bytes | None) -> PubAck:
    if payload is None:
        raise NoStreamResponseError(subject)
    return read_ack(payload, subject)


class _Kept:
    """A message to be published until it is acknowledged or refused, or its timeout is over. Without
    an id, it is published again only if no stream has its subject, and `attempts` times."""

    __slots__ = (
        "subject",
        "data",
        "headers",
        "seconds",
        "has_id",
        "attempts",
        "wait",
        "asked",
        "until",
        "patience",
        "unheard",
        "unsure",
    )

    def __init__(
        self,
        subject: str,
        data: Data,
        headers: HeadersLike | None,
        seconds: float,
        has_id: bool,
        attempts: int | None,
        wait: float,
    ) -> None:
        self.subject = subject
        self.data = data
        self.headers = headers
        self.seconds = seconds
        self.has_id = has_id
        self.attempts = RETRIES if attempts is None else attempts
        self.wait = wait
        self.patience = ATTEMPT if has_id else seconds
        self.unheard = 0
        self.unsure: Exception | None = (
            None  # the error of an attempt that may have stored the message
        )

    def begin(self) -> None:
        """Starts the time of the message, now that there is room for it."""
        self.asked = monotonic()
        self.until = self.asked + self.seconds

    def may_retry(self, error: Exception) -> bool:
        """Returns whether the message may be published again after `error`."""
        if self.has_id:
            return isinstance(error, _RETRIED)
        return isinstance(error, NoRespondersError) and self.unheard < self.attempts


class _Again:
    """Runs retries a little later, on a thread that lives as long as there are any."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._lock = threading.RLock()  # a signal handler may publish, too
        self._calls: list[tuple[float, Callable[[], None]]] = []  # each with its time
        self._runs = False

    def add(self, call: Callable[[], None], wait: float) -> None:
        """Calls `call` on the thread after about `wait` seconds. Raises RuntimeError if the system cannot
        start another thread."""
        due = monotonic() + wait, call
        with self._lock:
            self._calls.append(due)
            if not self._runs:
                self._runs = True
                try:
                    self._core.start_thread("publish-again", self._run)
                except RuntimeError:
                    self._runs = False
                    self._calls.remove(due)
                    raise

    def _run(self) -> None:
        pause = threading.Event()  # never set
        while True:
            with self._lock:
                first = min((at for at, _ in self._calls), default=0.0)
            pause.wait(
                max(0.0, min(RETRY_WAIT, first - monotonic()))
            )  # others may come that are due earlier
            now = monotonic()
            with self._lock:
                due = [call for at, call in self._calls if at <= now]
                self._calls = [one for one in self._calls if one[0] > now]
            for call in due:
                call()
            with self._lock:
                if not self._calls:
                    self._runs = False
                    return
