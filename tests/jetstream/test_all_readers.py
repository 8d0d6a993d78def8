"""What all readers have in common: iteration, waits of programs that poll, and who may call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Protocol

import pytest

import natsync
from natsync.errors import ConnectionReconnectingError, Error, NextMsgTimeoutError
from natsync.jetstream import (
    ConcurrentReadError,
    ConsumerConfig,
    ConsumerDeletedError,
    JetStream,
    JetStreamMsg,
    MessagesClosedError,
    NoHeartbeatError,
)
from natsync.jetstream.reader import _CLOSELY, BlockingIterator, OnError, Silence
from natsync.jetstream.supply import LOOK
from natsync.message import Delivered

from tests.jetstream.streams import TIMEOUT, Errors, durable, filled, publish
from tests.support.proxy import Proxy
from tests.support.servers import NatsServer
from tests.support.waiting import eventually

BEAT = 0.5
POLL = 0.05


class Reader(Protocol):
    def next(self, timeout: float | None = ...) -> JetStreamMsg: ...
    def stop(self) -> int: ...


Open = Callable[[JetStream, str, OnError], Reader]


def pull(js: JetStream, stream: str, on_error: OnError) -> Reader:
    return js.consumer(stream, "c").messages(expires=10.0, heartbeat=BEAT, on_error=on_error)


def ordered(js: JetStream, stream: str, on_error: OnError) -> Reader:
    consumer = js.ordered_consumer(stream)
    return consumer.messages(expires=10.0, heartbeat=BEAT, on_error=on_error)


def push(js: JetStream, stream: str, on_error: OnError) -> Reader:
    config = ConsumerConfig(
        durable_name="p", deliver_subject=f"to.{stream}", idle_heartbeat=BEAT, ack_policy="none"
    )
    js.stream(stream).create_consumer(config)
    return js.push_consumer(stream, "p").messages(on_error=on_error)


@pytest.mark.server
@pytest.mark.parametrize("open_reader", [pull, ordered, push])
def test_polls_hear_of_missing_heartbeats(
    js: JetStream, js_server: NatsServer, stream_name: str, open_reader: Open
) -> None:
    durable(filled(js, stream_name, 0))
    errors = Errors()
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        reader = open_reader(nc.jetstream(), stream_name, errors)
        try:

            def alarm() -> bool:
                with pytest.raises(NextMsgTimeoutError):
                    reader.next(POLL)
                return bool(errors.all)

            until = monotonic() + 4 * BEAT
            while monotonic() < until:
                assert not alarm()  # heartbeats come
            proxy.link(0).to_client.stall()
            begun = monotonic()
            eventually(alarm)
            assert monotonic() - begun > BEAT
            assert isinstance(errors.all[0], NoHeartbeatError)
            proxy.link(0).to_client.resume()
            publish(js, stream_name, [7])
            assert reader.next(TIMEOUT).data == b"7"
        finally:
            reader.stop()


@pytest.mark.server
@pytest.mark.parametrize("open_reader", [pull, push])
def test_polls_hear_of_a_consumer_that_is_gone(
    js: JetStream, stream_name: str, open_reader: Open
) -> None:
    stream = filled(js, stream_name, 0)
    durable(stream)
    reader = open_reader(js, stream_name, Errors())
    try:
        for name in stream.consumer_names():
            stream.delete_consumer(name)

        def gone() -> bool:
            try:
                reader.next(POLL)
            except NextMsgTimeoutError:
                return False
            except ConsumerDeletedError:
                return True
            raise AssertionError("a message came")

        eventually(gone)
    finally:
        reader.stop()


def test_what_is_one_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("natsync.jetstream.reader.monotonic", lambda: now)
    silence = Silence()
    assert silence.begin(0) == 100.0
    silence.pause(100.0, 0)
    now += LOOK
    assert silence.begin(0) == 100.0
    assert silence.begin(1) == now  # something has come
    silence.pause(100.0, 0)
    now += _CLOSELY + 0.001
    assert silence.begin(0) == now  # the program was away


class Countdown(BlockingIterator[int]):
    """Gives 3, 2, 1; raises `end` then, and MessagesClosedError once it was stopped."""

    def __init__(self, end: Exception) -> None:
        self.end, self.left, self.stops = end, 3, 0

    def next(self, timeout: float | None = None) -> int:
        assert timeout is None, "iteration waits for ever"
        if self.stops:
            raise MessagesClosedError("S", "c")
        if not self.left:
            raise self.end
        self.left -= 1
        return self.left + 1

    def stop(self) -> None:
        self.stops += 1


def test_iteration_ends_where_the_reader_is_closed() -> None:
    assert [*Countdown(MessagesClosedError("S", "c"))] == [3, 2, 1]


def test_any_other_error_is_raised() -> None:
    reader = Countdown(NextMsgTimeoutError("a", 1.0))
    taken = []
    with pytest.raises(NextMsgTimeoutError):
        for item in reader:
            taken.append(item)
    assert taken == [3, 2, 1]


def test_a_with_block_stops_it() -> None:
    with Countdown(ValueError()) as reader:
        assert next(reader) == 3
        assert reader.stops == 0
    assert reader.stops == 1 and [*reader] == []


def test_an_error_in_the_block_stops_it_and_is_raised() -> None:
    reader = Countdown(ValueError())
    with pytest.raises(KeyError), reader:
        raise KeyError
    assert reader.stops == 1


def test_on_error_may_wait_for_another_worker(
    js: JetStream, js_server: NatsServer, stream_name: str
) -> None:
    """No lock is held while it runs."""
    filled(js, stream_name, 0)
    durable(js.stream(stream_name), deliver_subject=f"to.{stream_name}")
    handled, told = threading.Event(), threading.Event()

    def on_error(error: Error) -> None:
        if isinstance(error, ConnectionReconnectingError):
            told.set()
            assert handled.wait(
                TIMEOUT
            )  # by the other worker, after this one has heard of the outage

    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        consumer = nc.jetstream().push_consumer(stream_name, "c")
        with consumer.consume(lambda msg: handled.set(), workers=2, on_error=on_error):
            proxy.cut()
            assert told.wait(TIMEOUT)
            assert nc.wait_connected(TIMEOUT)
            nc.flush()
            publish(js, stream_name, [1])
            assert handled.wait(TIMEOUT)


def test_a_signal_handler_does_not_disturb_a_reader_that_takes_a_message(
    js: JetStream, stream_name: str
) -> None:
    """Called where a signal handler may interrupt it: while it holds its turn."""
    with durable(filled(js, stream_name, 2)).messages() as messages:
        read = messages._read

        def interrupted(frame: Delivered) -> object:
            with pytest.raises(ConcurrentReadError):
                messages.next(0.0)
            return read(frame)

        messages._is_counted = True  # no hot path
        messages._read = interrupted  # type: ignore[method-assign,assignment]  # a signal handler
        assert messages.next(TIMEOUT).data == b"0"
        assert messages.next(TIMEOUT).data == b"1"
