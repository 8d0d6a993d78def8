"""Fetching from a real server: as many as wanted, as many as there are, and what ends it early."""

from __future__ import annotations

from time import monotonic
from typing import cast

import pytest

import natsync
from natsync import Client
from natsync.core import Core
from natsync.errors import (
    ConnectionReconnectingError,
    NextMsgTimeoutError,
    OptionError,
    PermissionsViolationError,
)
from natsync.jetstream import (
    AckWaitExpiredError,
    ConsumerDeletedError,
    JetStream,
    NotPullConsumerError,
    PullRefusedError,
)
from natsync.jetstream.consumer import consumer_ref
from natsync.jetstream.fetch import Fetch, FetchPlan, FetchSupply
from natsync.jetstream.inbox import ConsumerRef, Inbox
from natsync.jetstream.pull_requests import MANY, Meaning, Pin, PullStatus
from natsync.jetstream.supply import Effect, Then

from tests.jetstream.streams import TIMEOUT, durable, filled, later, numbers, publish
from tests.support.fake_server import Background
from tests.support.proxy import Admission, Proxy
from tests.support.servers import NatsServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.server


def test_as_many_as_wanted_at_once(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 10))
    begun = monotonic()
    assert numbers(consumer.fetch(4, timeout=TIMEOUT)) == [0, 1, 2, 3]
    assert numbers(consumer.fetch(4, timeout=TIMEOUT)) == [4, 5, 6, 7]
    assert monotonic() - begun < TIMEOUT / 2


def test_those_that_came_in_time(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 3))
    assert numbers(consumer.fetch(10, timeout=0.2)) == [0, 1, 2]
    begun = monotonic()
    assert consumer.fetch(10, timeout=0.2) == []
    assert 0.1 < monotonic() - begun < 2


def test_messages_that_come_later(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 1))
    with later(0.1, lambda: publish(js, stream_name, [1, 2])):
        assert numbers(consumer.fetch(3, timeout=TIMEOUT)) == [0, 1, 2]


def test_a_permission_that_is_lost_leaves_no_inbox_for_the_next_fetch(
    js: JetStream, stream_name: str
) -> None:
    source = consumer_ref(js.api, durable(filled(js, stream_name, 1), "c").cached_info)
    inbox = Inbox(source)
    fetch = Fetch(source, inbox, FetchPlan(5), monotonic() + TIMEOUT, 0.0)
    waiting = Background(fetch.run)
    eventually(lambda: inbox.received)
    inbox._sub._sink.refuse(PermissionsViolationError("no", "publish", "next"))
    js.api.core.publish(inbox.subject, b"wakes who drives")
    found = waiting.result()
    assert isinstance(found.error, PermissionsViolationError) and not fetch.clean
    inbox.abandon()


def test_without_a_timeout_it_waits_for_one_message(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 0))
    with later(0.2, lambda: publish(js, stream_name, [7])):
        assert numbers(consumer.fetch(1, timeout=None)) == [7]


def test_fetch_no_wait_returns_what_there_is(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 3))
    begun = monotonic()
    assert numbers(consumer.fetch_no_wait(10)) == [0, 1, 2]
    assert numbers(consumer.fetch_no_wait(10)) == []
    assert monotonic() - begun < 2


def test_fetch_bytes_returns_messages_up_to_a_size(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 0))
    for number in range(5):
        js.api.core.publish(f"{stream_name}.0", bytes(300), headers={"Number": str(number)})
    found = consumer.fetch_bytes(1000, timeout=TIMEOUT)
    assert len(found) == 2
    assert found.error is None
    assert sum(msg.wire_size for msg in found) <= 1000 < found[0].wire_size * 3
    assert [msg.headers["Number"] for msg in consumer.fetch_bytes(1000)] == ["2", "3"]
    with pytest.raises(PullRefusedError, match="Message Size Exceeds MaxBytes"):
        consumer.fetch_bytes(100)
    assert len(consumer.fetch(1)) == 1


def test_next_returns_one_message(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 1))
    msg = consumer.next()
    assert (msg.data, msg.metadata.stream_seq) == (b"0", 1)
    with pytest.raises(NextMsgTimeoutError, match="0.2 s"):
        consumer.next(0.2)


def subscriptions(js: JetStream, server: NatsServer) -> list[str]:
    """Returns the subjects of the connection's subscriptions, as the server knows them."""
    js.api.core.flush()
    connections = server.monitor("connz?subs=1")["connections"]
    assert isinstance(connections, list)
    mine = js.api.core.server_info.client_id
    return sorted(
        sub for each in connections if each["cid"] == mine for sub in each["subscriptions_list"]
    )


