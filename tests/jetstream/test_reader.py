"""`Messages` against real servers: supplied without end, and back after whatever happens."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from time import process_time

import pytest

import natsync
from natsync import Client
from natsync.errors import ConnectionReconnectingError, NextMsgTimeoutError
from natsync.jetstream import (
    ConsumerConfig,
    ConsumerDeletedError,
    JetStream,
    MessagesClosedError,
    NoHeartbeatError,
    PinIdMismatchError,
    PullRefusedError,
    StreamConfig,
)

from tests.jetstream.streams import (
    TIMEOUT,
    Errors,
    durable,
    filled,
    later,
    numbers,
    publish,
    until_sent,
)
from tests.support.fake_server import Background
from tests.support.jetstream import JETSTREAM
from tests.support.proxy import Admission, Proxy
from tests.support.servers import NatsServer, StartServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.server


def test_it_asks_for_more_before_it_runs_dry(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 100))
    with consumer.messages(max_msgs=10) as messages:
        assert numbers(messages, 100) == list(range(100))
        assert 5 <= messages.pending_msgs <= 10
        with pytest.raises(NextMsgTimeoutError):
            messages.next(0.05)
        with later(0.1, lambda: publish(js, stream_name, [100])):
            assert messages.next(TIMEOUT).data == b"100"


def test_no_more_is_on_its_way_than_asked_for(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 100))
    with consumer.messages(max_msgs=10) as messages:
        messages.next(TIMEOUT)
        until_sent(js, consumer, 10)
        assert consumer.info().num_ack_pending == 10
        assert messages.stop() == 9
    assert messages.stop() == 0


def test_bytes_as_the_limit(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 200))
    with consumer.messages(max_bytes=2000) as messages:
        assert numbers(messages, 200) == list(range(200))
        publish(js, stream_name, [200])
        js.api.core.publish(f"{stream_name}.0", bytes(5000))
        assert messages.next(TIMEOUT).data == b"200"
        with pytest.raises(PullRefusedError, match="Message Size Exceeds MaxBytes"):
            messages.next(TIMEOUT)
        with pytest.raises(PullRefusedError):
            messages.next(TIMEOUT)


def test_messages_and_bytes_as_limits(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 100))
    size = consumer.next(timeout=TIMEOUT).wire_size
    for options, most in (({"max_msgs": 10, "max_bytes": 100 * size}, 10), ({"max_msgs": 50}, 50)):
        with consumer.messages(**options) as messages:  # type: ignore[arg-type]  # a dict of options
            messages.next(TIMEOUT)
            assert messages.pending_msgs <= most
    with consumer.messages(max_msgs=50, max_bytes=5 * size) as messages:
        found = numbers(messages, 30)
        assert len(set(found)) == 30 and messages.stop() <= 6


@pytest.mark.parametrize("options", [{}, {"max_msgs": 2}, {"max_bytes": 300}])
def test_a_reader_that_stops_after_some_messages(
    js: JetStream, stream_name: str, options: dict[str, int]
) -> None:
    consumer = durable(filled(js, stream_name, 20))
    messages = consumer.messages(stop_after=7, **options)  # type: ignore[typeddict-item]  # as above
    assert [int(msg.data) for msg in messages] == list(range(7))
    with pytest.raises(MessagesClosedError):
        messages.next(TIMEOUT)
    assert consumer.info().num_ack_pending == 7  # no more was requested
    handled: list[int] = []
    context = consumer.consume(lambda msg: handled.append(int(msg.data)), stop_after=5)
    assert context.wait(TIMEOUT) and handled == list(range(7, 12))


def test_workers_stop_after_some_messages_together(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 20))
    handled: list[int] = []
    context = consumer.consume(lambda msg: handled.append(int(msg.data)), workers=3, stop_after=10)
    assert context.wait(TIMEOUT) and sorted(handled) == list(range(10))
    assert consumer.info().num_ack_pending == 10


def test_defaults_are_within_the_limits_of_the_consumer(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 50), max_batch=10, max_expires=2.0)
    with consumer.messages() as messages:
        assert numbers(messages, 50) == list(range(50))
        assert 5 <= messages.pending_msgs <= 10
    with pytest.raises(PullRefusedError, match="Exceeded MaxRequestBatch of 10"):
        consumer.messages(max_msgs=11).next(TIMEOUT)


def test_requests_that_expire_are_repeated(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 0))
    errors = Errors()
    with consumer.messages(expires=1.0, on_error=errors) as messages:
        begun = process_time()
        with pytest.raises(NextMsgTimeoutError, match=rf"on .*\.{stream_name}\.c within 1.6 s"):
            messages.next(1.6)
        assert process_time() - begun < 0.1
        publish(js, stream_name, [1])
        assert messages.next(TIMEOUT).data == b"1"
    assert errors.all == []


def test_stop_ends_those_who_wait(js: JetStream, stream_name: str) -> None:
    messages = durable(filled(js, stream_name, 3)).messages()
    assert numbers(messages, 2) == [0, 1]
    waiting = [Background(lambda: numbers(messages)) for _ in range(2)]
    with later(0.1, messages.stop):
        assert sum((call.result() for call in waiting), []) == [2]
    with pytest.raises(MessagesClosedError, match="was stopped"):
        messages.next(TIMEOUT)


def test_drain_leaves_what_has_come(js: JetStream, stream_name: str) -> None:
    stream = filled(js, stream_name, 100)
    consumer = durable(stream)
    messages = consumer.messages(max_msgs=20)
    messages.next(TIMEOUT)
    until_sent(js, consumer, 20)
    assert messages.drain() == 19
    assert numbers(messages) == list(range(1, 20))
    assert stream.consumer("c").cached_info.num_waiting == 0


def test_threads_share_the_messages(js: JetStream, stream_name: str) -> None:
    messages = durable(filled(js, stream_name, 1000)).messages(max_msgs=50)
    taken = threading.Semaphore(0)

    def take() -> list[int]:
        mine = []
        for msg in messages:
            mine.append(int(msg.data))
            taken.release()
        return mine

    calls = [Background(take) for _ in range(4)]
    for _ in range(1000):
        assert taken.acquire(timeout=TIMEOUT)
    messages.stop()
    assert sorted(sum((call.result() for call in calls), [])) == list(range(1000))


def test_a_consumer_that_is_deleted_under_its_reader(js: JetStream, stream_name: str) -> None:
    stream = filled(js, stream_name, 2)
    messages = durable(stream).messages()
    with later(0.2, lambda: stream.delete_consumer("c")):
        assert numbers(messages, 2) == [0, 1]
        with pytest.raises(ConsumerDeletedError):
            messages.next(TIMEOUT)
    assert isinstance(messages.error, ConsumerDeletedError)
    with pytest.raises(ConsumerDeletedError):
        next(messages)


def test_a_consumer_that_was_deleted_before(js: JetStream, stream_name: str) -> None:
    stream = filled(js, stream_name, 2)
    consumer = durable(stream)
    stream.delete_consumer("c")
    errors = Errors()
    with pytest.raises(ConsumerDeletedError):
        consumer.messages(on_error=errors).next(TIMEOUT)


def test_a_consumer_that_is_deleted_on_an_old_server(old_js: JetStream, stream_name: str) -> None:
    stream = filled(old_js, stream_name, 0)
    consumer = durable(stream)
    stream.delete_consumer("c")
    errors = Errors()
    with pytest.raises(ConsumerDeletedError):
        consumer.messages(heartbeat=0.1, on_error=errors).next(TIMEOUT)
    assert isinstance(errors.all[0], NoHeartbeatError)


def test_a_connection_that_is_lost(js: JetStream, js_server: NatsServer, stream_name: str) -> None:
    stream = filled(js, stream_name, 100)
    durable(stream, ack_wait=1.0)
    errors = Errors()
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        consumer = nc.jetstream().consumer(stream_name, "c")
        with consumer.messages(max_msgs=10, on_error=errors) as messages:
            found: set[int] = set()
            for cut_at in (20, 40, 60, 101):
                while len(found) < min(cut_at, 100):
                    msg = messages.next(TIMEOUT)
                    msg.ack()
                    found.add(int(msg.data))
                if cut_at < 100:
                    proxy.cut()
            assert found == set(range(100))
    assert (
        len([error for error in errors.all if isinstance(error, ConnectionReconnectingError)]) == 3
    )


def test_a_reader_that_begins_without_a_connection(
    js: JetStream, js_server: NatsServer, stream_name: str
) -> None:
    durable(filled(js, stream_name, 2))
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        consumer = nc.jetstream().consumer(stream_name, "c")
        proxy.cut()
        with consumer.messages(on_error=Errors()) as messages:
            assert numbers(messages, 2) == [0, 1]


def test_a_stall_is_noticed_by_missing_heartbeats(
    js: JetStream, js_server: NatsServer, stream_name: str
) -> None:
    durable(filled(js, stream_name, 0))
    errors = Errors()
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        consumer = nc.jetstream().consumer(stream_name, "c")
        with consumer.messages(expires=10.0, heartbeat=0.8, on_error=errors) as messages:

            def noticed() -> list[natsync.Error]:
                with pytest.raises(NextMsgTimeoutError):
                    messages.next(2.0)
                return errors.all

            assert noticed() == []
            proxy.link(0).to_client.stall()
            assert isinstance(eventually(noticed)[0], NoHeartbeatError)
            assert "no heartbeat for 1.6 s" in str(errors.all[0])
            proxy.link(0).to_client.resume()
            publish(js, stream_name, [1])
            assert messages.next(TIMEOUT).data == b"1"


def test_a_slow_reader_raises_no_false_alarm(js: JetStream, stream_name: str) -> None:
    """Heartbeats that came while the thread did something else count."""
    consumer = durable(filled(js, stream_name, 1))
    errors = Errors()
    with consumer.messages(expires=2.0, heartbeat=0.1, on_error=errors) as messages:
        messages.next(TIMEOUT)
        threading.Event().wait(0.5)
        with pytest.raises(NextMsgTimeoutError):
            messages.next(0.15)
    assert errors.all == []


def test_a_server_that_is_started_again(start_server: StartServer) -> None:
    server = start_server(JETSTREAM)
    errors = Errors()
    with natsync.connect(server.url) as nc:
        js = nc.jetstream()
        stream = filled(js, "S", 10, storage="file")
        with durable(stream).messages(max_msgs=5, on_error=errors) as messages:
            for number in range(5):
                msg = messages.next(TIMEOUT)
                assert int(msg.data) == number
                msg.ack_sync(TIMEOUT)
            server.stop()
            server.start()
            assert nc.wait_connected(TIMEOUT)
            found: set[int] = set()
            while len(found) < 5:
                msg = messages.next(TIMEOUT)
                found.add(int(msg.data))
                msg.ack_sync(TIMEOUT)
            assert found == set(range(5, 10))


def test_pinned_clients(js: JetStream, stream_name: str) -> None:
    """One reader gets everything, until the pin is taken from it."""
    stream = filled(js, stream_name, 4)
    config = ConsumerConfig(
        durable_name="c",
        priority_groups=["workers"],
        priority_policy="pinned_client",
        priority_timeout=60.0,
    )
    stream.create_consumer(config)
    errors = Errors()
    first = js.consumer(stream_name, "c").messages(max_msgs=4, on_error=errors)
    assert numbers(first, 4) == [0, 1, 2, 3]
    second = js.consumer(stream_name, "c").messages(max_msgs=4)
    publish(js, stream_name, [4])
    assert first.next(TIMEOUT).data == b"4"
    with pytest.raises(NextMsgTimeoutError):
        second.next(0.1)
    stream.unpin_consumer("c", "workers")
    publish(js, stream_name, range(5, 10))
    assert second.next(TIMEOUT).data == b"5"
    with pytest.raises(NextMsgTimeoutError):
        first.next(0.1)
    assert isinstance(errors.all[0], PinIdMismatchError)
    first.stop()
    second.stop()


def test_overflow_groups(js: JetStream, stream_name: str) -> None:
    """The second reader is served when enough is pending."""
    stream = filled(js, stream_name, 5)
    config = ConsumerConfig(
        durable_name="c", priority_groups=["workers"], priority_policy="overflow"
    )
    consumer = stream.create_consumer(config)
    with consumer.messages(max_msgs=1, min_pending=10) as overflow:
        with pytest.raises(NextMsgTimeoutError):
            overflow.next(0.1)
        publish(js, stream_name, range(5, 15))
        assert overflow.next(TIMEOUT).data == b"0"
    with pytest.raises(PullRefusedError, match="Invalid Priority Group"):
        consumer.messages(group="others").next(TIMEOUT)


def test_a_dropped_reader_leaves_no_subscription(
    js_client: Client, js: JetStream, js_server: NatsServer, stream_name: str
) -> None:
    consumer = durable(filled(js, stream_name, 10))
    for _ in consumer.messages():
        break
    del _
    js_client.flush()
    connections = js_server.monitor("connz?subs=1")["connections"]
    assert isinstance(connections, list)
    mine = js_client.server_info.client_id
    assert [len(each["subscriptions_list"]) for each in connections if each["cid"] == mine] == [1]


def test_a_client_that_is_closed(js_client: Client, js: JetStream, stream_name: str) -> None:
    messages = durable(filled(js, stream_name, 0)).messages()
    with later(0.1, js_client.close), pytest.raises(natsync.ConnectionClosedError):
        messages.next(TIMEOUT)


def test_a_stream_without_jetstream_any_more(js: JetStream, stream_name: str) -> None:
    stream = filled(js, stream_name, 0)
    messages = durable(stream).messages()
    with later(0.1, lambda: js.delete_stream(stream_name)):
        with pytest.raises(ConsumerDeletedError):
            messages.next(TIMEOUT)
    assert js.create_stream(StreamConfig(stream_name, storage="memory"))


@pytest.mark.parametrize("kind", ["messages", "ordered", "fetch"])
def test_an_outage_that_lasts_costs_no_time(
    js: JetStream, js_server: NatsServer, stream_name: str, kind: str
) -> None:
    """Longer than two heartbeats, which cannot come."""
    stream = filled(js, stream_name, 1)
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        consumer = durable(stream, ack_policy="none")
        reader = nc.jetstream().consumer(stream_name, consumer.name)
        ordered = nc.jetstream().ordered_consumer(stream_name)
        takes: dict[str, Callable[[float], object]] = {
            "messages": reader.messages(heartbeat=0.2, on_error=Errors()).next,
            "ordered": ordered.messages(heartbeat=0.2, on_error=Errors()).next,
            "fetch": lambda timeout: reader.fetch(1, timeout=timeout, heartbeat=0.2),
        }
        take = takes[kind]
        take(TIMEOUT) if kind != "fetch" else None
        proxy.admit(Admission.REFUSE)
        proxy.cut()
        begun = process_time()
        with pytest.raises((NextMsgTimeoutError, ConnectionReconnectingError)):
            take(1.5)
        print(kind, process_time() - begun)
        assert process_time() - begun < 0.5
        proxy.admit(Admission.FORWARD)
        assert nc.wait_connected(TIMEOUT)
        publish(js, stream_name, [1])
        assert take(TIMEOUT)


def test_connections_that_do_not_last_cost_no_pause(
    js: JetStream, js_server: NatsServer, stream_name: str
) -> None:
    """Each counted as a failed request, and began the pause anew, of up to ten seconds: on a network that
    cuts more often, a reader asked for nothing at all."""
    durable(filled(js, stream_name, 0))
    fast = partial(natsync.connect, reconnect_wait=0.01, reconnect_max_wait=0.05)
    with Proxy(js_server.host, js_server.port) as proxy, fast(proxy.url) as nc:
        consumer = nc.jetstream().consumer(stream_name, "c")
        with consumer.messages(max_msgs=1, on_error=Errors()) as messages:
            for cuts in range(1, 9):
                proxy.cut()
                with pytest.raises(NextMsgTimeoutError):
                    messages.next(0.2)
                eventually(lambda: nc.wait_connected(TIMEOUT) and nc.stats.reconnects == cuts)
            # The server keeps requests of earlier connections, each for one message.
            publish(js, stream_name, range(20))
            assert [int(messages.next(2).data) for _ in range(20)] == [*range(20)]
