"""Handlers on an executor: subscriptions share the threads of the executor.

A run takes messages of one subscription and handles them one after the other. At most `workers` runs of a
subscription are active at a time; one worker handles the messages in order. A run ends when nothing is
pending, and the next message begins another one. A run that has handled `_TURN` messages ends, too; if more
are pending, another one begins.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ..errors import Error, HandlerError
from ..message import Msg, ReceivedMsg
from .sink import SubscriptionSink

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

__all__ = ["RunQueue"]

_TURN = 64
"""After this many messages a run ends, to let other subscriptions run. Submitting a run to an executor takes
22 us (CPython 3.11): with 64, a third of a microsecond for each message."""


class RunQueue:
    """The runs of one subscription. `feed` makes a call on a thread that may wait for the executor, and
    returns whether the call will be made; `handle` handles one message; `running` holds the ids of the
    threads in a run."""

    def __init__(
        self,
        sink: SubscriptionSink,
        handle: Callable[[Msg], None],
        workers: int,
        executor: Executor,
        feed: Callable[[Callable[[], object]], bool],
        report: Callable[[Error], None],
        running: dict[int, None],
    ) -> None:
        self._sink = sink
        self._handle = handle
        self._workers = workers
        self._executor = executor
        self._feed = feed
        self._report = report
        self._running = running
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

    def _end_run(self) -> None:
        with self._sink.host.lock:
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
        report = HandlerError(self._sink.subject)
        report.__cause__ = error
        self._report(report)

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
                    self._handle(ReceivedMsg(frame, self._sink.host.respond))
                finally:
                    self._sink.handled(frame)
        finally:
            self._running.pop(me, None)
            self._end_run()
            self.arrived()  # for messages that came since the last look
