"""Publishing without waiting for each acknowledgement: futures, and a limit to how many are not
acknowledged.

A message with an id is published again, until its timeout, when the connection is lost or the stream has
no leader: the stream stores it once. A message without one may have been stored then, so that its future
fails.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from time import monotonic
from typing import TYPE_CHECKING

from .._checks import check_count
from ..errors import Error, NoRespondersError, OptionError, RequestTimeoutError
from ..message import Data, HeadersLike, Msg, is_no_responders
from .api import API, Timeout, wait_time
from .errors import NoStreamResponseError, TooManyStalledMsgsError
from .publishing import (
    ATTEMPT,
    RETRIED_WITH_ID,
    RETRY_WAIT,
    PubAck,
    PublishOptions,
    message_headers,
    read_ack,
)

if TYPE_CHECKING:
    from .._engine.request_window import RequestWindow

__all__ = ["PublishWindow"]

_RETRIED = (NoRespondersError, RequestTimeoutError, *RETRIED_WITH_ID)


class PublishWindow:
    """At most `most` published messages without acknowledgement; a publish waits up to `stall` seconds
    for room. For any number of threads; a forked child begins with an empty one."""

    def __init__(self, api: API, most: int, stall: float | None) -> None:
        check_count(most=most)
        if most < 1:
            raise OptionError("publish_window", "must be at least 1")
        self._api = api
        self._most = most
        self._stall = wait_time(stall)
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._window: RequestWindow[PubAck] | None = None
        self._identified: dict[Future[PubAck], None] = {}  # in single operations, which are atomic
        self._again = _Again()

    def publish(
        self,
        subject: str,
        data: Data,
        headers: HeadersLike | None,
        timeout: Timeout,
        options: PublishOptions,
    ) -> Future[PubAck]:
        """Publishes, and returns the future of the acknowledgement: see `JetStream.publish_async`."""
        if self._process != os.getpid():
            self._begin()
        window = self._window
        if window is None:
            window = self._window = self._api.core.open_window(self._most, _read)
        sent = message_headers(self._api, headers, options) if options else headers
        seconds = self._api.seconds(timeout)
        if not window.wait_for_room(self._stall):
            raise TooManyStalledMsgsError(window.in_flight, self._stall)
        if "msg_id" not in options:
            return window.request(subject, data, timeout=seconds, headers=sent)
        publish = _Identified(window, subject, bytes(data), sent, seconds, self._again.add)
        self._identified[publish.future] = None
        publish.future.add_done_callback(lambda future: self._identified.pop(future, None))
        try:
            publish.send()
        except BaseException:
            self._identified.pop(publish.future, None)
            raise
        return publish.future

    @property
    def pending(self) -> int:
        """How many messages have neither an acknowledgement nor an error."""
        return (self._window.in_flight if self._window else 0) + self._again.waiting

    def wait(self, timeout: float) -> bool:
        """Whether every message has an acknowledgement or an error within `timeout` seconds."""
        until = monotonic() + timeout
        if self._window and not self._window.wait(timeout):
            return False
        return not wait(self._identified.copy(), max(0.0, until - monotonic())).not_done


def _read(subject: str, reply: Msg) -> PubAck:
    if not reply.data and is_no_responders(reply):
        raise NoStreamResponseError(subject)
    return read_ack(reply.data, subject)


class _Identified:
    """A message with an id, published until it is acknowledged, refused, or too late."""

    __slots__ = (
        "future",
        "_window",
        "_subject",
        "_data",
        "_headers",
        "_seconds",
        "_until",
        "_again",
        "_patience",
    )

    def __init__(
        self,
        window: RequestWindow[PubAck],
        subject: str,
        data: bytes,
        headers: HeadersLike | None,
        seconds: float,
        again: Callable[[Callable[[], None]], None],
    ) -> None:
        self.future: Future[PubAck] = Future()
        self.future.set_running_or_notify_cancel()  # what is sent cannot be taken back
        self._window = window
        self._subject = subject
        self._data = data
        self._headers = headers
        self._seconds = seconds
        self._until = monotonic() + seconds
        self._again = again
        self._patience = ATTEMPT

    def send(self) -> None:
        """Publishes it; raises what `Client.publish` raises."""
        left = max(0.0, min(self._patience, self._until - monotonic()))
        self._window.request(
            self._subject, self._data, timeout=left, headers=self._headers
        ).add_done_callback(self._ended)

    def _send_again(self) -> None:
        try:
            self.send()
        except Error as error:
            self.future.set_exception(error)

    def _ended(self, attempt: Future[PubAck]) -> None:
        error = attempt.exception()
        if error is None:
            self.future.set_result(attempt.result())
        elif isinstance(error, _RETRIED) and monotonic() + RETRY_WAIT < self._until:
            if isinstance(error, RequestTimeoutError):
                self._patience *= 2
            self._again(self._send_again)
        elif isinstance(error, RequestTimeoutError):
            late = RequestTimeoutError(self._subject, self._seconds, error.outage)
            self.future.set_exception(late)
        else:
            self.future.set_exception(error)


class _Again:
    """What is to be done again a little later, on a thread that lives as long as there is something."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[Callable[[], None]] = []
        self._runs = False

    @property
    def waiting(self) -> int:
        """How many calls wait."""
        return len(self._calls)

    def add(self, call: Callable[[], None]) -> None:
        """Calls it in RETRY_WAIT seconds at the latest, but not at once."""
        with self._lock:
            self._calls.append(call)
            if not self._runs:
                self._runs = True
                threading.Thread(
                    target=self._run, name="natsync-publish-again", daemon=True
                ).start()

    def _run(self) -> None:
        pause = threading.Event()  # never set
        while True:
            pause.wait(RETRY_WAIT)
            with self._lock:
                calls, self._calls = self._calls, []
                if not calls:
                    self._runs = False
                    return
            for call in calls:
                call()
