"""The threads that run the user's code: one for each handler, one for all callbacks of a connection.

What a handler or callback raises is reported or logged; neither the thread nor the connection ends.
Callbacks run one after the other in the order of their causes, and `on_close` is the last.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING

from ..errors import Error, HandlerError
from ..message import Handler, Msg
from ..options import Callbacks, HandlerContext
from .log import logger
from .sink import SubscriptionSink

if TYPE_CHECKING:
    from concurrent.futures import Executor

__all__ = ["Dispatcher"]

Callback = Callable[[], object]


class Dispatcher:
    """Starts, feeds and joins these threads. Any thread may call anything. One lock, a leaf."""

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
        self._calls: SimpleQueue[Callback | None] | None = None
        self._ended = False

    def handle(
        self,
        sub: SubscriptionSink,
        handler: Handler,
        workers: int = 1,
        executor: Executor | None = None,
    ) -> None:
        """Starts `workers` threads that call `handler` with the messages of `sub` until it ends; one of
        them keeps their order. With an `executor` its threads call the handler, `workers` at a time.
        """
        sub.has_handler = True
        room = threading.BoundedSemaphore(workers)
        around = self._around

        def call(msg: Msg, token: object) -> None:
            try:
                if around is None:
                    handler(msg)
                else:
                    with around(msg):
                        handler(msg)
            except Exception as error:  # the rim: whatever user code raises is reported
                report = HandlerError(sub.subject)
                report.__cause__ = error
                self.report(report)
            finally:
                sub.handled(token)

        def submit(msg: Msg, token: object) -> None:
            room.acquire()
            try:
                task = executor.submit(call, msg, token) if executor else None
            except RuntimeError as error:  # it was shut down
                room.release()
                sub.handled(token)
                report = HandlerError(sub.subject)
                report.__cause__ = error
                self.report(report)
            else:
                if task:
                    task.add_done_callback(lambda _: room.release())

        for _ in range(1 if executor else workers):
            body = partial(sub.handle, submit if executor else call)
            self._start(f"{self._name}-handler-{sub.subject}", body)

    def report(self, error: Error) -> None:
        """Passes `error` to the error callback. A warning in the log is for programs without one."""
        on_error = self._callbacks.on_error
        passed = on_error is not None and self.post(partial(on_error, error))
        log = logger().debug if passed else logger().warning
        log("%s", error, exc_info=error if isinstance(error, HandlerError) else None)

    def attempt_failed(self, error: Error) -> None:
        """Passes on why another attempt to connect has failed: to the error callback, or the log."""
        on_error = self._callbacks.on_error
        if on_error:
            self.post(partial(on_error, error))
        logger().info("not connected: %s", error)

    def disconnected(self, error: Error | None) -> None:
        """Says that the connection was lost."""
        if self._callbacks.on_disconnect:
            self.post(partial(self._callbacks.on_disconnect, error))

    def reconnected(self) -> None:
        """Says that there is a connection again."""
        if self._callbacks.on_reconnect:
            self.post(self._callbacks.on_reconnect)

    def discovered(self, servers: list[str]) -> None:
        """Says which servers the one at hand has told of."""
        if self._callbacks.on_discover:
            self.post(partial(self._callbacks.on_discover, servers))

    def lame_duck(self) -> None:
        """Says that the server is about to go."""
        if self._callbacks.on_lame_duck:
            self.post(self._callbacks.on_lame_duck)

    def end(self, error: Error | None) -> None:
        """Passes `error` to the close callback; no callback runs after it."""
        if self._callbacks.on_close:
            self.post(partial(self._callbacks.on_close, error))
        with self._lock:
            self._ended = True
            if self._calls:
                self._calls.put(None)

    def join(self, until: float) -> bool:
        """Waits for all threads but the calling one, once `end` was called and every subscription ended.

        Returns whether they all did by the time `until`.
        """
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
        """Runs `call` on the callback thread, behind those before it; False where nothing runs any more."""
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
                self._start(f"{self._name}-callbacks", lambda: _run(calls))
            except (
                RuntimeError
            ) as error:  # the interpreter exits, or the system has no more threads
                logger().warning("callbacks cannot run: %s", error)
                return False
        return True

    def runs_here(self) -> bool:
        """Whether the calling thread is one of these."""
        return threading.current_thread() in self._threads

    def start(self, what: str, body: Callable[[], None]) -> None:
        """Runs `body` on a thread of its own."""
        self._start(f"{self._name}-{what}", body)

    def _start(self, name: str, body: Callable[[], None]) -> None:
        def run() -> None:
            try:
                body()
            finally:
                self._threads.discard(thread)

        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.add(thread)  # atomic
        try:
            thread.start()
        except BaseException as error:
            if thread.ident is None:
                self._threads.discard(thread)
            # The other one is an interrupt, which the wait in `start` makes an error of its lock.
            raise (error.__context__ or error) if isinstance(error, RuntimeError) else error


def _run(calls: SimpleQueue[Callback | None]) -> None:
    while call := calls.get():
        try:
            call()
        except Exception:  # the rim, as above; reporting it to a callback could go on for ever
            logger().exception("a callback failed")
