"""Handlers: the one way in which code of the program is called with messages, whatever they came from.

A `Runner` has one handler. It calls it on threads of its own, or on those of an executor, and reports what
it raises: an exception ends neither the thread nor the connection.

On an executor, subscriptions share threads. A run takes messages of one subscription and handles them one
after the other. At most `workers` runs of a subscription are active at a time; one worker handles the
messages in order. A run ends when nothing is pending, and the next message begins another one. A run that has
handled `_TURN` messages ends, too; if more are pending, another one begins.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Generic, TypeVar

from .._checks import is_kill
from ..errors import Error, HandlerError
from ..message import Msg, ReceivedMsg
from .dispatch import Dispatcher, log_now
from .sink import DrainStage, SubscriptionSink

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

__all__ = ["Runner"]

_M = TypeVar("_M", bound=Msg)

_KEPT = 16
"""The failures of a handler that wait to be reported each; with their tracebacks, they keep the messages."""

_PAUSE = 1.0
"""Seconds from a report that stands for other failures, too, to the next one: a handler that always fails
leaves time, and the log, to everything else."""

_TURN = 64
"""After this many messages a run ends, to let other subscriptions run. Submitting a run to an executor takes
22 us (CPython 3.11): with 64, a third of a microsecond for each message."""


class Runner(Generic[_M]):
    """Runs `handler` for the messages of one source. Failures are passed to `on_error`, on the thread of
    the handler, or else to the callback thread.

    A handler may fail faster than its failures can be reported, and must not wait for that: messages would
    pile up meanwhile, and the callback may be waiting for this very handler. So `_KEPT` failures wait at
    most; of more, the last one stands for those before it, and `HandlerError.failures` counts them.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        handler: Callable[[_M], object],
        on_error: Callable[[Error], object] | None = None,
    ) -> None:
        self._dispatcher = dispatcher
        self._subject = ""  # of the subscription
        self._on_error = on_error
        self._failures: deque[HandlerError] = deque()
        self._is_telling = False
        self._rest_until = 0.0
        self.threads: list[threading.Thread] = []
        self.busy: dict[int, None] = {}
        """The threads of `run` that handle a message now. Changed by single operations, which are atomic."""

        def call(msg: _M) -> None:
            try:
                handler(msg)
            except BaseException as error:  # code of the program may raise anything
                if is_kill(error):
                    raise
                self.failed(error, self._subject or msg.subject)

        self._call = call

    def run(
        self, name: str, take: Callable[[], _M], ended: Callable[[Error], object], workers: int
    ) -> None:
        """Starts `workers` threads, which handle what `take` returns until it raises an error; `ended` is
        called with that error. A drain of the connection waits for them. Raises RuntimeError if the system is
        out of threads."""
        body, stage = partial(self._run, take, ended), self._dispatcher.drain_stage()
        for _ in range(workers):
            self.threads.append(self._dispatcher.start(name, body, stage))

    def _run(self, take: Callable[[], _M], ended: Callable[[Error], object]) -> None:
        me = threading.get_ident()
        call, busy = self._call, self.busy
        try:
            while True:
                msg = take()
                busy[me] = None
                try:
                    call(msg)
                finally:
                    busy.pop(me, None)
        except Error as error:
            ended(error)

    def subscribe(
        self: Runner[Msg],
        sink: SubscriptionSink,
        workers: int = 1,
        executor: Executor | None = None,
    ) -> None:
        """Handles the messages of `sink` until it ends: on `workers` threads, or on those of `executor`, at
        most `workers` at a time. The only thread started here is then one that submits to all executors.
        `has_handler` of `sink` must be set. One worker handles the messages in order. Raises as `run`.
        """
        sink.workers = workers
        self._subject = sink.subject
        self._dispatcher.handles(sink)
        if sink.pending.on_outage:
            sink.pending.on_outage = self._guarded(sink.subject, sink.pending.on_outage)
        if executor:
            runs = _Runs(sink, self._call, self.failed, workers, executor, self._dispatcher)
            sink.arrived = runs.arrived
            runs.arrived()  # for messages that have arrived before
            return
        for _ in range(workers):
            body = partial(sink.handle, self._call)
            self._dispatcher.start(f"handler-{sink.subject}", body, DrainStage.NONE)

    def _guarded(
        self, subject: str, call: Callable[[Error | None], object]
    ) -> Callable[[Error | None], None]:
        """Returns a function that calls `call` and reports its exceptions."""

        def guarded(outage: Error | None) -> None:
            try:
                call(outage)
            except BaseException as error:  # as above
                self.failed(error, subject)

        return guarded

    def failed(self, cause: BaseException, subject: str) -> None:
        """Reports what the handler raised."""
        error = HandlerError(subject)
        error.__cause__ = cause
        if self._on_error:
            self._on_error(error)
            log_now("debug", "%s", error)
            return
        with self._dispatcher.lock:
            if len(self._failures) == _KEPT:
                error.failures += self._failures.pop().failures
            self._failures.append(error)
            begins, self._is_telling = not self._is_telling, True
        tell = partial(self._tell, self._dispatcher.tell)
        if begins and not self._dispatcher.post(tell, self._rest_until):
            self._tell(partial(log_now, "warning", "%s"))  # the callback thread has ended

    def _tell(self, tell: Callable[[Error], None]) -> None:
        with self._dispatcher.lock:
            failures, self._failures = self._failures, deque()
            self._is_telling = False
            if failures and failures[-1].failures > 1:
                self._rest_until = monotonic() + _PAUSE
        for error in failures:
            tell(error)


