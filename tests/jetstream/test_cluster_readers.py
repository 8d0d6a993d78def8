"""Readers of a replicated stream in a cluster of three whose leader is killed with SIGKILL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from time import monotonic
from typing import TypeVar

import pytest

import natsync
from natsync.errors import Error
from natsync.jetstream import (
    ConsumerConfig,
    ConsumingError,
    JetStream,
    JetStreamError,
    JetStreamUnavailableError,
    StreamConfig,
)

from tests.jetstream.streams import Errors, Gathered
from tests.support.jetstream import JETSTREAM
from tests.support.meshes import mesh
from tests.support.servers import NatsServer, require_server
from tests.support.waiting import eventually

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(180)]

PATIENCE = 60.0
_T = TypeVar("_T")


@pytest.fixture
def servers() -> Iterator[list[NatsServer]]:
    require_server("current")
    with mesh(3, JETSTREAM) as running:
        yield running


@pytest.fixture
def js(servers: list[NatsServer]) -> Iterator[JetStream]:
    with natsync.connect([server.url for server in servers]) as nc:
        yield nc.jetstream(timeout=5.0)


def until(call: Callable[[], _T]) -> _T:
    """The result of a call, which is repeated until it works: a cluster that has just started has no leader,
    and during an election nobody answers, or with an error."""
    end = monotonic() + PATIENCE
    while True:
        try:
            return call()
        except (JetStreamError, natsync.Error):
            if monotonic() > end:
                raise
            threading.Event().wait(0.1)


def leader(js: JetStream) -> str:
    cluster = js.stream("S").info().cluster
    return cluster.leader if cluster else ""


class Publisher(threading.Thread):
    """Publishes numbers with ids until it is stopped; `stored` are those the stream has confirmed."""

    def __init__(self, js: JetStream) -> None:
        super().__init__(name="publisher")
        self.stored = 0
        self._js = js
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            number = str(self.stored)
            try:
                self._js.publish("s.a", number.encode(), msg_id=number, timeout=1.0)
            except Error:
                self._ended.wait(0.05)
            else:
                self.stored += 1

    def stop(self) -> int:
        self._ended.set()
        self.join(PATIENCE)
        return self.stored


def kill(servers: list[NatsServer], name: str) -> None:
    next(server for server in servers if server.name == name).kill()


def test_every_message_reaches_its_readers(servers: list[NatsServer], js: JetStream) -> None:
    config = StreamConfig("S", subjects=["s.>"], num_replicas=3)
    until(lambda: js.create_stream(config))
    stream = js.stream("S")
    waits = ConsumerConfig(durable_name="c", ack_wait=5.0)
    consumer = until(lambda: stream.create_consumer(waits))
    errors = Errors()
    publisher = Publisher(js)
    handled, read = Gathered(), Gathered(lambda msg: None)
    with (
        consumer.consume(handled, workers=2, max_msgs=50, expires=2.0, on_error=errors),
        js.ordered_consumer("S").consume(read, expires=2.0, on_error=Errors()),
    ):
        publisher.start()
        read.wait(200)
        until(lambda: js.api.request("CONSUMER.LEADER.STEPDOWN.S.c"))
        errors.wait_for(ConsumingError)
        before = publisher.stored
        kill(servers, eventually(lambda: until(lambda: leader(js))))
        end = monotonic() + PATIENCE
        while publisher.stored < before + 200 and monotonic() < end:
            threading.Event().wait(0.05)
        stored = publisher.stop()
        assert stored >= before + 200
        assert set(handled.wait(stored)) >= set(range(stored))
        assert read.wait(stored)[:stored] == list(range(stored))
    kinds = {type(error).__name__ for error in errors.all}
    assert all(isinstance(error, (ConsumingError, natsync.Error)) for error in errors.all), kinds


def test_a_reader_of_the_only_copy_outlives_a_restart_of_its_server(
    servers: list[NatsServer], js: JetStream
) -> None:
    """The others know of a server that has stopped in order: they answer that the stream is offline."""
    until(lambda: js.create_stream(StreamConfig("S", subjects=["s.>"])))
    where = eventually(lambda: until(lambda: leader(js)))
    (only,) = (server for server in servers if server.name == where)
    urls = [server.url for server in servers if server is not only]
    errors, read = Errors(), Gathered(lambda msg: None)
    with natsync.connect(urls, discover=False) as nc:
        js = nc.jetstream(timeout=5.0)
        with js.ordered_consumer("S").consume(read, expires=2.0, on_error=errors):
            for number in range(20):
                if number == 10:
                    assert read.wait(10) == list(range(10))
                    only.stop()
                    errors.wait_for(JetStreamUnavailableError)
                    only.start()
                until(lambda: js.publish("s.a", b"%d" % number, msg_id=str(number)))
            assert read.wait(20) == list(range(20))


def test_a_consumer_with_one_copy_on_a_server_that_is_gone(
    servers: list[NatsServer], js: JetStream
) -> None:
    """Never silence, never a hot loop: troubles are told, with pauses in between."""
    until(lambda: js.create_stream(StreamConfig("S", subjects=["s.>"], num_replicas=3)))
    stream = js.stream("S")
    config = ConsumerConfig(durable_name="c", num_replicas=1, mem_storage=True)
    consumer = until(lambda: stream.create_consumer(config))
    found = eventually(lambda: until(consumer.info).cluster)
    assert found
    errors = Errors()
    with consumer.messages(expires=1.0, on_error=errors) as messages:
        kill(servers, found.leader)
        end = monotonic() + 6.0
        while monotonic() < end:
            try:
                messages.next(max(0.0, end - monotonic()))
            except TimeoutError:
                break
    assert 1 <= len(errors.all) < 20
    assert any(isinstance(error, ConsumingError) for error in errors.all)
