"""A consumer that has fallen silent is noticed also by a program that polls."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Protocol

import pytest

import natsync
from natsync.errors import NextMsgTimeoutError
from natsync.jetstream import (
    ConsumerConfig,
    ConsumerDeletedError,
    JetStream,
    JetStreamMsg,
    NoHeartbeatError,
)
from natsync.jetstream.messages import LOOK, OnError
from natsync.jetstream.silence import _CLOSELY, Silence

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
    monkeypatch.setattr("natsync.jetstream.silence.monotonic", lambda: now)
    silence = Silence()
    assert silence.begin(0) == 100.0
    silence.pause(100.0, 0)
    now += LOOK
    assert silence.begin(0) == 100.0
    assert silence.begin(1) == now  # something has come
    silence.pause(100.0, 0)
    now += _CLOSELY + 0.001
    assert silence.begin(0) == now  # the program was away
