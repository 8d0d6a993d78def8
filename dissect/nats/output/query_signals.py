"""Signals end a query of DuckDB at once: KeyboardInterrupt for SIGINT, else SystemExit(128 + number).

Python runs signal handlers only after DuckDB has returned. So a thread learns of each signal through
`signal.set_wakeup_fd` and interrupts DuckDB, whose error may replace the exception that the handler raises.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


@contextmanager
def interruptible(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """In this block, a signal that has a handler ends the running query."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread handles signals
        return
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signals: list[int] = []

    def interrupt() -> None:
        while number := os.read(read_end, 1):
            signals.extend(number)
            connection.interrupt()

    def stop() -> None:
        signal.set_wakeup_fd(before)
        os.close(write_end)
        watch.join()  # after that, it has read all signals
        os.close(read_end)

    watch = threading.Thread(target=interrupt, name="nats-dissect signals", daemon=True)
    watch.start()
    before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    try:
        yield
    except BaseException as error:
        stop()
        if not signals or not isinstance(error, Exception):
            raise
        if signals[0] == signal.SIGINT:
            raise KeyboardInterrupt from None
        raise SystemExit(128 + signals[0]) from None
    stop()
