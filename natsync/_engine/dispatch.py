"""The threads that run code of the program: one or more for each handler, and one for all callbacks.

Callbacks, and the program's logging handlers, run one after the other in the order of events; `on_close`
is the last. An exception of a callback is logged. What waits for the callback thread is bounded, since events
may come faster than callbacks return:

- `_MOST` reports, log lines and events of the connection; more are counted, and a CallbacksSkippedError says
  how many were not passed on;
- one report for each subscription that drops messages, with the latest count;
- the failures of handlers, as `handlers` says;
- `on_close` of subscriptions and done-callbacks of futures: the program itself has made these objects.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import itemgetter
from time import monotonic
from weakref import ref

from ..errors import CallbacksSkippedError, Error, HandlerError, SlowConsumerError
from ..options import CallbackName, Callbacks
from .log import call_or_log, logger
from .sink import DrainStage, Sink, SubscriptionSink

__all__ = ["Dispatcher", "log_now"]

Callback = Callable[[], object]

_MOST = 1000


class Dispatcher:
    """Starts, feeds and joins these threads. Any thread may call any method."""

    def __init__(
        self,
        name: str,
        callbacks: Callbacks,
        lock: threading.RLock,
    ) -> None:
        self.lock = lock
        self.running: dict[int, None] = {}
        """The ids of the executors' threads that run handlers. Changed by single operations, which are
        atomic."""

        self.observe: Callable[[Error], object] | None = None
        """Called with every error before the error callback, for an instrumentation."""

        self._name = name
        self._callbacks = callbacks
        self._threads: set[threading.Thread] = set()
        # The threads of handlers, and whether a drain joins them: by the stage in which it does, or NONE.
        self._handling: dict[threading.Thread, DrainStage] = {}
        # The subscriptions that have a handler. Weak: the thread of a handler keeps its own alive.
        self._handled: dict[int, ref[SubscriptionSink]] = {}
        self._waiting = self._skipped = 0  # reports, log lines and events; guarded by the lock
        self._slow: dict[Sink, SlowConsumerError] = {}
        self._callback_thread = _Serial("callbacks", self.start, lock, keeps=True)
        self._feeder = _Serial("executors", self.start, lock)
        self.feed = self._feeder.post
        """Makes a call on a thread that may wait for an executor; returns whether it will be made."""

    def report(self, error: Error, level: str = "warning", text: str = "%s") -> None:
        """Passes `error` to the error callback, and to the log, as a warning if there is no callback."""
        if not self._post_event(partial(self.tell, error, level, text)):
            log_now(level, text, error)

    def tell(self, error: Error, level: str = "warning", text: str = "%s") -> None:
        """Does so at once. For the callback thread."""
        on_error = self._callbacks.of("on_error")
        for call in [self.observe, *on_error] if self.observe else on_error:
            call_or_log(call, error)
        log_now("debug" if on_error and level == "warning" else level, text, error)

    def slow_consumer(self, sub: Sink, dropped: int) -> None:
        """Reports that `sub` has dropped so many messages in all."""
        with self.lock:
            waits = sub in self._slow
            self._slow[sub] = SlowConsumerError(sub.subject, dropped)
        if not (waits or self.post(partial(self._tell_slow, sub, self.tell))):
            self._tell_slow(sub, partial(log_now, "warning", "%s"))

    def _tell_slow(self, sub: Sink, tell: Callable[[Error], None]) -> None:
        with self.lock:
            error = self._slow.pop(sub)
        tell(error)

    def log(self, level: str, text: str, *args: object, cause: BaseException | None = None) -> None:
        """Writes to the log on the callback thread. The driver must not write itself: a logging handler of
        the program, or a lock of `logging` whose holder waits for this connection, could block it.
        """
        write = partial(log_now, level, text, *args, cause=cause)
        if not self._post_event(write):
            write()

    def attempt_failed(self, error: Error) -> None:
        """Passes the reason of a failed attempt to connect to the error callback and the log."""
        self.report(error, "info", "not connected: %s")

    def event(self, name: CallbackName, *args: object) -> None:
        """Calls the callbacks of this name."""
        for call in self._callbacks.of(name):
            self._post_event(partial(call, *args))

    def _post_event(self, call: Callback) -> bool:
        """Like `post`, for events that others may cause without limit."""
        if self._callback_thread.ended:
            return False
        with self.lock:
            full = self._waiting == _MOST
            tells = full and not self._skipped
            self._skipped += full
            self._waiting += not full
        if full:
            return not tells or self.post(self._tell_skipped)
        return self.post(partial(self._make_event, call))

    def _make_event(self, call: Callback) -> None:
        with self.lock:
            self._waiting -= 1
        call()

    def _tell_skipped(self) -> None:
        with self.lock:
            skipped, self._skipped = self._skipped, 0
        self.tell(CallbacksSkippedError(skipped))

    def end(self, error: Error | None, *, quiet: bool = False) -> None:
        """Passes `error` to the close callback, unless `quiet`; no callback runs after it."""
        for call in [] if quiet else self._callbacks.of("on_close"):
            self.post(partial(call, error))
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

    def settle(self, until: float) -> bool:
        """Waits until the time `until` for the threads of handlers, once every subscription has ended, and
        for the callbacks so far. Returns whether all have ended."""
        others = [
            thread for thread in self._handling.copy() if thread is not threading.current_thread()
        ]
        for thread in others:
            thread.join(max(0.0, until - monotonic()))
        called = self._callback_thread.settle(until)
        return called and not any(thread.is_alive() for thread in others)

    def _others(self) -> set[threading.Thread]:
        with self.lock:
            return {thread for thread in self._threads.copy() if thread.is_alive()} - {
                threading.current_thread()
            }

    def post(self, call: Callback, after: float = 0.0) -> bool:
        """Runs `call` on the callback thread, after all earlier calls, and not before the time `after` unless
        the thread ends; returns False if that thread has ended."""
        return self._callback_thread.post(call, after)

    def runs_here(self) -> bool:
        """Returns whether the calling thread is one of these, or an executor's that runs a handler."""
        here = threading.current_thread()
        return here in self._threads or here.ident in self.running

    def drain_stage(self) -> DrainStage:
        """Returns the stage in which a drain ends what the program subscribes to on the calling thread."""
        here = threading.current_thread()
        handles = here in self._handling or here.ident in self.running
        return DrainStage.HANDLER if handles else DrainStage.PROGRAM

    def handles(self, sub: SubscriptionSink) -> None:
        """Notes that `sub` has a handler."""
        key, forget = id(sub), self._handled.pop
        self._handled[key] = ref(sub, lambda _: forget(key, None))

    def handled(self) -> list[SubscriptionSink]:
        """Returns the subscriptions that have a handler, and perhaps some that have ended."""
        return [sub for found in self._handled.copy().values() if (sub := found())]

    def join_drained(self, stage: DrainStage, until: float) -> list[str]:
        """Waits for the threads that handle messages which end up to `stage`; not for the calling thread.
        Returns the names of those that still run at the time `until`."""
        here = threading.current_thread()
        threads = [
            thread
            for thread, ends in self._handling.copy().items()
            if DrainStage.NONE < ends <= stage and thread is not here
        ]
        for thread in threads:
            thread.join(max(0.0, until - monotonic()))
        return [thread.name for thread in threads if thread.is_alive()]

    def start(
        self, what: str, body: Callable[[], None], handling: DrainStage | None = None
    ) -> threading.Thread:
        """Starts a thread that runs `body`, and returns it. A thread that handles messages says in which
        stage of a drain these end: it ends by itself then, and `join_drained` waits for it. With NONE, the
        drain waits for the subscription instead."""

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


