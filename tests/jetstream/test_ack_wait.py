"""Messages that wait in a reader until their `ack_wait` is over: no two workers handle one."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from natsync import Client
from natsync.errors import NextMsgTimeoutError, OptionError
from natsync.jetstream import (
    AckWaitExpiredError,
    ConsumeContext,
    ConsumerConfig,
    JetStream,
    JetStreamMsg,
    PushConsumer,
)
from natsync.jetstream.ack_wait import ack_times
from natsync.protocol import Msg as MsgFrame

from tests.jetstream.streams import (
    TIMEOUT,
    Errors,
    Gathered,
    durable,
    filled,
    numbers,
    publish,
    until_sent,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.server

COUNT = 20
WAIT = 0.5


class Busy:
    """A handler whose first call lasts until `go` is set; each acknowledges its message."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.runs: Counter[int] = Counter()

    def __call__(self, msg: JetStreamMsg) -> None:
        self.runs[int(msg.data)] += 1
        msg.ack()
        self.begun.set()
        assert self.go.wait(TIMEOUT)

    @contextmanager
    def holding(self, consuming: ConsumeContext) -> Iterator[None]:
        """A block that begins when the first call has begun, and at whose end it goes on."""
        with consuming:
            assert self.begun.wait(TIMEOUT)
            try:
                yield
            finally:
                self.go.set()


@pytest.mark.parametrize("workers", [1, 2])
def test_two_readers_handle_each_message_once(
    js: JetStream, stream_name: str, workers: int
) -> None:
    consumer = durable(filled(js, stream_name, COUNT), ack_wait=WAIT)
    slow, errors = Busy(), Errors()
    quick = Gathered()
    one = consumer.consume(slow, workers=workers, max_msgs=COUNT, on_error=errors)
    with slow.holding(one):
        eventually(lambda: len(slow.runs) == workers)
        with consumer.consume(quick):
            quick.wait(COUNT - workers)
            slow.go.set()
            eventually(lambda: one.expired == COUNT - workers)
    assert Counter(quick.numbers) + slow.runs == Counter(range(COUNT))
    assert [type(error) for error in errors.all] == [AckWaitExpiredError]
    assert str(errors.all[0]) == (
        f"consumer c of stream {stream_name}: 1 messages have waited here for longer than their "
        "ack_wait of 0.5 s; ask for fewer with max_msgs"
    )


def test_an_iterator_leaves_them_out_too(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, COUNT), ack_wait=WAIT)
    errors, quick = Errors(), Gathered()
    with consumer.messages(max_msgs=COUNT, on_error=errors) as messages:
        messages.next(TIMEOUT).ack()
        with consumer.consume(quick):
            quick.wait(COUNT - 1)
        publish(js, stream_name, [COUNT])
        assert numbers(messages, 1) == [COUNT]
        assert messages.expired == COUNT - 1
    assert [type(error) for error in errors.all] == [AckWaitExpiredError]


def test_each_episode_is_told(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 2), ack_wait=WAIT)
    errors, quick = Errors(), Gathered()
    with consumer.messages(max_msgs=2, threshold=0, on_error=errors) as messages:
        for episode in (1, 2):
            messages.next(TIMEOUT).ack()
            with consumer.consume(quick):
                quick.wait(episode)
            publish(js, stream_name, [2 * episode, 2 * episode + 1])
            assert len(errors.all) == episode - 1
            with pytest.raises(NextMsgTimeoutError):
                while True:
                    messages.next(0.1).ack()
            publish(js, stream_name, [10 * episode, 10 * episode + 1])
    assert [getattr(error, "expired", 0) for error in errors.all] == [1, 2]


def push_consumer(js: JetStream, name: str, **options: object) -> PushConsumer:
    durable(js.stream(name), deliver_subject=js.api.core.new_inbox(), deliver_group="g", **options)
    return js.push_consumer(name, "c")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_push_consumer_leaves_them_out_too(
    js: JetStream, js_client: Client, stream_name: str, workers: int
) -> None:
    filled(js, stream_name, 0)
    consumer = push_consumer(js, stream_name, ack_wait=WAIT)
    slow, errors, quick = Busy(), Errors(), Gathered()
    one = consumer.consume(slow, workers=workers, on_error=errors)
    publish(js, stream_name, range(COUNT))
    with slow.holding(one):
        eventually(lambda: len(slow.runs) == workers)
        js_client.flush()
        with consumer.consume(quick):  # the server delivers to either
            eventually(lambda: js.stream(stream_name).consumer("c").info().num_redelivered > 0)
            slow.go.set()
            eventually(lambda: one.expired > 0)
            eventually(lambda: js.stream(stream_name).consumer("c").info().num_ack_pending == 0)
    assert Counter(quick.numbers) + slow.runs == Counter(range(COUNT))
    assert AckWaitExpiredError in map(type, errors.all)


