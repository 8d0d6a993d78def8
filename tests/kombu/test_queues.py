"""Queues as streams: what is declared, kept, counted and deleted."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from natsync.jetstream import APIError, JetStream, JetStreamMsg, NoStreamResponseError
from natsync.kombu.bindings import Binding, Bindings
from natsync.kombu.naming import CONSUMER, Names
from natsync.kombu.queues import QueueOptions, Queues
from natsync.kombu.transport import Transport

from tests.support.waiting import eventually

pytestmark = pytest.mark.server


@pytest.fixture
def bindings(js: JetStream, stream_name: str) -> Bindings:
    return Bindings(js, Names(stream_name), 1)


@pytest.fixture
def queues(js: JetStream, stream_name: str, bindings: Bindings) -> Queues:
    return Queues(js, Names(stream_name), QueueOptions(visibility_timeout=7.0), bindings)


def taken(queues: Queues, queue: str) -> JetStreamMsg:
    msg = queues.get(queue)
    assert msg is not None
    return msg


def test_a_queue_and_its_messages(js: JetStream, queues: Queues, stream_name: str) -> None:
    assert not queues.exists("a.b")
    queues.declare("a.b")
    assert queues.exists("a.b")
    queues.put("a.b", b"1", "id-1")
    queues.put("a.b", b"2", "id-2")
    queues.put("a.b", b"2", "id-2")  # sent again: it is stored once
    eventually(lambda: queues.size("a.b") == 2)
    first = taken(queues, "a.b")
    assert (first.data, queues.size("a.b")) == (b"1", 1)
    first.ack_sync()
    assert js.stream(f"{stream_name}_a=2Eb").info().state.messages == 1
    config = js.consumer(f"{stream_name}_a=2Eb", CONSUMER).config
    assert (config.ack_wait, config.max_ack_pending) == (7.0, -1)
    taken(queues, "a.b")
    assert queues.get("a.b") is None
    queues.delete("a.b")
    assert not queues.exists("a.b")
    assert queues.size("a.b") == queues.purge("a.b") == 0
    assert queues.get("a.b") is None


def test_a_purge_leaves_what_workers_have(queues: Queues) -> None:
    queues.declare("q")
    for number in range(5):
        queues.put("q", b"%d" % number, str(number))
    held = taken(queues, "q")
    assert queues.purge("q") == 4
    assert queues.size("q") == 0
    held.nak()
    again: list[JetStreamMsg | None] = []
    eventually(lambda: again.append(queues.get("q")) or again[-1])
    assert again[-1] is not None and again[-1].data == b"0"
    queues.delete("q")


def test_arguments_are_limits_of_the_stream(
    js: JetStream, queues: Queues, stream_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    limits = {"x-max-length": 2, "x-max-length-bytes": 10_000, "x-message-ttl": 60_000}
    queues.declare("q", arguments=limits)
    config = js.stream(f"{stream_name}_q").cached_info.config
    assert (config.max_msgs, config.max_bytes, config.max_age) == (2, 10_000, 60.0)
    for number in range(3):
        queues.put("q", b"%d" % number, str(number))
    assert taken(queues, "q").data == b"1"  # the oldest is dropped, as brokers do
    queues.declare("r", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    queues.put("r", b"", "r0")
    with pytest.raises(APIError, match="maximum messages exceeded"):
        queues.put("r", b"", "r1")
    queues.declare("p", arguments={"x-max-priority": 9})
    assert "queue 'p': JetStream has nothing like the argument x-max-priority" in caplog.text
    with pytest.raises(TypeError, match="x-max-length must be a whole number, not 'many'"):
        queues.declare("s", arguments={"x-max-length": "many"})


def test_a_queue_that_exists_keeps_its_arguments(
    js: JetStream, queues: Queues, stream_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    queues.declare("q")
    queues.declare("q")
    assert not caplog.records
    queues.declare("q", arguments={"x-max-length": 2})
    assert "queue 'q' exists with other arguments, which it keeps" in caplog.text
    assert js.stream(f"{stream_name}_q").cached_info.config.max_msgs == -1


def test_a_message_without_a_queue(
    queues: Queues, bindings: Bindings, js: JetStream, stream_name: str
) -> None:
    queues.declare("mine")
    js.delete_stream(f"{stream_name}_mine")
    queues.put("mine", b"1", "1")
    eventually(lambda: queues.size("mine") == 1)  # it was made again
    bindings.add("x", Binding("", None, "theirs"))
    with pytest.MonkeyPatch.context() as patch:
        warned: list[object] = []
        patch.setattr(
            logging.getLogger("natsync.kombu"), "warning", lambda *args: warned.append(args)
        )
        queues.put("theirs", b"1", "1")
    assert len(warned) == 1
    assert bindings.of("x") == []
    bindings.close()


def test_a_queue_without_a_leader_is_not_missing(
    queues: Queues, bindings: Bindings, js: JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its message was dropped, and so were its bindings, for all processes."""
    queues.declare("theirs")
    queues._declared.clear()
    bindings.add("x", Binding("", None, "theirs"))

    def publish(subject: str, *_: object, **__: object) -> None:
        raise NoStreamResponseError(subject)

    with monkeypatch.context() as electing:
        electing.setattr(js, "publish", publish)
        with pytest.raises(NoStreamResponseError):
            queues.put("theirs", b"1", "1")
    assert issubclass(NoStreamResponseError, Transport.connection_errors)  # kombu tries again
    assert [binding.queue for binding in bindings.of("x")] == ["theirs"]
    bindings.close()


def test_transient_queues_that_nobody_uses_are_deleted(
    js: JetStream, queues: Queues, bindings: Bindings, stream_name: str
) -> None:
    queues.declare("reply", auto_delete=True, arguments={"x-expires": 10_000})
    config = js.stream(f"{stream_name}_reply").cached_info.config
    assert config.storage == "memory"
    assert js.consumer(f"{stream_name}_reply", CONSUMER).config.inactive_threshold == 10.0
    queues.declare("kept")
    # As if the server had found that nobody uses them, a while ago.
    for queue in ("reply", "kept"):
        js.stream(f"{stream_name}_{queue}").delete_consumer(CONSUMER)
    later = Queues(js, Names(stream_name), QueueOptions(), bindings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("natsync.kombu.queues._SWEPT_AFTER", timedelta(seconds=-60))
        later.declare("other", exclusive=True)
    assert not later.exists("reply")
    assert later.exists("kept") and later.exists("other")