def log_now(level: str, text: str, *args: object, cause: BaseException | None = None) -> None:
    """Writes to the log, the failure of a handler with its traceback."""
    if args and isinstance(args[0], HandlerError):
        cause = args[0]
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
        self.ended = False
        self._name = name
        self._start = start
        self._lock = lock
        self._calls: queue.SimpleQueue[Callback | None] | None = None
        self._keeps = keeps
        self._kept: deque[Callback] = deque()
        self._later: list[tuple[float, Callback]] = []  # calls that wait for their time

    def post(self, call: Callback, after: float = 0.0) -> bool:
        """Makes `call` after all earlier ones, and not before the time `after`. Returns False if it will not
        be made, because the thread has ended or cannot start."""
        if after > monotonic():
            call = partial(self._later.append, (after, call))
        with self._lock:
            if self.ended:
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
            self.ended = True
            if self._calls:
                self._calls.put(None)

    def settle(self, until: float) -> bool:
        """Waits until the time `until` for the calls so far, also those that wait for their time. Returns
        whether all were made."""
        if self._calls is None:  # there is no thread
            self.make_kept()
            return True
        done = threading.Event()

        def last() -> None:
            self.make_kept()
            done.set()

        return not self.post(last) or done.wait(max(0.0, until - monotonic()))

    def make_kept(self) -> None:
        """Makes the calls that were kept, and those that wait for their time."""
        while self._kept:
            call_or_log(self._kept.popleft())
        while self._later:
            call_or_log(self._later.pop(0)[1])

    def _run(self) -> None:
        self.make_kept()
        while call := self._next():
            call_or_log(call)
        self.make_kept()

    def _next(self) -> Callback | None:
        """Waits for the next call; returns None at the end."""
        assert self._calls
        if not self._later:
            return self._calls.get()
        due = min(self._later, key=itemgetter(0))
        wait = due[0] - monotonic()
        if wait > 0.0:
            with suppress(queue.Empty):
                return self._calls.get(timeout=wait)
        self._later.remove(due)
        return due[1]
