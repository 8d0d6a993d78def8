"""`OrderedMessages`: every message once and in order, whatever happens on the way."""

from __future__ import annotations

from itertools import count

import pytest

import natsync
from natsync.errors import ConnectionReconnectingError, Error, NextMsgTimeoutError
from natsync.jetstream import (
    ConcurrentReadError,
    ConsumerConfig,
    ConsumerDeletedError,
    JetStream,
    MessagesClosedError,
    NoHeartbeatError,
    SequenceGapError,
)

from tests.jetstream.streams import (
    TIMEOUT,
    Errors,
    filled,
    later,
    numbers,
    publish,
    raise_it,
    until_no_consumer,
    until_sent,
)
from tests.support.fake_server import Background
from tests.support.jetstream import JETSTREAM
from tests.support.proxy import Proxy
from tests.support.servers import NatsServer, StartServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.server


def only_consumer(js: JetStream, stream: str) -> str:
    (name,) = js.stream(stream).consumer_names()
    return name


def test_everything_in_order(js: JetStream, stream_name: str) -> None:
    filled(js, stream_name, 2000)
    with js.ordered_consumer(stream_name).messages(max_msgs=100) as messages:
        assert messages.num_pending == 2000
        assert numbers(messages, 2000) == list(range(2000))
        with later(0.1, lambda: publish(js, stream_name, [2000])):
            assert messages.next(TIMEOUT).data == b"2000"
        with pytest.raises(NextMsgTimeoutError):
            messages.next(0.05)
        assert messages.last_seq == 2001


def test_its_consumer_goes_with_it(js: JetStream, stream_name: str) -> None:
    stream = filled(js, stream_name, 10)
    with js.ordered_consumer(stream_name).messages() as messages:
        assert numbers(messages, 4) == [0, 1, 2, 3]
        consumer = stream.consumer(only_consumer(js, stream_name))
        config = consumer.cached_info.config
        assert (config.ack_policy, config.mem_storage, config.max_deliver) == ("none", True, 1)
        until_sent(js, consumer, 10)
        assert messages.stop() == 6
        with pytest.raises(MessagesClosedError):
            messages.next()
    until_no_consumer(stream)


def test_a_deleted_consumer_is_replaced(js: JetStream, stream_name: str) -> None:
    stream = filled(js, stream_name, 300)
    errors = Errors()
    with js.ordered_consumer(stream_name).messages(max_msgs=10, on_error=errors) as messages:
        assert numbers(messages, 100) == list(range(100))
        stream.delete_consumer(only_consumer(js, stream_name))
        assert numbers(messages, 200) == list(range(100, 300))
        stream.delete_consumer(only_consumer(js, stream_name))
        publish(js, stream_name, [300])
        assert numbers(messages, 1) == [300]
    assert len(errors.all) == 2
    assert isinstance(errors.all[1], ConsumerDeletedError)


def test_a_message_that_is_lost_on_the_way(js: JetStream, stream_name: str) -> None:
    """Another reader of the same consumer takes it."""
    filled(js, stream_name, 100)
    errors = Errors()
    with js.ordered_consumer(stream_name).messages(max_msgs=1, on_error=errors) as messages:
        assert numbers(messages, 40) == list(range(40))
        js.api.core.flush()
        (stolen,) = js.consumer(stream_name, only_consumer(js, stream_name)).fetch(1)
        assert numbers(messages, 60) == list(range(40, 100))
        assert int(stolen.data) in (40, 41)
    (error,) = errors.all
    assert isinstance(error, SequenceGapError)
    assert error.found == error.expected + 1


def test_an_on_error_that_raises_does_not_keep_it_at_a_gap(js: JetStream, stream_name: str) -> None:
    filled(js, stream_name, 10)
    with js.ordered_consumer(stream_name).messages(max_msgs=1, on_error=raise_it) as messages:
        assert numbers(messages, 4) == [0, 1, 2, 3]
        js.api.core.flush()
        js.consumer(stream_name, only_consumer(js, stream_name)).fetch(1)
        found: list[int] = []
        with pytest.raises(SequenceGapError):
            while True:
                found.append(int(messages.next(TIMEOUT).data))
        while len(found) < 6:
            found.append(int(messages.next(TIMEOUT).data))
        assert found == list(range(4, 10))


def test_the_last_message_is_lost_on_the_way(js: JetStream, stream_name: str) -> None:
    """A heartbeat tells."""
    filled(js, stream_name, 3)
    errors = Errors()
    reader = js.ordered_consumer(stream_name)
    with reader.messages(max_msgs=1, expires=1.0, heartbeat=0.1, on_error=errors) as messages:
        assert numbers(messages, 1) == [0]
        js.api.core.flush()
        js.consumer(stream_name, only_consumer(js, stream_name)).fetch(1)
        assert numbers(messages, 2) == [1, 2]
    assert isinstance(errors.all[0], SequenceGapError)


def test_connections_that_are_lost(js: JetStream, js_server: NatsServer, stream_name: str) -> None:
    filled(js, stream_name, 1000)
    errors = Errors()
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        reader = nc.jetstream().ordered_consumer(stream_name)
        with reader.messages(max_msgs=50, on_error=errors) as messages:
            found = []
            for msg in messages:
                found.append(int(msg.data))
                if len(found) % 200 == 100:
                    proxy.cut()
                if len(found) == 1000:
                    break
            assert found == list(range(1000))
    assert {type(error) for error in errors.all} == {ConnectionReconnectingError}


