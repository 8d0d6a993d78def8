"""The I/O thread while a connection is open."""

from __future__ import annotations

from functools import partial
from queue import SimpleQueue
from time import monotonic

import pytest

import natsync
from natsync import errors
from natsync._engine.seat import Seat
from natsync.protocol import Pub

from tests.support.fake_server import FakeServer

TIMEOUT = 10.0

fast = partial(natsync.connect, reconnect_wait=0.01, reconnect_max_wait=0.02)


def test_what_is_published_after_a_reconnect_goes_to_the_new_connection() -> None:
    with FakeServer() as server, server.client(fast) as (nc, peer):
        nc._connection._supervisor.seat.forced = (
            True  # as `reconnect`, and the I/O thread is asleep yet
        )
        nc.publish("a", b"later")
        peer.expect_end()
        peer = server.accept()
        peer.greet()
        assert peer.expect(Pub).payload == b"later"


def test_a_full_network_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: SimpleQueue[float] = SimpleQueue()
    park = Seat.wait_idle

    def parking(
        seat: Seat, until: float, writing: bool, reading: bool, much: bool = False
    ) -> float:
        if writing:
            waits.put(until)
        return park(seat, until, writing, reading, much)

    monkeypatch.setattr(Seat, "wait_idle", parking)
    connect = partial(natsync.connect, write_timeout=0.01)
    with FakeServer() as server, server.client(connect) as (nc, peer):
        with pytest.raises(errors.OutboundBufferLimitError):
            while True:
                nc.publish("a", bytes(100_000))
        begun = monotonic()
        nc._connection.drive(None, 0.0)
        nc._connection._supervisor.loop.wake()
        assert waits.get(timeout=TIMEOUT) > begun
        peer.reset()
