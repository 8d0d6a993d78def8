"""Readers of an ordered consumer follow each other without a gap."""

from __future__ import annotations

from collections.abc import Callable
from signal import SIGCONT, SIGSTOP
from time import monotonic

import pytest

import natsync
from natsync.errors import NextMsgTimeoutError, OptionError, RequestTimeoutError
from natsync.jetstream import (
    CantAckIfConsumerAckNoneError,
    ConsumerConfig,
    InvalidStreamNameError,
    JetStream,
    StreamConfig,
)

from tests.jetstream.streams import (
    TIMEOUT,
    Gathered,
    filled,
    later,
    numbers,
    publish,
    until_no_consumer,
)
from tests.support.jetstream import JETSTREAM
from tests.support.servers import StartServer

pytestmark = pytest.mark.server


def test_one_reader_goes_on_where_the_last_one_stopped(js: JetStream, stream_name: str) -> None:
    stream = filled(js, stream_name, 20)
    with js.ordered_consumer(stream_name) as ordered:
        assert numbers(ordered.fetch(3)) == [0, 1, 2]
        assert ordered.next().data == b"3"
        assert numbers(ordered.messages(), 4) == [4, 5, 6, 7]
        assert len(list(stream.consumer_names())) == 1
        gathered = Gathered(lambda msg: None)
        with ordered.consume(gathered):
            assert gathered.wait(12) == list(range(8, 20))
    until_no_consumer(stream)


def test_fetch_takes_what_comes_in_time(js: JetStream, stream_name: str) -> None:
    filled(js, stream_name, 2)
    with js.ordered_consumer(stream_name) as ordered:
        assert numbers(ordered.fetch(5, timeout=0.2)) == [0, 1]
        assert ordered.fetch(5, timeout=0.05) == []
        with pytest.raises(NextMsgTimeoutError):
            ordered.next(0.05)
        with later(0.1, lambda: publish(js, stream_name, [2])):
            assert numbers(ordered.fetch(5, timeout=None)) == [2]
        with pytest.raises(OptionError):
            ordered.fetch(0)


@pytest.mark.parametrize(
    ("config", "found"),
    [
        (ConsumerConfig(opt_start_seq=8, deliver_policy="by_start_sequence"), [7, 8, 9]),
        (ConsumerConfig(filter_subject="{}.1"), [1, 4, 7]),
        (ConsumerConfig(filter_subject="{}.*", deliver_policy="last"), [9]),
        (ConsumerConfig(filter_subjects=["{}.1", "{}.2"]), [1, 2, 4, 5, 7, 8]),
        (ConsumerConfig(deliver_policy="last_per_subject"), [7, 8, 9]),
    ],
)
def test_where_it_begins_and_what_it_selects(
    js: JetStream, stream_name: str, config: ConsumerConfig, found: list[int]
) -> None:
    from dataclasses import replace

    filled(js, stream_name, 10)
    config = replace(
        config,
        filter_subject=config.filter_subject.format(stream_name),
        filter_subjects=[subject.format(stream_name) for subject in config.filter_subjects],
    )
    with js.ordered_consumer(stream_name, config) as ordered:
        assert numbers(ordered.fetch(10, timeout=0.2)) == found


def test_nothing_can_be_acknowledged(js: JetStream, stream_name: str) -> None:
    filled(js, stream_name, 1)
    with js.ordered_consumer(stream_name) as ordered:
        with pytest.raises(CantAckIfConsumerAckNoneError):
            ordered.next(TIMEOUT).ack()


def test_what_cannot_be_chosen(js: JetStream) -> None:
    for config in (
        ConsumerConfig(durable_name="d"),
        ConsumerConfig(name="n"),
        ConsumerConfig(deliver_subject="s"),
        ConsumerConfig(max_deliver=5),
        ConsumerConfig(num_replicas=3),
        ConsumerConfig(ack_policy="all"),
        ConsumerConfig(flow_control=True, idle_heartbeat=1.0),
    ):
        with pytest.raises(OptionError, match="ordered consumer"):
            js.ordered_consumer("S", config)
    with pytest.raises(InvalidStreamNameError):
        js.ordered_consumer("a.b")
    assert repr(js.ordered_consumer("S")) == "OrderedConsumer(stream 'S')"


@pytest.mark.parametrize(
    "call",
    [
        lambda js: js.ordered_consumer("s").messages(),
        lambda js: js.ordered_consumer("s").next(timeout=0.1),
        lambda js: js.ordered_consumer("s").fetch(timeout=0.1),
    ],
)
def test_a_consumer_is_waited_for_as_long_as_the_context_says(
    start_server: StartServer, call: Callable[[JetStream], object]
) -> None:
    """A server that stands still must not take longer: five seconds, it was."""
    server = start_server(JETSTREAM)
    with natsync.connect(server.url) as nc:
        nc.jetstream().create_stream(StreamConfig("s"))
        server.signal(SIGSTOP)
        try:
            began = monotonic()
            with pytest.raises(RequestTimeoutError, match="within 0.3"):
                call(nc.jetstream(timeout=0.3))
            assert monotonic() - began < 3
        finally:
            server.signal(SIGCONT)
