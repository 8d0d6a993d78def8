"""Batches: atomic ones are stored whole or not at all, fast ones as far as they come."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

import natsync
from natsync.jetstream import (
    BatchClosedError,
    BatchPublishError,
    JetStream,
    NoStreamResponseError,
    Stream,
    StreamConfig,
    UnsupportedError,
    WrongLastSequenceError,
)
from natsync.jetstream.batches import WINDOWS
from natsync.message import Msg

pytestmark = pytest.mark.server


@pytest.fixture
def stream(js: JetStream, stream_name: str) -> Iterator[Stream]:
    stream = js.create_stream(
        StreamConfig(
            stream_name, subjects=[f"{stream_name}.>"], allow_atomic=True, allow_batched=True
        )
    )
    yield stream
    js.delete_stream(stream_name)  # with its open batches, of which a server has few


def test_an_atomic_batch_is_seen_at_the_commit(js: JetStream, stream: Stream) -> None:
    with js.atomic_batch() as batch:
        for number in range(5):
            batch.add(f"{stream.name}.a", b"%d" % number, headers={"k": "v"})
        assert len(batch) == 5 and stream.info().state.messages == 0
        ack = batch.commit(f"{stream.name}.b", b"last", msg_id="1")
    assert (ack.seq, ack.batch_id, ack.batch_count) == (6, batch.id, 6)
    assert stream.get_msg(5).headers["k"] == "v"
    for call in (batch.add, batch.commit):
        with pytest.raises(BatchClosedError, match="it was committed"):
            call(f"{stream.name}.a")


def test_a_commit_without_a_message(js: JetStream, stream: Stream) -> None:
    batch = js.atomic_batch()
    with pytest.raises(natsync.OptionError, match="the batch is empty"):
        batch.commit()
    batch.add(f"{stream.name}.a")
    batch.add(f"{stream.name}.b")
    assert batch.commit().batch_count == stream.info().state.messages == 2


@pytest.mark.parametrize("message", [{"data": b"x"}, {"headers": {"a": "b"}}, {"msg_id": "1"}])
def test_a_commit_takes_no_message_without_a_subject(
    js: JetStream, stream: Stream, message: dict[str, Any]
) -> None:
    """The server would not store it."""
    with js.atomic_batch() as atomic, js.fast_batch() as fast:
        for batch in (atomic, fast):
            batch.add(f"{stream.name}.a")
            with pytest.raises(natsync.OptionError, match="option subject: must be given"):
                batch.commit(**message)
            assert batch.commit().batch_count == 1
    assert stream.info().state.messages == 2


def test_what_is_discarded_is_not_stored(js: JetStream, stream: Stream) -> None:
    with js.atomic_batch() as batch:
        batch.add(f"{stream.name}.a")
    with pytest.raises(BatchClosedError, match="it was discarded"):
        batch.commit()
    assert stream.info().state.messages == 0


def test_one_expectation_that_fails_fails_all(js: JetStream, stream: Stream) -> None:
    js.publish(f"{stream.name}.a")
    batch = js.atomic_batch()
    batch.add(f"{stream.name}.b")
    batch.add(f"{stream.name}.a", expected_last_subject_seq=0)
    with pytest.raises(WrongLastSequenceError):
        batch.commit(f"{stream.name}.c")
    assert stream.info().state.messages == 1


def test_a_batch_beyond_its_limit_is_refused(js: JetStream, stream: Stream) -> None:
    batch = js.atomic_batch()
    with pytest.raises(BatchPublishError, match="too large: 1000"):
        for _ in range(1001):
            batch.add(f"{stream.name}.a")
        batch.commit(f"{stream.name}.a")
    with pytest.raises(BatchClosedError, match="it was refused"):
        batch.add(f"{stream.name}.a")
    assert stream.info().state.messages == 0


def test_a_stream_has_to_allow_it(js: JetStream, stream_name: str) -> None:
    js.create_stream(StreamConfig(stream_name))
    with pytest.raises(BatchPublishError, match="disabled"):
        js.atomic_batch().add(stream_name)
    with js.fast_batch() as fast, pytest.raises(BatchPublishError, match="disabled"):
        fast.add(stream_name)
    with pytest.raises(NoStreamResponseError):
        js.atomic_batch().add(f"{stream_name}.none")
    with js.fast_batch() as fast, pytest.raises(NoStreamResponseError):
        fast.add(f"{stream_name}.none")


def test_an_old_server_is_named(old_js: JetStream) -> None:
    with pytest.raises(UnsupportedError, match=r"an atomic batch needs nats-server 2\.12"):
        old_js.atomic_batch()
    with pytest.raises(UnsupportedError, match=r"a fast batch needs nats-server 2\.14"):
        old_js.fast_batch()


def test_a_stream_that_stores_the_first_message_is_too_old(
    js: JetStream, js_client: natsync.Client, stream_name: str
) -> None:
    def respond(msg: Msg) -> None:
        msg.respond(b'{"stream":"s","seq":1}')

    with js_client.subscribe(stream_name, handler=respond):
        with pytest.raises(UnsupportedError, match="this one is older"):
            js.atomic_batch().add(stream_name)
        with js.fast_batch() as fast, pytest.raises(UnsupportedError, match="older"):
            fast.add(stream_name)


def test_an_atomic_batch_outlives_a_reconnect_that_loses_nothing(
    js: JetStream, js_client: natsync.Client, stream: Stream
) -> None:
    batch = js.atomic_batch()
    batch.add(f"{stream.name}.a")
    js_client.reconnect()
    assert js_client.wait_connected(10)
    batch.add(f"{stream.name}.a")
    assert batch.commit(f"{stream.name}.a").batch_count == stream.info().state.messages == 3


def test_a_batch_that_lacks_a_message_is_not_stored(js: JetStream, stream: Stream) -> None:
    batch = js.atomic_batch()
    batch.add(f"{stream.name}.a")
    batch._count += 1  # a message that never arrived
    with pytest.raises(BatchPublishError, match="incomplete"):
        batch.add(f"{stream.name}.a")
        batch.commit(f"{stream.name}.a")
    assert stream.info().state.messages == 0


def test_a_fast_batch_is_stored_in_order(js: JetStream, stream: Stream) -> None:
    with js.fast_batch(flow=10) as batch:
        for number in range(200):
            batch.add(f"{stream.name}.a", b"%d" % number, headers={"k": "v"})
        assert 150 < batch.stored < 200 == len(batch)
        ack = batch.commit(f"{stream.name}.a", b"200")
    assert (ack.seq, ack.batch_count, batch.stored) == (201, 201, 201)
    assert [stream.get_msg(seq).data for seq in (1, 100, 201)] == [b"0", b"99", b"200"]
    with pytest.raises(BatchClosedError):
        batch.add(f"{stream.name}.a")


def test_a_fast_batch_may_be_one_message_or_end_without(js: JetStream, stream: Stream) -> None:
    with js.fast_batch() as batch:
        assert batch.commit(f"{stream.name}.a").batch_count == 1
    with js.fast_batch() as batch:
        with pytest.raises(natsync.OptionError, match="empty"):
            batch.commit()
        batch.add(f"{stream.name}.a")
        assert batch.commit().batch_count == 1
    assert stream.info().state.messages == 2
    with pytest.raises(natsync.OptionError, match="at least 1"):
        js.fast_batch(0)


def test_an_unknown_option_is_refused_with_the_name_of_the_call(
    js: JetStream, stream: Stream
) -> None:
    with js.fast_batch() as fast, js.atomic_batch() as atomic:
        for batch in (fast, atomic):
            for call in (batch.add, batch.commit):
                words = f"{call.__name__}\\(\\) got an unexpected keyword argument 'prefetch'"
                with pytest.raises(TypeError, match=words):
                    call(f"{stream.name}.a", prefetch=1)  # type: ignore[call-arg]  # on purpose
            assert len(batch) == 0
    assert stream.info().state.messages == 0


def test_a_fast_batch_that_is_never_closed_warns_and_ends(
    js: JetStream, js_client: natsync.Client, stream: Stream
) -> None:
    def subscriptions() -> int:
        return len([*js_client._connection.table.all()])

    before = subscriptions()
    batch = js.fast_batch()
    batch.add(f"{stream.name}.a")
    assert subscriptions() == before + 1
    with pytest.warns(ResourceWarning, match="unclosed fast batch, messages: 1"):
        del batch
        gc.collect()
    assert subscriptions() == before
    assert stream.info().state.messages == 1


def test_a_refused_message_ends_a_fast_batch(js: JetStream, stream: Stream) -> None:
    with js.fast_batch(flow=5) as batch, pytest.raises(WrongLastSequenceError):
        batch.add(f"{stream.name}.a")
        batch.add(f"{stream.name}.a", expected_last_seq=99)
        for _ in range(20):
            batch.add(f"{stream.name}.a")
    assert batch.stored == stream.info().state.messages == 1


def test_a_lost_message_ends_a_fast_batch(js: JetStream, stream: Stream) -> None:
    with js.fast_batch(flow=5) as batch:
        batch.add(f"{stream.name}.a")
        batch._count += 1  # a message that never arrived
        with pytest.raises(BatchPublishError, match="message 2 of the batch was lost"):
            for _ in range(20):
                batch.add(f"{stream.name}.a")
    assert batch.stored == 1


def test_silence_ends_a_fast_batch(js_client: natsync.Client, stream_name: str) -> None:
    js = js_client.jetstream(timeout=0.1)
    with js_client.subscribe(stream_name) as silent:
        with js.fast_batch() as batch, pytest.raises(natsync.RequestTimeoutError):
            batch.add(stream_name)
        ops = [silent.next_msg(1).reply.split(".")[-2] for _ in range(2)]
    assert ops == ["0", "4"]  # the start, and a ping that asks for the last acknowledgement


def test_a_fast_batch_keeps_to_the_flow_that_the_server_sets(
    js: JetStream, js_client: natsync.Client, stream_name: str
) -> None:
    """And takes an acknowledgement for those before it, of which one is lost (ADR-50)."""

    def respond(msg: Msg) -> None:
        number = int(msg.reply.split(".")[-3])
        if number == 1 or number % 2 == 0 and number != 6:
            flow = 10 if number == 1 else 2
            msg.respond(b'{"type":"ack","seq":%d,"msgs":%d}' % (number, flow))

    with js_client.subscribe(stream_name, handler=respond), js.fast_batch(flow=10) as batch:
        for _ in range(40):
            ahead = WINDOWS * (10 if batch.stored < 2 else 2)  # messages that were sent stay sent
            batch.add(stream_name)
            assert len(batch) - batch.stored <= ahead
    assert batch.stored >= 40 - WINDOWS * 2
