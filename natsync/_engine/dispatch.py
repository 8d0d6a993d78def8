"""The threads that run code of the program: one or more for each handler, and one for all callbacks.

An exception of a handler or callback is reported or logged, and ends neither the thread nor the
connection. Callbacks, and the handlers of the program's `logging`, run one after the other in the order of
events; `on_close` is the last.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING

from .._checks import PROGRAM_ERRORS
from ..errors import Error, HandlerError
from ..message import Handler, Msg
from ..options import Callbacks, HandlerContext
from .log import logger
from .run_queue import RunQueue
from .sink import SubscriptionSink

if TYPE_CHECKING:
    from concurrent.futures import Executor

__all__ = ["Dispatcher"]

Callback = Callable[[], object]


class Dispatcher:
    """Starts, feeds and joins these threads. Any thread may call anything."""

    def __init__(
        self,
        name: str,
        callbacks: Callbacks,
        lock: threading.RLock,
        around: HandlerContext | None = None,
    ) -> None:
        self._name = name
        self._callbacks = callbacks
        self._around = around
        self._lock = lock
        self._threads: set[threading.Thread] = set()
        self._drained: set[threading.Thread] = set()  # those that a drain waits for
        self._running: dict[int, None] = {}  # threads of executors, by atomic operations
        self._callback_thread = _Serial("callbacks", self._start, lock, keeps=True)
        self._feeder = _Serial("executors", self._start, lock)

    def handle(
        self,
        sub: SubscriptionSink,
        handler: Handler,
        workers: int = 1,
        executor: Executor | None = None,
    ) -> None:
        """Starts `workers` threads that call `handler` with the messages of `sub`, whose `has_handler` is
        set, until it ends; one thread keeps their order. With an `executor`, its threads do so, at most
        `workers` of them at a time, when there are messages; then only one thread is started here, which
        submits to executors.
        """
        sub.workers = workers
        around = self._around
        if sub.pending.on_outage:
            sub.pending.on_outage = self._guarded(sub.subject, sub.pending.on_outage)

        def call(msg: Msg) -> None:
            try:
                if around is None:
                    handler(msg)
                else:
                    with around(msg):
                        handler(msg)
            except PROGRAM_ERRORS as error:  # the rim: whatever user code raises is reported
                self._failed(sub.subject, error)

        if executor:
            feed = self._feeder.post
            runs = RunQueue(sub, call, workers, executor, feed, self.report, self._running)
            sub.arrived = runs.arrived
            runs.arrived()  # for what has come before
            return
        for _ in range(workers):
            self._start(f"handler-{sub.subject}", partial(sub.handle, call))

    def _guarded(
        self, subject: str, call: Callable[[Error | None], object]
    ) -> Callable[[Error | None], None]:
        """`call`, whose exceptions are reported."""

        def guarded(outage: Error | None) -> None:
            try:
                call(outage)
            except PROGRAM_ERRORS as error:  # the rim, as above
                self._failed(subject, error)

        return guarded

    def _failed(self, subject: str, cause: BaseException) -> None:
        report = HandlerError(subject)
        report.__cause__ = cause
        self.report(report)

    def report(self, error: Error) -> None:
        """Passes `error` to the error callback; without one it is a warning in the log."""
        on_error = self._callbacks.on_error
        passed = on_error is not None and self.post(partial(on_error, error))
        cause = error if isinstance(error, HandlerError) else None
        self.log("debug" if passed else "warning", "%s", error, cause=cause)

    def log(self, level: str, text: str, *args: object, cause: BaseException | None = None) -> None:
        """Writes to the log on the callback thread. The thread that drives must not do so itself: a
        handler of the program, or a lock of `logging` whose holder waits for this connection, would stop
        it."""
        write = partial(_log, level, text, args, cause)
        if not self.post(write):
            write()

    def attempt_failed(self, error: Error) -> None:
        """Passes the reason of a failed attempt to connect to the error callback and the log."""
        on_error = self._callbacks.on_error
        if on_error:
            self.post(partial(on_error, error))
        self.log("info", "not connected: %s", error)

    def disconnected(self, error: Error | None) -> None:
        """Calls back that the connection was lost."""
        if self._callbacks.on_disconnect:
            self.post(partial(self._callbacks.on_disconnect, error))

    def reconnected(self) -> None:
        """Calls back that there is a connection again."""
        if self._callbacks.on_reconnect:
            self.post(self._callbacks.on_reconnect)

    def discovered(self, servers: list[str]) -> None:
        """Calls back which servers were discovered."""
        if self._callbacks.on_discover:
            self.post(partial(self._callbacks.on_discover, servers))

    def lame_duck(self) -> None:
        """Calls back that the server is about to shut down."""
        if self._callbacks.on_lame_duck:
            self.post(self._callbacks.on_lame_duck)

    def end(self, error: Error | None, *, quiet: bool = False) -> None:
        """Passes `error` to the close callback, unless `quiet`; no callback runs after it."""
        if self._callbacks.on_close and not quiet:
            self.post(partial(self._callbacks.on_close, error))
        self._callback_thread.end()
        self._feeder.end()

    def join(self, until: float) -> bool:
        """Waits for all threads but the calling one, once `end` was called and every subscription ended.

        First makes the callbacks that no thread could make. Returns whether all threads ended by the time
        `until`.
        """
        self._callback_thread.make_kept()
        while others := self._others():  # one that ends may have started another
            for thread in others:
                thread.join(max(0.0, until - monotonic()))
                if thread.is_alive():
                    return False
        return True

    def _others(self) -> set[threading.Thread]:
        with self._lock:
            return {thread for thread in self._threads.copy() if thread.is_alive()} - {
                threading.current_thread()
            }

    def post(self, call: Callback) -> bool:
        """Runs `call` on the callback thread, after those before it; returns False if that thread has
        ended."""
        return self._callback_thread.post(call)

    def runs_here(self) -> bool:
        """Returns whether the calling thread is one of these."""
        here = threading.current_thread()
        return here in self._threads or here.ident in self._running

    def start(self, what: str, body: Callable[[], None], drained: bool = False) -> threading.Thread:
        """Runs `body` on a thread of its own, which it returns. If it is `drained`, it ends after the
        last message of subscriptions that have ended, and `join_drained` waits for it."""
        return self._start(what, body, drained)

    def join_drained(self, until: float) -> list[str]:
        """Waits for the threads that handle messages of packages, except the calling one; returns the
        names of those that run at the time `until`."""
        others = self._drained.copy() - {threading.current_thread()}
        for thread in others:
            thread.join(max(0.0, until - monotonic()))
        return [thread.name for thread in others if thread.is_alive()]

    def _start(
        self, what: str, body: Callable[[], None], drained: bool = False
    ) -> threading.Thread:
        def run() -> None:
            try:
                body()
            finally:
                self._drained.discard(thread)
                self._threads.discard(thread)

        thread = threading.Thread(target=run, name=f"{self._name}-{what}", daemon=True)
        self._threads.add(thread)  # atomic
        if drained:
            self._drained.add(thread)
        try:
            thread.start()
        except BaseException as error:
            if thread.ident is None:
                self._drained.discard(thread)
                self._threads.discard(thread)
            # The other one is an interrupt, which the wait in `start` makes an error of its lock.
            raise (error.__context__ or error) if isinstance(error, RuntimeError) else error
        return thread


def _log(level: str, text: str, args: tuple[object, ...], cause: BaseException | None) -> None:
    getattr(logger(), level)(text, *args, exc_info=cause)


class _Serial:
    """A thread that makes calls one after the other; it starts with the first one. Where it cannot start, one
    that `keeps` makes the calls so far when it can, or leaves them to `make_kept`."""

    def __init__(
        self,
        name: str,
        start: Callable[[str, Callable[[], None]], object],
        lock: threading.RLock,
        *,
        keeps: bool = False,
    ) -> None:
        self._name = name
        self._start = start
        self._lock = lock
        self._calls: SimpleQueue[Callback | None] | None = None
        self._keeps = keeps
        self._kept: deque[Callback] = deque()
        self._ended = False

    def post(self, call: Callback) -> bool:
        """Makes `call` after those before it; returns False if it will not, since the thread has ended or
        cannot start."""
        with self._lock:
            if self._ended:
                return False
            calls, first = self._calls, False
            if calls is None:
                calls = SimpleQueue()
                # Not before: a signal handler may interrupt this, and post something itself.
                first = self._calls is None
                self._calls = calls = self._calls or calls
            calls.put(call)
        if first:
            try:
                self._start(self._name, self._run)
            except RuntimeError as error:
                return self._keep(error)
        return True

    def _keep(self, error: RuntimeError) -> bool:
        """Notes that the thread cannot start; returns whether the calls are kept."""
        with self._lock:
            calls, self._calls = self._calls, None  # so that the next call tries again
            while self._keeps and calls and not calls.empty():
                self._kept += filter(None, [calls.get()])
        if "interpreter shutdown" not in str(error):  # since Python 3.12; `join` comes next
            logger().warning("%s cannot run: %s", self._name, error)
        return self._keeps

    def end(self) -> None:
        """Ends the thread after all calls so far."""
        with self._lock:
            self._ended = True
            if self._calls:
                self._calls.put(None)

    def make_kept(self) -> None:
        """Makes the calls that were kept."""
        while self._kept:
            self._make(self._kept.popleft())

    def _run(self) -> None:
        assert self._calls
        self.make_kept()
        while call := self._calls.get():
            self._make(call)

    def _make(self, call: Callback) -> None:
        try:
            call()
        except PROGRAM_ERRORS:  # the rim, as above; reporting it to a callback could go on for ever
            logger().exception("a callback failed")
