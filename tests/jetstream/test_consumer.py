"""The handle of a consumer."""

from __future__ import annotations

import pytest

from natsync.jetstream import ConsumerConfig, ConsumerNotFoundError, JetStream, StreamConfig

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