def test_what_would_be_delivered_no_more_is_handed_out(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, COUNT), ack_wait=WAIT, max_deliver=1)
    slow = Busy()
    consuming = consumer.consume(slow, max_msgs=COUNT)
    with slow.holding(consuming):
        until_sent(js, consumer, COUNT)
        eventually(lambda: consumer.info().num_ack_pending == 0)  # the server has given them up
        slow.go.set()
        eventually(lambda: len(slow.runs) == COUNT)
        assert consuming.expired == 0


def test_what_a_later_acknowledgement_would_settle_is_handed_out(
    js: JetStream, stream_name: str
) -> None:
    consumer = durable(filled(js, stream_name, COUNT), ack_wait=WAIT, ack_policy="all")
    slow = Busy()
    consuming = consumer.consume(slow, max_msgs=COUNT)
    with slow.holding(consuming):
        until_sent(js, consumer, COUNT)
        assert consumer.next(TIMEOUT).metadata.num_delivered == 2
        slow.go.set()
        eventually(lambda: len(slow.runs) == COUNT)
        assert consuming.expired == 0


def test_messages_kept_alive(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, COUNT), ack_wait=WAIT)
    slow, errors = Busy(), Errors()
    with slow.holding(
        consumer.consume(slow, max_msgs=COUNT, keep_alive=True, on_error=errors)
    ) as _:
        with pytest.raises(NextMsgTimeoutError):  # another worker gets none of them
            consumer.next(timeout=4 * WAIT)
        assert consumer.info().num_redelivered == 0
        slow.go.set()
        eventually(lambda: len(slow.runs) == COUNT)
    assert slow.runs == Counter(range(COUNT))
    assert errors.all == []


def test_a_drain_keeps_alive_what_is_left(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, COUNT), ack_wait=WAIT)
    with consumer.messages(max_msgs=COUNT, keep_alive=True) as messages:
        messages.next(TIMEOUT).ack()
        until_sent(js, consumer, COUNT)
        messages.drain()
        with pytest.raises(NextMsgTimeoutError):
            consumer.next(timeout=4 * WAIT)
        assert numbers(messages) == list(range(1, COUNT))
        assert messages.expired == 0


def test_the_thread_ends_with_the_client(
    js: JetStream, js_client: Client, stream_name: str
) -> None:
    consumer = durable(filled(js, stream_name, 1), ack_wait=3600.0)
    messages = consumer.messages(keep_alive=True)
    messages.next(TIMEOUT)
    named = [thread for thread in threading.enumerate() if thread.name.endswith("keep-alive-c")]
    assert len(named) == 1
    js_client.close()
    assert not named[0].is_alive()


def test_what_cannot_be_kept_alive(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 1), ack_policy="none")
    with pytest.raises(OptionError, match="keep_alive"):
        consumer.messages(keep_alive=True)


def delivery(number: int) -> MsgFrame:
    return MsgFrame(b"s.a", b"1", f"$JS.ACK.S.c.{number}.7.3.1700000000123456789.5".encode(), b"x")


@pytest.mark.parametrize(
    ("config", "patience"),
    [
        (ConsumerConfig(ack_wait=30.0), [29.5, 29.5, 29.5]),
        (ConsumerConfig(ack_wait=1.0), [0.9, 0.9, 0.9]),
        (ConsumerConfig(ack_wait=1.0, max_deliver=2), [0.9, float("inf"), float("inf")]),
        (ConsumerConfig(backoff=[1.0, 10.0], max_deliver=4), [0.9, 9.5, 9.5]),
    ],
)
def test_the_time_of_each_delivery(config: ConsumerConfig, patience: list[float]) -> None:
    times = ack_times(config)
    assert times
    assert [times.patience(delivery(number)) for number in (1, 2, 3)] == patience
    assert times.patience(MsgFrame(b"s.a", b"1", b"", b"x")) == float("inf")


@pytest.mark.parametrize(
    "config", [ConsumerConfig(ack_policy="none", ack_wait=1.0), ConsumerConfig()]
)
def test_nothing_is_late_where_nothing_is_known(config: ConsumerConfig) -> None:
    assert ack_times(config) is None