def test_an_ordered_reader_survives_a_connection_that_stalls(
    js: JetStream, js_server: NatsServer, stream_name: str
) -> None:
    filled(js, stream_name, 10)
    errors = Errors()
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        reader = nc.jetstream().ordered_consumer(stream_name)
        with reader.messages(expires=2.0, heartbeat=0.2, on_error=errors) as messages:
            assert numbers(messages, 10) == list(range(10))
            proxy.link(0).to_client.stall()
            publish(js, stream_name, [10])
            with pytest.raises(NextMsgTimeoutError):
                messages.next(0.8)
            assert isinstance(errors.all[0], NoHeartbeatError)
            proxy.link(0).to_client.resume()
            assert messages.next(TIMEOUT).data == b"10"
            with pytest.raises(NextMsgTimeoutError):
                messages.next(0.5)


def test_a_server_that_is_started_again(start_server: StartServer) -> None:
    """Whose consumers lived in memory."""
    server = start_server(JETSTREAM)
    with natsync.connect(server.url) as nc:
        js = nc.jetstream(timeout=TIMEOUT)
        filled(js, "S", 100, storage="file")
        with js.ordered_consumer("S").messages(max_msgs=10, on_error=Errors()) as messages:
            assert numbers(messages, 55) == list(range(55))
            server.stop()
            server.start()
            assert numbers(messages, 45) == list(range(55, 100))


def test_new_messages_only_and_none_lost_before_the_first(
    js: JetStream, js_server: NatsServer, stream_name: str
) -> None:
    filled(js, stream_name, 5)
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        reader = nc.jetstream().ordered_consumer(stream_name, ConsumerConfig(deliver_policy="new"))
        with reader.messages(on_error=Errors()) as messages:
            assert messages.num_pending == 0
            proxy.cut()
            publish(js, stream_name, range(5, 8))
            assert numbers(messages, 3) == [5, 6, 7]


def test_the_last_of_each_subject(js: JetStream, stream_name: str) -> None:
    stream = filled(js, stream_name, 10)
    reader = js.ordered_consumer(stream_name, ConsumerConfig(deliver_policy="last_per_subject"))
    with reader.messages(max_msgs=1, on_error=Errors()) as messages:
        assert (messages.num_pending, messages.last_seq) == (3, None)
        stream.delete_consumer(only_consumer(js, stream_name))
        assert numbers(messages, 3) == [7, 8, 9]


def test_a_second_thread_is_refused(js: JetStream, stream_name: str) -> None:
    filled(js, stream_name, 0)
    with js.ordered_consumer(stream_name).messages() as messages:
        waiting = Background(lambda: messages.next(TIMEOUT))
        with pytest.raises(ConcurrentReadError):
            for _ in count():
                try:
                    messages.next(0.001)
                except NextMsgTimeoutError:
                    pass  # the other thread does not wait yet
        publish(js, stream_name, [1])
        assert waiting.result().data == b"1"


def test_stop_ends_who_waits(js: JetStream, stream_name: str) -> None:
    filled(js, stream_name, 0)
    messages = js.ordered_consumer(stream_name).messages()
    with later(0.1, messages.stop):
        assert numbers(messages) == []


def test_drain_of_an_ordered_reader_leaves_what_has_arrived(
    js: JetStream, stream_name: str
) -> None:
    filled(js, stream_name, 100)
    with js.ordered_consumer(stream_name).messages(max_msgs=20) as messages:
        messages.next(TIMEOUT)
        until_sent(js, js.consumer(stream_name, only_consumer(js, stream_name)), 20)
        assert messages.drain() == 19
        assert numbers(messages) == list(range(1, 20))


def test_a_stream_that_is_gone(js: JetStream, stream_name: str) -> None:
    filled(js, stream_name, 1)
    messages = js.ordered_consumer(stream_name).messages(on_error=Errors())
    assert numbers(messages, 1) == [0]
    js.delete_stream(stream_name)
    with pytest.raises(Error, match="stream not found"):
        messages.next(TIMEOUT)
    with pytest.raises(Error, match="stream not found"):
        js.ordered_consumer(stream_name).messages()


def test_a_dropped_reader_leaves_nothing(js: JetStream, stream_name: str) -> None:
    stream = filled(js, stream_name, 3)
    for _ in js.ordered_consumer(stream_name).messages():
        break
    del _
    until_no_consumer(stream)


def test_a_gap_while_it_is_drained_ends_it(js: JetStream, stream_name: str) -> None:
    filled(js, stream_name, 10)
    errors = Errors()
    with js.ordered_consumer(stream_name).messages(max_msgs=2, on_error=errors) as messages:
        assert numbers(messages, 1) == [0]
        messages.drain()
        messages.restart()
        assert numbers(messages) == []


def test_a_drain_between_two_consumers_ends_it(js: JetStream, stream_name: str) -> None:
    filled(js, stream_name, 3)
    with js.ordered_consumer(stream_name).messages() as messages:
        assert numbers(messages, 1) == [0]
        for _ in range(3):  # the pause before the next consumer grows to half a second
            messages.restart()
        reading = Background(lambda: numbers(messages))
        with later(0.1, messages.drain):
            assert reading.result() == []


def test_polls_over_a_slow_network_get_another_consumer(
    js: JetStream, js_server: NatsServer, stream_name: str
) -> None:
    """Even if its creation takes longer than each of them."""
    filled(js, stream_name, 2)
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        with nc.jetstream().ordered_consumer(stream_name).messages(on_error=Errors()) as messages:

            def poll() -> bytes | None:
                try:
                    return messages.next(0.05).data
                except NextMsgTimeoutError:
                    return None

            assert poll() == b"0"
            proxy.link().to_client.delay(0.3)
            messages.restart()
            assert eventually(poll) == b"1"
