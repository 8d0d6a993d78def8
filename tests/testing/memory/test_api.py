"""Calls of JetStream that the conformance tests do not make."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import natsync
from natsync.jetstream import APIError, ConsumerConfig, StreamConfig
from natsync.testing import MemoryServer

TIMEOUT = 10.0


@pytest.fixture
def nc() -> Iterator[natsync.Client]:
    with MemoryServer() as server, server.connect() as client:
        yield client


def test_lists_have_pages(nc: natsync.Client) -> None:
    js = nc.jetstream()
    names = [f"s{number:03}" for number in range(300)]
    for name in names:
        js.create_stream(StreamConfig(name))
    assert list(js.stream_names()) == names
    assert [info.config.name for info in js.streams()] == names
    stream = js.stream("s000")
    for name in names:
        stream.create_consumer(ConsumerConfig(durable_name=name))
    assert list(stream.consumer_names()) == names
    assert [info.name for info in stream.consumers()] == names
    assert js.account_info().streams == 300


def test_calls_of_other_servers(nc: natsync.Client) -> None:
    with pytest.raises(APIError, match="not supported by the in-memory server: the call STREAM.SN"):
        nc.jetstream().api.request("STREAM.SNAPSHOT.S", {})
    with pytest.raises(natsync.Error):
        nc.jetstream().api.request("NONSENSE", {})
    for body in (b"[]", b"{"):
        answer = nc.request("$JS.API.STREAM.CREATE.S", body, timeout=TIMEOUT).data
        assert b'"err_code": 10025' in answer
    answer = nc.request("$JS.API.STREAM.CREATE.S", b'{"name": "S", "new": 1}', timeout=TIMEOUT).data
    assert b'unknown field \\"new\\"' in answer


def test_configurations_of_a_consumer_change(nc: natsync.Client) -> None:
    stream = nc.jetstream().create_stream(StreamConfig("S", subjects=["s.*"]))
    nc.jetstream().publish("s.1")
    stream.create_consumer(ConsumerConfig(name="c"))
    for call, config in (
        (stream.create_consumer, ConsumerConfig(name="c", max_deliver=5)),
        (stream.update_consumer, ConsumerConfig(name="d")),
        (stream.update_consumer, ConsumerConfig(name="c", deliver_policy="new")),
    ):
        with pytest.raises(APIError):
            call(config)
    changed = stream.update_consumer(ConsumerConfig(name="c", filter_subject="s.2"))
    assert changed.info().num_pending == 0


def test_an_acknowledgement_may_ask_for_more(nc: natsync.Client) -> None:
    stream = nc.jetstream().create_stream(StreamConfig("S"))
    consumer = stream.create_consumer(ConsumerConfig(name="c"))
    for payload in (b"1", b"2"):
        nc.jetstream().publish("S", payload)
    (first,) = consumer.fetch(1, timeout=TIMEOUT)
    assert nc.request(first.reply, b"+NXT", timeout=TIMEOUT).data == b"2"
    assert consumer.info().num_ack_pending == 1


def test_no_acknowledgement_of_anything(nc: natsync.Client) -> None:
    for subject in ("$JS.ACK.S.c.1.1.1.1.0", "$JS.ACK.x"):
        with pytest.raises(natsync.NoRespondersError):
            nc.request(subject, timeout=TIMEOUT)
