"""Subscribing: every start, durables and queue groups, acknowledgements, and what is refused."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from queue import SimpleQueue

import pytest

import natsync
from natsync import streaming
from natsync.protocol import streaming as stan
from natsync.streaming import Msg, StartPosition

from tests.support.fake_streaming import SUBJECTS, FakeStreaming
from tests.support.servers import NatsServer
from tests.support.streaming_servers import CLUSTER, StreamingServer

pytestmark = pytest.mark.server

HOUR = timedelta(hours=1)


@pytest.fixture
def fake(server: NatsServer) -> Iterator[FakeStreaming]:
    with FakeStreaming(server.url) as running:
        yield running


@pytest.fixture
def sc(streaming_server: StreamingServer) -> Iterator[streaming.StreamingConnection]:
    with streaming.connect(CLUSTER, "subscriber", servers=streaming_server.url) as connected:
        yield connected


def fill(sc: streaming.StreamingConnection, channel: str, count: int) -> None:
    """Numbers from 1: the data of a message is its sequence."""
    for number in range(1, count + 1):
        sc.publish(channel, b"%d" % number)


def sequences(sub: streaming.Subscription, count: int) -> list[int]:
    return [sub.next_msg(10).sequence for _ in range(count)]


STARTS = [
    ({}, 6),
    ({"start": StartPosition.NEW_ONLY}, 6),
    ({"start": StartPosition.FIRST}, 1),
    ({"start": StartPosition.LAST_RECEIVED}, 5),
    ({"start_sequence": 3}, 3),
    ({"start_sequence": 2**64 - 1}, 6),
    ({"start_time": datetime.now(timezone.utc) - HOUR}, 1),
    ({"start_time": datetime.now() - HOUR}, 1),
    ({"start_time": datetime.now(timezone.utc) + HOUR}, 6),
    ({"start_time_delta": HOUR}, 1),
    ({"start_time_delta": 3600}, 1),
    ({"start_time_delta": 0}, 6),
]


@pytest.mark.parametrize("start, first", STARTS, ids=lambda value: str(value)[:40])
def test_where_it_begins(
    sc: streaming.StreamingConnection, start: dict[str, object], first: int
) -> None:
    channel = f"starts-{STARTS.index((start, first))}"
    fill(sc, channel, 5)
    sub = sc.subscribe(channel, **start)
    sc.publish(channel, b"6")
    assert sequences(sub, 7 - first) == list(range(first, 7))


def test_the_time_of_a_message_is_where_it_begins(sc: streaming.StreamingConnection) -> None:
    """The server counts back from when the request comes: a little later than this client does."""
    fill(sc, "times", 2)
    time.sleep(0.4)
    fill(sc, "times", 2)
    sub = sc.subscribe("times", start=StartPosition.FIRST)
    third = [sub.next_msg(10) for _ in range(3)][-1]
    again = sc.subscribe("times", start_time=third.time - timedelta(milliseconds=300))
    assert again.next_msg(10).sequence == third.sequence == 3


@pytest.mark.parametrize(
    "options, error",
    [
        ({"start_sequence": 0}, natsync.OptionError),
        ({"start_sequence": 2**64}, natsync.OptionError),
        ({"start_sequence": 1.5}, TypeError),
        ({"start_sequence": 1, "start": StartPosition.FIRST}, natsync.OptionError),
        ({"start": StartPosition.SEQUENCE_START}, natsync.OptionError),
        ({"start": 7}, natsync.OptionError),
        ({"start": "FIRST"}, natsync.OptionError),
        ({"start_time": 5}, TypeError),
        ({"start_time_delta": "1"}, TypeError),
        ({"start_time_delta": 1e10}, natsync.OptionError),
        ({"start_time_delta": float("inf")}, natsync.OptionError),
        ({"max_in_flight": 0}, natsync.OptionError),
        ({"max_in_flight": 2**31}, natsync.OptionError),
        ({"ack_wait": 0.5}, natsync.OptionError),
        ({"ack_wait": 1.5}, natsync.OptionError),
        ({"queue": 5}, TypeError),
        ({"handler": 5}, TypeError),
        ({"queue": "q", "durable": "a:b"}, natsync.OptionError),
    ],
    ids=str,
)
def test_options_that_make_no_sense(
    sc: streaming.StreamingConnection, options: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        sc.subscribe("a", **options)
    with pytest.raises(streaming.InvalidChannelError):
        sc.subscribe("a.>")


def test_a_handler_gets_them_in_order(sc: streaming.StreamingConnection) -> None:
    came: SimpleQueue[Msg] = SimpleQueue()
    fill(sc, "handled", 3)
    sub = sc.subscribe("handled", handler=came.put, start=StartPosition.FIRST)
    assert [came.get(timeout=10).sequence for _ in range(3)] == [1, 2, 3]
    with pytest.raises(natsync.SyncSubRequiredError):
        sub.next_msg()
    with pytest.raises(natsync.SyncSubRequiredError):
        iter(sub)
    sub.close()
    assert sub.closed


def test_a_loop_ends_where_it_is_closed(sc: streaming.StreamingConnection) -> None:
    fill(sc, "loop", 3)
    with sc.subscribe("loop", start=StartPosition.FIRST) as sub:
        came = []
        for msg in sub:
            came.append(msg.sequence)
            if len(came) == 3:
                sub.close()
    assert came == [1, 2, 3]
    with pytest.raises(natsync.BadSubscriptionError):
        sub.next_msg()
    with pytest.raises(natsync.NextMsgTimeoutError, match="on loop within 0.01 s"):
        sc.subscribe("loop").next_msg(0.01)


def test_a_durable_goes_on_after_it_was_closed(sc: streaming.StreamingConnection) -> None:
    fill(sc, "durable", 5)
    with sc.subscribe("durable", durable="d", start=StartPosition.FIRST) as sub:
        assert sequences(sub, 2) == [1, 2]
    with sc.subscribe("durable", durable="d", start=StartPosition.FIRST) as sub:
        assert [sub.durable, sub.queue, sub.channel] == ["d", "", "durable"]
        assert repr(sub).startswith("Subscription('durable', durable='d', ")
        assert sequences(sub, 3) == [3, 4, 5]
        with pytest.raises(streaming.DuplicateDurableError, match="subscribing to 'durable'"):
            sc.subscribe("durable", durable="d")


def test_a_durable_goes_on_after_the_client_was_closed(streaming_server: StreamingServer) -> None:
    url = streaming_server.url
    with streaming.connect(CLUSTER, "comes-back", servers=url) as sc:
        fill(sc, "comes-back", 5)
        sub = sc.subscribe("comes-back", durable="d", start=StartPosition.FIRST)
        assert sequences(sub, 2) == [1, 2]
    with streaming.connect(CLUSTER, "comes-back", servers=url) as sc:
        assert sequences(sc.subscribe("comes-back", durable="d"), 3) == [3, 4, 5]


def test_unsubscribing_forgets_a_durable(sc: streaming.StreamingConnection) -> None:
    fill(sc, "forgets", 2)
    sub = sc.subscribe("forgets", durable="d", start=StartPosition.FIRST)
    assert sequences(sub, 2) == [1, 2]
    sub.unsubscribe()
    sub = sc.subscribe("forgets", durable="d", start=StartPosition.FIRST)
    assert sequences(sub, 2) == [1, 2]


def test_members_of_a_queue_group_share(sc: streaming.StreamingConnection) -> None:
    came: SimpleQueue[tuple[str, int]] = SimpleQueue()
    subs = [
        sc.subscribe(
            "shared",
            queue="q",
            max_in_flight=2,
            handler=lambda msg, name=name: came.put((name, msg.sequence)),
        )
        for name in "ab"
    ]
    assert {sub.queue for sub in subs} == {"q"}
    fill(sc, "shared", 60)
    got = [came.get(timeout=10) for _ in range(60)]
    assert sorted(sequence for _, sequence in got) == list(range(1, 61))
    assert set(Counter(name for name, _ in got)) == {"a", "b"}


def test_a_durable_queue_group_goes_on_without_members(
    streaming_server: StreamingServer, sc: streaming.StreamingConnection
) -> None:
    fill(sc, "group", 4)
    with sc.subscribe("group", queue="q", durable="d", start=StartPosition.FIRST) as sub:
        assert sequences(sub, 2) == [1, 2]
    with streaming.connect(CLUSTER, "another", servers=streaming_server.url) as other:
        assert sequences(other.subscribe("group", queue="q", durable="d"), 2) == [3, 4]


def test_what_is_not_acknowledged_comes_again(sc: streaming.StreamingConnection) -> None:
    """Once it was not for `ack_wait`; and no more come than `max_in_flight`."""
    fill(sc, "again", 3)
    sub = sc.subscribe(
        "again",
        start=StartPosition.FIRST,
        manual_acks=True,
        max_in_flight=2,
        ack_wait=1,
    )
    first, second = sub.next_msg(10), sub.next_msg(10)
    assert (first.redelivered, first.redelivery_count) == (False, 0)
    second.ack()
    assert sub.next_msg(10).sequence == 3
    again = {msg.sequence: msg for msg in (sub.next_msg(10), sub.next_msg(10))}
    assert again.keys() == {1, 3}
    assert (again[1].redelivered, again[1].redelivery_count) == (True, 1)
    for msg in again.values():
        msg.ack()
    sub.close()
    with pytest.raises(natsync.BadSubscriptionError):
        first.ack()


def test_what_a_handler_fails_on_comes_again(streaming_server: StreamingServer) -> None:
    errors: SimpleQueue[natsync.Error] = SimpleQueue()
    came: SimpleQueue[Msg] = SimpleQueue()

    def handle(msg: Msg) -> None:
        came.put(msg)
        if not msg.redelivered:
            raise KeyError("surprise")

    with natsync.connect(streaming_server.url, on_error=errors.put) as nc:
        with streaming.connect(CLUSTER, "fails", nc=nc) as sc:
            sc.publish("fails", b"1")
            sc.subscribe("fails", handler=handle, start=StartPosition.FIRST, ack_wait=1)
            assert [came.get(timeout=10).redelivered for _ in range(2)] == [False, True]
    error = errors.get(timeout=10)
    assert isinstance(error, natsync.HandlerError) and isinstance(error.__cause__, KeyError)


def test_automatic_and_manual_acks_do_not_mix(sc: streaming.StreamingConnection) -> None:
    sc.publish("mixed", b"1")
    msg = sc.subscribe("mixed", start=StartPosition.FIRST).next_msg(10)
    with pytest.raises(streaming.ManualAckError):
        msg.ack()


def test_many_are_taken_faster_than_they_are_asked_for(sc: streaming.StreamingConnection) -> None:
    futures = [sc.publish_async("many", b"x") for _ in range(5000)]
    sub = sc.subscribe("many", start=StartPosition.FIRST, max_in_flight=5000)
    futures[-1].result(20)
    assert sequences(sub, 5000) == list(range(1, 5001))


# What only a strange server does.


def test_a_subscription_that_is_not_answered(fake: FakeStreaming, server: NatsServer) -> None:
    """The server may have made it, so it is told to end it."""
    fake.subscribe = lambda request: None
    with natsync.connect(server.url) as nc:
        with streaming.connect("fake", "me", nc=nc, connect_timeout=0.2) as sc:
            with pytest.raises(natsync.RequestTimeoutError):
                sc.subscribe("a")
            request = stan.SubscriptionRequest.parse(fake.wait_request("fake.sub"))
            close = stan.UnsubscribeRequest.parse(fake.wait_request("fake.subclose"))
            assert close == stan.UnsubscribeRequest("me", "a", request.inbox)


def test_a_subscription_whose_answer_was_lost(fake: FakeStreaming, server: NatsServer) -> None:
    """The same, where the NATS connection breaks: told when it is there again."""
    fake.subscribe = lambda request: None
    with natsync.connect(server.url) as nc, streaming.connect("fake", "me", nc=nc) as sc:
        breaks = threading.Thread(target=lambda: (fake.wait_request("fake.sub"), nc.reconnect()))
        breaks.start()
        with pytest.raises(natsync.ConnectionReconnectingError):
            sc.subscribe("a", durable="d")
        breaks.join()
        close = stan.UnsubscribeRequest.parse(fake.wait_request("fake.subclose"))
        assert (close.client_id, close.subject) == ("me", "a")


@pytest.mark.parametrize(
    "answer, reason",
    [(b"\xff", "truncated"), (b"", "without an inbox"), (b"\x10\x01", "ack_inbox with wire type")],
)
def test_an_answer_that_is_none(
    fake: FakeStreaming, server: NatsServer, answer: bytes, reason: str
) -> None:
    fake.subscribe = lambda request: answer
    with streaming.connect("fake", "me", servers=server.url) as sc:
        with pytest.raises(streaming.ResponseError, match=reason):
            sc.subscribe("a", handler=lambda msg: None)


def test_a_refused_subscription_and_a_refused_end(fake: FakeStreaming, server: NatsServer) -> None:
    with streaming.connect("fake", "me", servers=server.url) as sc:
        sub = sc.subscribe("a")
        fake.leave = lambda request: stan.SubscriptionResponse(error="stan: no").to_bytes()
        with pytest.raises(streaming.RefusedError, match="unsubscribing from 'a': stan: no"):
            sub.unsubscribe()
        assert sub.closed
        fake.leave = lambda request: b""
        fake.wait_request("fake.unsub")
        sub.unsubscribe()  # asks again, and then no more
        sub.unsubscribe()
        fake.wait_request("fake.unsub")
        assert fake.requests.empty()
        fake.subscribe = lambda request: stan.SubscriptionResponse(error="stan: no").to_bytes()
        with pytest.raises(streaming.RefusedError, match="subscribing to 'a': stan: no"):
            sc.subscribe("a")


def test_an_end_whose_answer_was_lost(fake: FakeStreaming, server: NatsServer) -> None:
    """Asked again, the server does not know the subscription any more."""
    with streaming.connect("fake", "me", servers=server.url, connect_timeout=0.2) as sc:
        sub = sc.subscribe("a")
        fake.leave = lambda request: None
        with pytest.raises(natsync.RequestTimeoutError):
            sub.close()
        unknown = stan.SubscriptionResponse(error="stan: invalid subscription").to_bytes()
        fake.leave = lambda request: unknown
        sub.close()
        with pytest.raises(streaming.RefusedError):
            sc.subscribe("a").close()
        fake.leave = lambda request: b""


def test_a_server_that_cannot_close_a_subscription(fake: FakeStreaming, server: NatsServer) -> None:
    fake.connect = lambda request: stan.ConnectResponse(
        SUBJECTS.pub_prefix,
        SUBJECTS.sub_requests,
        SUBJECTS.unsub_requests,
        SUBJECTS.close_requests,
    ).to_bytes()
    with streaming.connect("fake", "me", servers=server.url) as sc:
        sub = sc.subscribe("a")
        with pytest.raises(streaming.UnsupportedError):
            sub.close()
        sub.unsubscribe()


def test_bytes_that_are_no_message(fake: FakeStreaming, server: NatsServer) -> None:
    """The one who asks gets the error, and may go on."""
    with streaming.connect("fake", "me", servers=server.url) as sc:
        sub = sc.subscribe("a")
        inbox = stan.SubscriptionRequest.parse(fake.wait_request("fake.sub")).inbox
        fake.nc.publish(inbox, b"\xff\xff")
        fake.nc.publish(inbox, stan.MsgProto(1, "a", "", b"good", 5).to_bytes())
        with pytest.raises(streaming.ResponseError, match="channel a: MsgProto with"):
            sub.next_msg(10)
        assert sub.next_msg(10).data == b"good"
        assert stan.Ack.parse(fake.wait_request("fake.acks")) == stan.Ack("a", 1)


def test_a_message_that_comes_before_the_answer(fake: FakeStreaming, server: NatsServer) -> None:
    """It is handled, and acknowledged, when it is known where to."""

    def subscribe(request: bytes) -> bytes:
        inbox = stan.SubscriptionRequest.parse(request).inbox
        fake.nc.publish(inbox, stan.MsgProto(1, "a", "", b"early", 5).to_bytes())
        fake.nc.flush()
        return stan.SubscriptionResponse("fake.acks").to_bytes()

    fake.subscribe = subscribe
    came: SimpleQueue[Msg] = SimpleQueue()
    with streaming.connect("fake", "me", servers=server.url) as sc:
        sc.subscribe("a", handler=came.put)
        assert came.get(timeout=10).data == b"early"
        assert stan.Ack.parse(fake.wait_request("fake.acks")) == stan.Ack("a", 1)


def test_a_message_that_comes_before_a_refusal(fake: FakeStreaming, server: NatsServer) -> None:
    """Nobody handles it: there is no subscription."""

    def subscribe(request: bytes) -> bytes:
        inbox = stan.SubscriptionRequest.parse(request).inbox
        fake.nc.publish(inbox, stan.MsgProto(1, "a", "", b"early", 5).to_bytes())
        fake.nc.flush()
        return stan.SubscriptionResponse(error="stan: no").to_bytes()

    came: SimpleQueue[Msg] = SimpleQueue()
    with streaming.connect("fake", "me", servers=server.url) as sc:
        good = fake.subscribe
        fake.subscribe = subscribe
        with pytest.raises(streaming.RefusedError):
            sc.subscribe("a", handler=came.put)
        fake.subscribe = good
        sc.subscribe("a")
        sc.publish("a")
    assert came.empty()