def test_fetches_share_a_subscription(
    js: JetStream, js_server: NatsServer, stream_name: str
) -> None:
    consumer = durable(filled(js, stream_name, 30))
    consumer.fetch(2)
    subjects = subscriptions(js, js_server)
    assert len(subjects) == 2  # replies, and fetches
    for _ in range(9):
        consumer.fetch(2)
    assert consumer.fetch_no_wait(20)
    assert consumer.fetch(1, timeout=0.05) == []
    assert subscriptions(js, js_server) == subjects
    del consumer
    assert len(subscriptions(js, js_server)) == 1


def test_threads_that_fetch_at_the_same_time(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 400))

    def some() -> list[int]:
        return [number for _ in range(10) for number in numbers(consumer.fetch(10))]

    calls = [Background(some) for _ in range(4)]
    assert sorted(number for call in calls for number in call.result()) == list(range(400))


def test_a_consumer_that_is_deleted(js: JetStream, stream_name: str) -> None:
    stream = filled(js, stream_name, 2)
    consumer = durable(stream)
    with later(0.2, lambda: stream.delete_consumer("c")):
        found = consumer.fetch(5, timeout=TIMEOUT)
    assert numbers(found) == [0, 1]
    assert isinstance(found.error, ConsumerDeletedError)
    begun = monotonic()
    with pytest.raises(ConsumerDeletedError, match=stream_name):
        consumer.fetch(5, timeout=TIMEOUT)
    assert monotonic() - begun < TIMEOUT / 2


def test_a_consumer_that_is_deleted_on_an_old_server(old_js: JetStream, stream_name: str) -> None:
    """Which answers no request for it: the heartbeats are missed, or the end."""
    stream = filled(old_js, stream_name, 0)
    consumer = durable(stream)
    assert consumer.fetch(5, timeout=0.1) == []
    stream.delete_consumer("c")
    with pytest.raises(ConsumerDeletedError):
        consumer.fetch(5, timeout=TIMEOUT, heartbeat=0.2)
    for call in (lambda: consumer.fetch(5, timeout=0.1), lambda: consumer.next(0.1)):
        with pytest.raises(ConsumerDeletedError):
            call()


def test_limits_of_the_consumer(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 2), max_batch=5)
    with pytest.raises(PullRefusedError, match="Exceeded MaxRequestBatch of 5") as caught:
        consumer.fetch(6, timeout=TIMEOUT)
    assert (caught.value.status, caught.value.stream) == (409, stream_name)
    assert numbers(consumer.fetch(5, timeout=0.1)) == [0, 1]


def test_waits_that_are_longer_than_the_consumer_allows(js: JetStream, stream_name: str) -> None:
    """They take several requests."""
    consumer = durable(filled(js, stream_name, 0), max_expires=0.2)
    with later(0.5, lambda: publish(js, stream_name, [7])):
        assert numbers(consumer.fetch(1, timeout=None)) == [7]
    with later(0.5, lambda: publish(js, stream_name, [8])):
        assert numbers([consumer.next()]) == [8]
    with later(0.5, lambda: publish(js, stream_name, [9])):
        assert numbers(consumer.fetch(2, timeout=1.0)) == [9]
    begun = monotonic()
    assert consumer.fetch(1, timeout=0.5) == [] and 0.4 < monotonic() - begun < 1.4


def test_limits_in_bytes_stay_within_those_of_the_consumer(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 25), max_batch=5)
    assert numbers(consumer.fetch_bytes(100_000, timeout=TIMEOUT)) == [0, 1, 2, 3, 4]
    with consumer.messages(max_bytes=100_000) as messages:
        assert numbers(messages, 20) == list(range(5, 25))


def test_no_wait_does_not_wait_without_a_timeout(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 0))
    assert Background(lambda: consumer.fetch_no_wait(1, timeout=None)).result() == []


def test_a_push_consumer(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 0), deliver_subject="elsewhere." + stream_name)
    for call in (consumer.fetch, consumer.next, consumer.messages, lambda: consumer.consume(print)):
        with pytest.raises(NotPullConsumerError, match="push consumer"):
            call()


def test_a_connection_that_is_lost_meanwhile(
    js: JetStream, js_server: NatsServer, stream_name: str
) -> None:
    """What is missing is asked for again, once: nothing comes twice."""

    filled(js, stream_name, 2)
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        durable(js.stream(stream_name), ack_wait=60.0)
        consumer = nc.jetstream().consumer(stream_name, "c")

        def cut() -> None:
            proxy.cut()
            proxy.link(1)
            publish(js, stream_name, [2, 3, 4])

        with later(0.2, cut):
            assert numbers(consumer.fetch(4, timeout=TIMEOUT)) == [0, 1, 2, 3]
        assert numbers(consumer.fetch(4, timeout=0.2)) == [4]
        proxy.cut()
        assert nc.wait_connected(TIMEOUT)
        publish(js, stream_name, range(5, 9))
        assert numbers(consumer.fetch(4, timeout=TIMEOUT)) == [5, 6, 7, 8]