class _Runs:
    """The runs of one subscription on an executor."""

    def __init__(
        self,
        sink: SubscriptionSink,
        call: Callable[[Msg], None],
        failed: Callable[[BaseException, str], None],
        workers: int,
        executor: Executor,
        dispatcher: Dispatcher,
    ) -> None:
        self._sink = sink
        self._call = call
        self._failed = failed
        self._workers = workers
        self._executor = executor
        self._feed = dispatcher.feed
        self._running = dispatcher.running
        # Guarded by the client's lock: the number of runs that have yet to begin, and of all runs.
        self._beginning = 0
        self._runs = 0

    def arrived(self) -> None:
        """Begins as many runs as there are messages and marks to take. For any thread; it never waits."""
        while self._may_begin():
            if not self._feed(self._submit):
                self._give_up()
                return

    def _may_begin(self) -> bool:
        with self._sink.host.lock:
            begins = self._runs < self._workers and self._beginning < self._sink.pending.turns
            self._runs += begins
            self._beginning += begins
        return begins

    def _give_up(self) -> None:
        """Notes that a run does not begin."""
        with self._sink.host.lock:
            self._beginning -= 1
            self._runs -= 1

    def _submit(self) -> None:
        began: list[int] = []
        try:
            task: Future[None] = self._executor.submit(self._run, began)
        except RuntimeError as error:  # it was shut down
            self._fail(error)
        else:
            task.add_done_callback(partial(self._ended, began))

    def _fail(self, error: BaseException) -> None:
        """Drops the messages, which nobody will handle."""
        self._give_up()
        self._sink.pending.drop()
        self._failed(error, self._sink.subject)

    def _ended(self, began: list[int], task: Future[None]) -> None:
        if began:
            return
        if task.cancelled():  # its messages are still pending
            self._give_up()
            self.arrived()
        elif error := task.exception():
            self._fail(error)  # a pool of processes has it, for example: no run can be sent there

    def _run(self, began: list[int]) -> None:
        me = threading.get_ident()
        began.append(me)
        self._running[me] = None
        with self._sink.host.lock:
            self._beginning -= 1
        try:
            for _ in range(_TURN):
                frame = self._sink.next(me)
                if frame is None:
                    break
                try:
                    self._call(ReceivedMsg(frame, self._sink.host.respond))
                finally:
                    self._sink.handled(frame)
        finally:
            self._running.pop(me, None)
            with self._sink.host.lock:
                self._runs -= 1
            self.arrived()  # for messages that came since the last look
