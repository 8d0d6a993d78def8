"""The one logger, and which thread may write to it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from natsync._engine.log import logger

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
