"""The handle of a consumer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from natsync import OptionError
from natsync.jetstream import (
    ConsumerConfig,
    ConsumerNotFoundError,
    JetStream,
    JetStreamMsg,
    StreamConfig,
)

from tests.jetstream.streams import TIMEOUT, Errors, durable, filled, later, publish

pytestmark = pytest.mark.server


def test_info_is_asked_for_anew(js: JetStream, stream_name: str) -> None:
    stream = js.create_stream(StreamConfig(stream_name))
    stream.create_consumer(ConsumerConfig(durable_name="c"))
    consumer = js.consumer(stream_name, "c")
    assert (consumer.name, consumer.stream_name) == ("c", stream_name)
    before = consumer.cached_info
    assert consumer.info() is consumer.cached_info is not before
    stream.delete_consumer("c")
    with pytest.raises(ConsumerNotFoundError):
        consumer.info()


def test_an_unknown_option_is_refused_with_the_name_of_the_call(
    js: JetStream, stream_name: str
) -> None:
    stream = js.create_stream(StreamConfig(stream_name))
    consumer = stream.create_consumer(ConsumerConfig(durable_name="c"))
    ordered = js.ordered_consumer(stream_name)
    handler: Callable[[JetStreamMsg], None] = lambda msg: None
    calls: dict[str, list[Callable[..., object]]] = {
        "fetch": [consumer.fetch],
        "fetch_bytes": [partial(consumer.fetch_bytes, 100)],
        "fetch_no_wait": [partial(consumer.fetch_no_wait, 1)],
        "messages": [consumer.messages, ordered.messages],
        "consume": [partial(consumer.consume, handler), partial(ordered.consume, handler)],
        "publish": [partial(js.publish, stream_name)],
        "publish_async": [partial(js.publish_async, stream_name)],
    }
    for name, same in calls.items():
        for call in same:
            with pytest.raises(TypeError) as caught:
                call(prefetch=1)
            assert str(caught.value) == f"{name}() got an unexpected keyword argument 'prefetch'"
    # Groups share messages, of which an ordered consumer would miss some.
    with pytest.raises(TypeError, match="'group'"):
        ordered.messages(group="g")  # type: ignore[call-arg]  # on purpose
    assert stream.info().state.messages == 0


def test_a_group_that_the_consumer_does_not_have_is_refused(
    js: JetStream, stream_name: str
) -> None:
    """A server may never answer such a request."""
    stream = js.create_stream(StreamConfig(stream_name))
    consumer = stream.create_consumer(ConsumerConfig(durable_name="c"))
    handler: Callable[[JetStreamMsg], None] = lambda msg: None
    calls: list[Callable[[], object]] = [
        partial(consumer.fetch, group="g"),
        partial(consumer.fetch_bytes, 100, group="g"),
        partial(consumer.fetch_no_wait, 1, group="g"),
        partial(consumer.messages, group="g"),
        partial(consumer.consume, handler, group="g"),
    ]
    for call in calls:
        with pytest.raises(OptionError, match="group: the consumer has no groups"):
            call()


def test_a_consumer_that_allows_requests_of_less_than_a_second(
    js: JetStream, stream_name: str
) -> None:
    consumer = durable(filled(js, stream_name, 0), max_expires=0.4)
    with consumer.messages(on_error=Errors()) as messages:
        with later(1.0, lambda: publish(js, stream_name, range(3))):  # after two requests
            assert [messages.next(TIMEOUT).data for _ in range(3)] == [b"0", b"1", b"2"]
    with pytest.raises(OptionError, match="expires: must be at least 0.4 seconds"):
        consumer.messages(expires=0.3)
    with pytest.raises(OptionError, match="expires: must be at least 1 second"):
        durable(js.stream(stream_name), "other").messages(expires=0.5)
