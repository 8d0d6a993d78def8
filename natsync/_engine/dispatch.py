"""The threads that run code of the program: one or more for each handler, and one for all callbacks.

An exception of a handler or callback is reported or logged; it ends neither the thread nor the connection.
Callbacks, and the program's logging handlers, run one after the other in the order of events; `on_close`
is the last.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING
from weakref import ref

from .._checks import is_kill
from ..errors import Error, HandlerError
from ..message import Handler, Msg
from ..options import Callbacks, HandlerContext
from .log import logger
from .run_queue import RunQueue
from .sink import DrainStage, SubscriptionSink

if TYPE_CHECKING:
    from concurrent.futures import Executor

__all__ = ["Dispatcher"]

Callback = Callable[[], object]


class Dispatcher:
    """Starts, feeds and joins these threads. Any thread may call any method."""

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
        # The threads of handlers, and whether a drain joins them: by the stage in which it does, or NONE.
        self._handling: dict[threading.Thread, DrainStage] = {}
        # The subscriptions that have a handler. Weak: the thread of a handler keeps its own alive.
        self._handled: dict[int, ref[SubscriptionSink]] = {}
        self._running: dict[int, None] = {}  # ids of executor threads; changed by atomic operations
        self._callback_thread = _Serial("callbacks", self._start, lock, keeps=True)
        self._feeder = _Serial("executors", self._start, lock)

    def handle(
        self,
        sub: SubscriptionSink,
        handler: Handler,
        workers: int = 1,
        executor: Executor | None = None,
    ) -> None:
        """Starts `workers` threads that call `handler` with each message of `sub` until `sub` ends. Its
        `has_handler` must be set. One worker handles the messages in order.

        With an `executor`, its threads call `handler` while there are messages, at most `workers` of them
        at a time. The only thread started here is then one that submits to all executors.
        """
        sub.workers = workers
        key, forget = id(sub), self._handled.pop
        self._handled[key] = ref(sub, lambda _: forget(key, None))
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
            except BaseException as error:  # code of the program may raise anything
                if is_kill(error):
                    raise
                self._failed(sub.subject, error)

        if executor:
            feed = self._feeder.post
            runs = RunQueue(sub, call, workers, executor, feed, self.report, self._running)
            sub.arrived = runs.arrived
            runs.arrived()  # for messages that have arrived before
            return
        for _ in range(workers):
            self._start(f"handler-{sub.subject}", partial(sub.handle, call), DrainStage.NONE)

    def _guarded(
        self, subject: str, call: Callable[[Error | None], object]
    ) -> Callable[[Error | None], None]:
        """Returns a function that calls `call` and reports its exceptions."""

        def guarded(outage: Error | None) -> None:
            try:
                call(outage)
            except BaseException as error:  # as above
                self._failed(subject, error)

        return guarded

    def _failed(self, subject: str, cause: BaseException) -> None:
        report = HandlerError(subject)
        report.__cause__ = cause
        self.report(report)

    def report(self, error: Error) -> None:
        """Passes `error` to the error callback; without one, logs it as a warning."""
        on_error = self._callbacks.on_error
        passed = on_error is not None and self.post(partial(on_error, error))
        cause = error if isinstance(error, HandlerError) else None
        self.log("debug" if passed else "warning", "%s", error, cause=cause)

    def log(self, level: str, text: str, *args: object, cause: BaseException | None = None) -> None:
        """Writes to the log on the callback thread. The driver must not write itself: a logging handler of
        the program, or a lock of `logging` whose holder waits for this connection, could block it.
        """
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
        """Calls `on_disconnect`: the connection was lost."""
        if self._callbacks.on_disconnect:
            self.post(partial(self._callbacks.on_disconnect, error))

    def reconnected(self) -> None:
        """Calls `on_reconnect`: there is a connection again."""
        if self._callbacks.on_reconnect:
            self.post(self._callbacks.on_reconnect)

    def discovered(self, servers: list[str]) -> None:
        """Calls `on_discover` with the servers that were discovered."""
        if self._callbacks.on_discover:
            self.post(partial(self._callbacks.on_discover, servers))

    def lame_duck(self) -> None:
        """Calls `on_lame_duck`: the server is about to shut down."""
        if self._callbacks.on_lame_duck:
            self.post(self._callbacks.on_lame_duck)

    def end(self, error: Error | None, *, quiet: bool = False) -> None:
        """Passes `error` to the close callback, unless `quiet`; no callback runs after it."""
        if self._callbacks.on_close and not quiet:
            self.post(partial(self._callbacks.on_close, error))
        self._callback_thread.end()
        self._feeder.end()

    def join(self, until: float) -> bool:
        """Waits for all threads but the calling one. Called after `end`, when every subscription has ended.

        First makes the callbacks for which no thread could be started. Returns whether all threads have
        ended by the time `until`.
        """
        self._callback_thread.make_kept()
        while others := self._others():  # one that ends may have started another
            for thread in others:
                thread.join(max(0.0, until - monotonic()))
                if thread.is_alive():
                    return False
        return True

    def join_handlers(self, until: float) -> None:
        """Waits for the threads of handlers until the time `until`, once every subscription has ended; and
        makes the callbacks for which no thread could be started."""
        for thread in self._handling.copy():
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - monotonic()))
        self._callback_thread.make_kept()

    def _others(self) -> set[threading.Thread]:
        with self._lock:
            return {thread for thread in self._threads.copy() if thread.is_alive()} - {
                threading.current_thread()
            }

    def post(self, call: Callback) -> bool:
        """Runs `call` on the callback thread, after all earlier calls; returns False if that thread has
        ended."""
        return self._callback_thread.post(call)

    def runs_here(self) -> bool:
        """Returns whether the calling thread is one of these, or an executor's that runs a handler."""
        here = threading.current_thread()
        return here in self._threads or here.ident in self._running

    def drain_stage(self) -> DrainStage:
        """Returns the stage in which a drain ends what the program subscribes to on the calling thread."""
        here = threading.current_thread()
        handles = here in self._handling or here.ident in self._running
        return DrainStage.HANDLER if handles else DrainStage.PROGRAM

    def handled(self) -> list[SubscriptionSink]:
        """Returns the subscriptions that have a handler, and perhaps some that have ended."""
        return [sub for found in self._handled.copy().values() if (sub := found())]

    def start(self, what: str, body: Callable[[], None], drained: bool = False) -> threading.Thread:
        """Starts a thread that runs `body`, and returns it. A `drained` thread handles messages, and ends by
        itself after the last message of its subscriptions, once these have ended; `join_drained` waits for
        it."""
        return self._start(what, body, self.drain_stage() if drained else None)

    def join_drained(self, stage: DrainStage, until: float) -> list[str]:
        """Waits for the `drained` threads, on which packages such as `jetstream` handle messages, whose
        messages end up to `stage`; not for the calling thread. Returns the names of those that still run at
        the time `until`."""
        here = threading.current_thread()
        threads = [
            thread
            for thread, ends in self._handling.copy().items()
            if DrainStage.NONE < ends <= stage and thread is not here
        ]
        for thread in threads:
            thread.join(max(0.0, until - monotonic()))
        return [thread.name for thread in threads if thread.is_alive()]

    def _start(
        self, what: str, body: Callable[[], None], handling: DrainStage | None = None
    ) -> threading.Thread:
        def run() -> None:
            try:
                body()
            finally:
                self._handling.pop(thread, None)
                self._threads.discard(thread)

        thread = threading.Thread(target=run, name=f"{self._name}-{what}", daemon=True)
        self._threads.add(thread)  # atomic
        if handling is not None:
            self._handling[thread] = handling
        try:
            thread.start()
        except BaseException as error:
            if thread.ident is None:
                self._handling.pop(thread, None)
                self._threads.discard(thread)
            # Raises the interrupt itself: the wait in `Thread.start` turns it into an error of its lock.
            raise (error.__context__ or error) if isinstance(error, RuntimeError) else error
        return thread


def _log(level: str, text: str, args: tuple[object, ...], cause: BaseException | None) -> None:
    getattr(logger(), level)(text, *args, exc_info=cause)


class _Serial:
    """A thread that makes calls one after the other; the first call starts it. If the thread cannot start and
    `keeps` is set, the calls are kept until it can, or until `make_kept` makes them."""

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
        self._calls: queue.SimpleQueue[Callback | None] | None = None
        self._keeps = keeps
        self._kept: deque[Callback] = deque()
        self._ended = False

    def post(self, call: Callback) -> bool:
        """Makes `call` after all earlier ones. Returns False if it will not be made, because the thread has
        ended or cannot start."""
        with self._lock:
            if self._ended:
                return False
            calls, first = self._calls, False
            if calls is None:
                calls = queue.SimpleQueue()  # gevent may have replaced it since the import
                # Read only now: a signal handler may have interrupted this and posted a call itself.
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
        if "interpreter shutdown" not in str(error):  # since Python 3.12; `join` follows
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
        except BaseException:  # as above; reporting it to a callback could go on for ever
            logger().exception("a callback failed")
