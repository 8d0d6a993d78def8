"""`ConsumeContext`: threads that hand the messages of a reader to a function, until they are
stopped.

A message whose handler raises is reported, and stays unacknowledged: the server delivers it again
after `ack_wait`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import NamedTuple, Protocol

from .._checks import check_call, check_count
from .._engine.log import call_or_log
from ..core import Core
from ..errors import (
    ConnectionClosedError,
    DrainTimeoutError,
    Error,
    OptionError,
    fresh,
)
from ..options import DRAIN_TIMEOUT, wait_time
from .infos import ConsumerInfo
from .message import JetStreamMsg
from .reader import OnError
from .reader_errors import MessagesClosedError

__all__ = [
    "ConsumeContext",
    "JetStreamHandler",
    "Reader",
    "Source",
    "check_handler",
    "guarded",
    "source_of",
]

JetStreamHandler = Callable[[JetStreamMsg], object]
"""Called with each message; its result is ignored."""


class Reader(Protocol):
    """The calls that a `ConsumeContext` makes on its reader."""

    def next(self, timeout: float | None = ...) -> JetStreamMsg: ...
    def stop(self) -> int: ...
    def drain(self, timeout: float | None = ...) -> int: ...
    @property
    def expired(self) -> int: ...


class Source(NamedTuple):
    """What a handler gets messages of: `name` is for threads and errors, `subject` and `durable` are for
    instrumentation."""

    name: str
    subject: str
    durable: str = ""


def source_of(info: ConsumerInfo) -> Source:
    """Returns the source of a consumer's messages. `subject` is one of few, unlike those of the messages: its
    filter, or else the stream."""
    stream, config = info.stream_name, info.config
    return Source(f"{stream}.{info.name}", config.filter_subject or stream, config.durable_name)


def check_handler(handler: object, workers: int = 1) -> None:
    """Raises TypeError and OptionError for wrong arguments of `consume`."""
    if handler is None:
        raise TypeError("handler must be callable, not NoneType")
    check_call(handler=handler)
    check_count(workers=workers)
    if workers < 1:
        raise OptionError("workers", "must be at least 1")


def guarded(on_error: OnError | None) -> OnError | None:
    """Returns `on_error` for the threads of `consume`: they log an exception of it, and go on."""
    check_call(on_error=on_error)
    return None if on_error is None else partial(call_or_log, on_error)


class ConsumeContext:
    """The threads that handle messages, until `stop` or `drain`; a `with` block stops them.

    Made by `consume`. They also end when the consumer is deleted or the client closed; `error` is
    then the reason. `Client.close` waits for the handlers, as for those of subscriptions.
    """

    def __init__(
        self,
        core: Core,
        reader: Reader,
        handler: JetStreamHandler,
        source: Source,
        workers: int = 1,
        on_error: OnError | None = None,
    ) -> None:
        self._reader = reader
        self._on_error = on_error or core.report_error
        self._name = source.name
        self._error: Error | None = None
        self._runner = core.runner(source.subject, handler, queue=source.durable, on_error=on_error)
        try:
            self._runner.run(f"consume-{self._name}", reader.next, self._ended, workers)
        except BaseException:  # the system cannot start another thread, or an interrupt
            reader.stop()
            raise

    def _ended(self, error: Error) -> None:
        """Notes why a thread ends, and reports it, once."""
        if isinstance(error, MessagesClosedError) or self._error:
            return
        self._error = error
        if not (isinstance(error, ConnectionClosedError) and not error.reason):
            self._on_error(error)

    @property
    def error(self) -> Error | None:
        """The error that ended it, or None."""
        return self._error

    @property
    def expired(self) -> int:
        """The number of messages that were not handled, because their `ack_wait` had passed while they waited
        here: the server delivers them again."""
        return self._reader.expired

    @property
    def running(self) -> bool:
        """Whether any of the threads is alive."""
        return any(thread.is_alive() for thread in self._runner.threads)

    def stop(self, timeout: float | None = DRAIN_TIMEOUT) -> int:
        """Ends the threads after the messages that are being handled now. Returns the number of
        messages that had arrived and are not handled; they are delivered again after `ack_wait`.

        Raises DrainTimeoutError if handlers run for longer than `timeout` seconds. If a handler
        calls it, it does not wait for that handler.
        """
        seconds = wait_time(timeout)
        left = self._reader.stop()
        self._join(seconds, seconds, left)
        return left

    def drain(self, timeout: float | None = DRAIN_TIMEOUT) -> None:
        """Ends the threads after all messages that the server has sent are handled.

        Raises DrainTimeoutError if that takes longer than `timeout` seconds; the threads are then
        stopped, and the error says how many messages are left.
        """
        seconds = wait_time(timeout)
        until = monotonic() + seconds
        self._reader.drain(seconds)
        if not self._wait(until):
            self._join(0.0, seconds, self._reader.stop())

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until all threads have ended; returns whether they did within `timeout` seconds.
        Raises the error that ended them, unless they ended by `stop` or `drain`."""
        if not self._wait(monotonic() + wait_time(timeout)):
            return False
        if self._error:
            raise fresh(self._error)
        return True

    def _wait(self, until: float) -> bool:
        """Waits for all threads but the calling one; returns whether they ended by the time
        `until`."""
        for thread in self._runner.threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - monotonic()))
                if thread.is_alive():
                    return False
        return True

    def _join(self, patience: float, timeout: float, left: int) -> None:
        """Waits for the handlers; raises DrainTimeoutError of `timeout` if `patience` seconds are
        not enough."""
        if not self._wait(monotonic() + patience):
            me = threading.get_ident()
            busy = sum(ident != me for ident in self._runner.busy.copy())
            raise DrainTimeoutError(timeout, {self._name: left + busy})

    def __enter__(self) -> ConsumeContext:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