def test_fetch_without_a_connection_raises(
    js: JetStream, js_server: NatsServer, stream_name: str
) -> None:

    durable(filled(js, stream_name, 2))
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        consumer = nc.jetstream().consumer(stream_name, "c")
        proxy.admit(Admission.REFUSE)
        proxy.cut()
        with pytest.raises(ConnectionReconnectingError):
            consumer.fetch(1, timeout=0.3)
        proxy.admit(Admission.FORWARD)
        assert numbers(consumer.fetch(2, timeout=TIMEOUT)) == [0, 1]


def test_a_closed_client(js_client: Client, js: JetStream, stream_name: str) -> None:

    consumer = durable(filled(js, stream_name, 0))
    with later(0.2, js_client.close), pytest.raises(natsync.ConnectionClosedError):
        consumer.fetch(1, timeout=TIMEOUT)
    with pytest.raises(natsync.ConnectionClosedError):
        consumer.fetch(1, timeout=TIMEOUT)


def test_arguments_that_make_no_sense(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 0))
    for call in (consumer.fetch, consumer.fetch_no_wait, consumer.fetch_bytes):
        with pytest.raises(OptionError):
            call(0)
        with pytest.raises(TypeError):
            call("1")  # type: ignore[arg-type]  # what is refused
    for wrong in ({"heartbeat": -1.0}, {"priority": 10}, {"min_pending": -1}):
        with pytest.raises(OptionError, match=f"{[*wrong][0]}"):
            consumer.fetch(1, **wrong)  # type: ignore[arg-type]  # ints among them


def test_heartbeats_are_asked_for_where_it_is_worth_it() -> None:
    plan = FetchPlan(1)
    assert plan.request(1, 0, 2.0, "").heartbeat == 0
    assert plan.request(1, 0, 30.0, "").heartbeat == 5
    assert FetchPlan(1, heartbeat=20.0).request(1, 0, 30.0, "").heartbeat == 15


def supply(plan: FetchPlan, until: float) -> FetchSupply:
    """The supply of a fetch, whose clock the test holds."""
    source = ConsumerRef(cast(Core, None), "S", "c", "next", True, check, Pin(), None)
    return FetchSupply(plan, source, until, 0.0)


def check(timeout: float) -> None:
    raise AssertionError("nobody looks")


def test_a_fetch_of_ten_seconds_asks_for_heartbeats() -> None:
    request = supply(FetchPlan(1), 110.0).request(100.01, True)
    assert request is not None
    assert request.heartbeat == pytest.approx(5, abs=0.1)


def test_a_fetch_that_has_all_its_bytes_does_not_ask_again() -> None:
    """After an outage: what is missing is nothing, and a request for no bytes has no limit."""
    fetch = supply(FetchPlan(MANY, 100), 101.0)
    request = fetch.request(100.0, True)
    assert request and request.max_bytes == 100
    fetch.message(100)
    assert fetch.over
    fetch.status(PullStatus(Meaning.AWAY, ConnectionReconnectingError()), 100.1)
    fetch.status(PullStatus(Meaning.RECONNECTED), 100.2)
    assert fetch.request(100.2, True) is None
    assert fetch.end() is None and fetch.clean


def test_a_request_that_is_void_is_repeated_for_what_is_missing() -> None:
    fetch = supply(FetchPlan(5, max_bytes=1000), 110.0)
    assert fetch.request(100.0, True) is not None
    assert fetch.request(100.0, True) is None  # one is open
    fetch.message(300)
    fetch.message(300)
    fetch.status(PullStatus(Meaning.AWAY, ConnectionReconnectingError()), 101.0)
    assert fetch.request(101.0, False) is None
    fetch.status(PullStatus(Meaning.RECONNECTED), 102.0)
    request = fetch.request(102.0, True)
    assert request and (request.batch, request.max_bytes, request.expires) == (3, 400, 8.0)


def test_what_has_expired_is_not_waited_for() -> None:
    fetch = supply(FetchPlan(2), 110.0)
    fetch.request(100.0, True)
    error = AckWaitExpiredError("S", "c", 1.0, 1)
    effect = fetch.status(PullStatus(Meaning.EXPIRED, error, size=10), 100.5)
    assert effect == Effect(Then.GO_ON, error)
    fetch.message(10)
    assert fetch.over and fetch.end() is None


def test_a_fetch_waits_a_little_longer_than_its_time_for_the_end() -> None:
    fetch = supply(FetchPlan(2), 101.0)
    fetch.request(100.0, True)
    assert fetch.wake(100.5, 0.0, True) == 102.0
    assert fetch.look(101.5, 0.0, True) is None and not fetch.over
    assert fetch.look(102.0, 0.0, True) == Effect(Then.CHECK)
    assert fetch.over and not fetch.clean
