"""Watches: the last message of each subject, the None, and what follows. Key-value buckets and object
stores test the rest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

import natsync
from natsync.jetstream import (
    ConsumerConfig,
    JetStream,
    JetStreamMsg,
    MessagesClosedError,
    MsgMetadata,
    OrderedMessages,
    StreamConfig,
)
from natsync.jetstream.watching import Watch

from tests.jetstream.made import Sent as Connection
from tests.jetstream.made import delivered

pytestmark = pytest.mark.server


class Texts(Watch[str]):
    """Payloads as text; nobody wants the word "no"."""

    def _read(self, msg: JetStreamMsg, origin: MsgMetadata) -> str | None:
        text = msg.data.decode()
        return None if text == "no" else f"{origin.stream_seq} {text}"

    def _gone(self) -> natsync.Error:
        return natsync.Error("gone")


@pytest.fixture
def texts(js: JetStream, stream_name: str) -> Texts:
    js.create_stream(StreamConfig(stream_name, subjects=[f"{stream_name}.>"]))
    for subject, text in (("a", b"old"), ("a", b"one"), ("b", b"two"), ("c", b"no")):
        js.publish(f"{stream_name}.{subject}", text)
    config = ConsumerConfig(deliver_policy="last_per_subject")
    messages = js.ordered_consumer(stream_name, config).messages()
    return Texts(js.api, "", stream_name, messages)


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


class Sent:
    """What a server sends: stream sequences, and how many messages it says are left."""

    consumer = "c"
    num_pending = 3
    replaced = 0

    def __init__(self, *sent: tuple[int, int]) -> None:
        self._sent = list(sent)
        self.consumer_seq = 0
        self.timeouts: list[float] = []

    def next(self, timeout: float) -> JetStreamMsg:
        self.timeouts.append(timeout)
        if not self._sent:
            raise natsync.NextMsgTimeoutError("c", timeout)
        sequence, pending = self._sent.pop(0)
        self.consumer_seq += 1
        reply = f"$JS.ACK.S.c.1.{sequence}.{self.consumer_seq}.1700000000123456789.{pending}"
        return delivered(Connection(), reply)


@pytest.mark.parametrize(
    "sent",
    [
        ((1, 1), (5, 0), (6, 0)),  # 2.15.1: one that was replaced is not among those that are left
        ((1, 2), (5, 1), (5, 0), (6, 0)),  # 2.9.10: one that was sent before takes its place
    ],
)
def test_those_that_replace_others_while_it_reads_belong_to_the_beginning(
    js: JetStream, monkeypatch: pytest.MonkeyPatch, sent: tuple[tuple[int, int], ...]
) -> None:
    def info(*_: object) -> object:
        delivered = SimpleNamespace(consumer_seq=len(sent))
        return SimpleNamespace(name="c", num_pending=0, delivered=delivered)

    monkeypatch.setattr("natsync.jetstream.watching.consumer_info", info)
    texts = Texts(js.api, "", "S", cast(OrderedMessages, Sent(*sent)))
    assert list(texts.initial(5)) == ["1 x", "5 x", "6 x"]


def test_a_timeout_includes_the_messages_that_are_skipped(js: JetStream) -> None:
    sent = Sent((1, 0), (1, 0), (1, 0))
    texts = Texts(js.api, "", "S", cast(OrderedMessages, sent), updates_only=True)
    assert [texts.next(5), texts.next(5)] == [None, "1 x"]
    with pytest.raises(natsync.NextMsgTimeoutError, match="within 5 s"):
        texts.next(5)
    _, first, second, third = sent.timeouts
    assert 5 >= first > second > third
