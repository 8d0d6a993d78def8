"""Consumers created, changed, paused, reset and deleted, on real servers."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

import natsync
from natsync.jetstream import (
    ConsumerConfig,
    ConsumerExistsError,
    ConsumerNotFoundError,
    FilterSubjectsError,
    InvalidConsumerNameError,
    JetStream,
    Stream,
    StreamConfig,
    StreamNotFoundError,
    UnsupportedError,
)

pytestmark = pytest.mark.server


@pytest.fixture
def stream(js: JetStream, stream_name: str) -> Stream:
    return js.create_stream(StreamConfig(stream_name, subjects=[f"{stream_name}.>"]))


def test_create_and_update_are_strict(stream: Stream) -> None:
    config = ConsumerConfig(durable_name="worker", filter_subject=f"{stream.name}.a")
    with pytest.raises(ConsumerNotFoundError):
        stream.update_consumer(config)
    consumer = stream.create_consumer(config)
    assert (consumer.name, consumer.stream_name) == ("worker", stream.name)
    assert consumer.cached_info.config.ack_policy == "explicit"
    assert stream.create_consumer(config).name == "worker"
    other = replace(config, filter_subject=f"{stream.name}.b")
    with pytest.raises(ConsumerExistsError):
        stream.create_consumer(other)
    assert stream.update_consumer(other).info().config.filter_subject == f"{stream.name}.b"
    changed = stream.create_or_update_consumer(replace(other, max_ack_pending=7))
    assert changed.info().config.max_ack_pending == 7


def test_the_three_subjects_of_a_create_request(
    stream: Stream, js_client: natsync.Client, stream_name: str
) -> None:
    with js_client.subscribe("$JS.API.CONSUMER.CREATE.>") as asked:
        js_client.flush()
        named = stream.create_consumer(ConsumerConfig(name="n", inactive_threshold=60))
        filters = (f"{stream_name}.a", f"{stream_name}.b")
        several = stream.create_consumer(ConsumerConfig(durable_name="f", filter_subjects=filters))
        stream.create_consumer(ConsumerConfig(durable_name="g", filter_subject=filters[0]))
        unnamed = stream.create_consumer(ConsumerConfig(inactive_threshold=60))
        subjects = [asked.next_msg(5).subject.partition(stream_name)[2] for _ in range(4)]
    assert subjects == [".n", ".f", f".g.{filters[0]}", ""]
    assert several.cached_info.config.filter_subjects == filters
    assert named.name == "n" and unnamed.name


def test_a_consumer_is_paused_and_resumed(stream: Stream) -> None:
    consumer = stream.create_consumer(ConsumerConfig(durable_name="c"))
    until = datetime.now(timezone.utc) + timedelta(hours=1)
    paused = stream.pause_consumer("c", until)
    assert paused.paused and paused.pause_until == until and 3500 < paused.pause_remaining <= 3600
    assert consumer.info().paused
    assert not stream.resume_consumer("c").paused
    assert not consumer.info().paused
    with pytest.raises(ValueError, match="time zone"):
        stream.pause_consumer("c", datetime.now())


def test_a_consumer_is_paused_for_ever(stream: Stream) -> None:
    consumer = stream.create_consumer(ConsumerConfig(durable_name="c"))
    until = datetime.max.replace(tzinfo=timezone.utc)
    paused = stream.pause_consumer("c", until)
    assert paused.paused and paused.pause_until == until and paused.pause_remaining > 9e9
    assert paused.to_json()["pause_remaining"] == 2**63 - 1
    assert consumer.info().pause_remaining > 9e9


def test_a_consumer_is_reset(stream: Stream, js_client: natsync.Client) -> None:
    for number in range(5):
        js_client.request(f"{stream.name}.{number}")
    stream.create_consumer(ConsumerConfig(durable_name="c"))
    assert stream.reset_consumer("c", 4).num_pending == 2
    assert stream.reset_consumer("c", 1).num_pending == 5
    assert stream.reset_consumer("c").delivered.stream_seq == 0  # nothing is acknowledged
    with pytest.raises(natsync.OptionError, match="seq: must be from 0"):
        stream.reset_consumer("c", -1)
    with pytest.raises(ConsumerNotFoundError):
        stream.reset_consumer("missing")


def test_a_pin_is_taken_away(stream: Stream) -> None:
    config = ConsumerConfig(
        durable_name="c", priority_groups=["g"], priority_policy="pinned_client", priority_timeout=5
    )
    consumer = stream.create_consumer(config)
    assert consumer.cached_info.config.priority_timeout == 5
    stream.unpin_consumer("c", "g")
    assert [state.group for state in consumer.info().priority_groups] == ["g"]


def test_names_and_filters_that_cannot_be(stream: Stream, js: JetStream) -> None:
    for name in ("a.b", "a b", "a*", ""):
        with pytest.raises(InvalidConsumerNameError):
            stream.consumer(name)
    with pytest.raises(InvalidConsumerNameError):
        stream.create_consumer(ConsumerConfig(durable_name="a.b"))
    with pytest.raises(FilterSubjectsError, match="overlap"):
        filters = (f"{stream.name}.>", f"{stream.name}.a")
        stream.create_consumer(ConsumerConfig(name="o", filter_subjects=filters))
    with pytest.raises(ConsumerNotFoundError):
        js.consumer(stream.name, "missing")
    with pytest.raises(StreamNotFoundError):
        js.consumer("missing", "missing")


def test_an_old_server_is_named(old_js: JetStream, stream_name: str) -> None:
    stream = old_js.create_stream(StreamConfig(stream_name, subjects=[f"{stream_name}.>"]))
    consumer = stream.create_consumer(
        ConsumerConfig(durable_name="c", filter_subject=f"{stream_name}.a")
    )
    assert consumer.info().config.filter_subject == f"{stream_name}.a"
    filters = (f"{stream_name}.a", f"{stream_name}.b")
    with pytest.raises(UnsupportedError, match=r"filter_subjects needs nats-server 2\.10"):
        stream.create_consumer(ConsumerConfig(durable_name="d", filter_subjects=filters))
    with pytest.raises(UnsupportedError, match=r"pausing a consumer needs nats-server 2\.11"):
        stream.resume_consumer("c")
    with pytest.raises(UnsupportedError, match=r"needs nats-server 2\.14"):
        stream.reset_consumer("c")
    assert list(stream.consumer_names()) == ["c"]
