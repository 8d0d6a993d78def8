"""The one logger, and which thread may write to it."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator

import pytest

from natsync._engine.log import call_or_log, logger

from tests.support.fake_server import Background, FakeServer

TIMEOUT = 10.0


class Stuck(logging.Handler):
    """A handler of the program that waits, with its lock held, as one that sends over the network may."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.released = threading.Event(), threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.entered.set()
        assert self.released.wait(TIMEOUT)


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    handler, level = Stuck(), logger().level
    logger().addHandler(handler)
    logger().setLevel(logging.INFO)
    yield handler
    handler.released.set()
    logger().removeHandler(handler)
    logger().setLevel(level)


def test_the_logger_is_named_after_the_package() -> None:
    assert logger() is logging.getLogger("natsync")


def test_what_a_function_of_the_program_raises_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    taken: list[object] = []
    call_or_log(taken.append, 1)
    assert taken == [1] and not caplog.records
    call_or_log([].pop)
    call_or_log(sys.exit, "done")
    assert [record.message for record in caplog.records] == ["a callback failed"] * 2
    assert "pop from empty list" in caplog.text and "SystemExit: done" in caplog.text


def test_a_log_handler_that_waits_does_not_stop_the_connection(stuck: Stuck) -> None:
    """One that publishes with this client would wait for ever where the thread that drives ran it."""
    with FakeServer() as server, server.client() as (nc, peer):
        peer.reset()
        peer = server.accept()
        peer.greet()
        assert stuck.entered.wait(TIMEOUT) and nc.wait_connected(TIMEOUT)
        call = Background(lambda: nc.flush(TIMEOUT))
        peer.answer()
        call.result()
        assert not stuck.released.is_set()
        stuck.released.set()
