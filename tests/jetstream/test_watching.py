"""Watches: the last message of each subject, the None, and what follows. Key-value buckets and object
stores test the rest."""

from __future__ import annotations

import pytest

import natsync
from natsync.jetstream import (
    ConsumerConfig,
    JetStream,
    JetStreamMsg,
    MessagesClosedError,
    MsgMetadata,
    StreamConfig,
)
from natsync.jetstream.watching import Watch

pytestmark = pytest.mark.server


class Texts(Watch[str]):
    """Payloads as text; nobody wants the word "no"."""

    def _read(self, msg: JetStreamMsg, origin: MsgMetadata) -> str | None:
        text = msg.data.decode()
        return None if text == "no" else f"{origin.stream_seq} {text}"


@pytest.fixture
def texts(js: JetStream, stream_name: str) -> Texts:
    js.create_stream(StreamConfig(stream_name, subjects=[f"{stream_name}.>"]))
    for subject, text in (("a", b"old"), ("a", b"one"), ("b", b"two"), ("c", b"no")):
        js.publish(f"{stream_name}.{subject}", text)
    config = ConsumerConfig(deliver_policy="last_per_subject")
    messages = js.ordered_consumer(stream_name, config).messages()
    return Texts(js.api, stream_name, messages, updates_only=False)


def test_items_then_none_then_updates(js: JetStream, stream_name: str, texts: Texts) -> None:
    with texts:
        assert [texts.next(5) for _ in range(3)] == ["2 one", "3 two", None]
        js.publish(f"{stream_name}.a", b"three")
        assert texts.next(5) == "5 three"
        with pytest.raises(natsync.NextMsgTimeoutError):
            texts.next(0.01)
    with pytest.raises(MessagesClosedError):
        texts.next(5)
    assert list(texts) == []


def test_another_consumer_says_anew_how_many_are_left(
    js_client: natsync.Client, js: JetStream, stream_name: str, texts: Texts
) -> None:
    with texts:
        assert texts.next(5) == "2 one"
        js_client.reconnect()
        assert js_client.wait_connected(5)
        js.publish(f"{stream_name}.d", b"four")
        assert list(texts.initial(10)) in (["3 two"], ["3 two", "5 four"])
