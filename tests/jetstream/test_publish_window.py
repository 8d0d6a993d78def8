"""Publishing without waiting for each acknowledgement: order, the window, losses of the connection."""

from __future__ import annotations

import os
import threading
from concurrent.futures import wait
from queue import SimpleQueue
from typing import Any

import pytest

import natsync
from natsync._engine.futures import ReplyFuture
from natsync._engine.request_window import RequestWindow
from natsync.jetstream import (
    InvalidPubAckError,
    JetStream,
    NoStreamResponseError,
    PubAck,
    PublishOptions,
    StoreFailedError,
    StreamConfig,
    TooManyStalledMsgsError,
    WrongLastSequenceError,
)
from natsync.message import Msg

from tests.jetstream.streams import LeaderlessStream
from tests.support.jetstream import JETSTREAM
from tests.support.servers import NatsServer, StartServer

pytestmark = pytest.mark.server

EITHER: list[PublishOptions] = [{}, {"msg_id": "1"}]


def test_many_are_stored_in_order(js: JetStream, stream_name: str) -> None:
    js.create_stream(StreamConfig(stream_name))
    futures = [js.publish_async(stream_name, b"%d" % number) for number in range(500)]
    assert js.wait_all() and js.publish_async_pending == 0
    assert [future.result(0).seq for future in futures] == [*range(1, 501)]


def test_ids_and_callbacks(js: JetStream, stream_name: str) -> None:
    js.create_stream(StreamConfig(stream_name))
    came: SimpleQueue[PubAck] = SimpleQueue()
    futures = [js.publish_async(stream_name, msg_id=str(number % 2)) for number in range(4)]
    futures[0].add_done_callback(lambda future: came.put(future.result()))
    assert js.wait_all()
    assert [future.result(0).duplicate for future in futures] == [False, False, True, True]
    assert not futures[0].cancel()
    js.publish_async(stream_name).result(5)
    wait(futures, 5)
    assert came.get(timeout=5).seq == 1 and came.empty()


@pytest.mark.parametrize("options", EITHER)
def test_it_is_tried_again_until_a_stream_has_the_subject(
    js: JetStream, stream_name: str, options: PublishOptions
) -> None:
    """As nats.go: TestPublishAsyncRetry."""
    future = js.publish_async(
        stream_name, b"1", timeout=30, retry_attempts=10_000, retry_wait=0.01, **options
    )
    assert not wait([future], 0.1).done and js.publish_async_pending == 1
    js.create_stream(StreamConfig(stream_name))
    assert future.result(20).seq == 1 and js.publish_async_pending == 0


def test_the_attempts_are_counted(js: JetStream, stream_name: str) -> None:
    with pytest.raises(NoStreamResponseError):
        js.publish_async(stream_name, retry_attempts=2, retry_wait=0.01).result(20)
    with pytest.raises(NoStreamResponseError):
        js.publish_async(stream_name, retry_attempts=0, retry_wait=30, timeout=60).result(20)
    with pytest.raises(NoStreamResponseError):
        js.publish_async(stream_name, msg_id="1", retry_attempts=0, retry_wait=0.01).result(20)
    with pytest.raises(natsync.OptionError, match="retry_attempts"):
        js.publish_async(stream_name, retry_attempts=-1)


def test_a_refusal_is_the_futures_exception(js: JetStream, stream_name: str) -> None:
    js.create_stream(StreamConfig(stream_name))
    refused: list[PublishOptions] = [
        {"expected_last_seq": 7},
        {"expected_last_seq": 7, "msg_id": "1"},
    ]
    for options in refused:
        future = js.publish_async(stream_name, **options)
        with pytest.raises(WrongLastSequenceError):
            future.result(5)
    assert js.wait_all() and js.publish_async_pending == 0


def test_a_message_that_has_ended_is_not_pending(
    js: JetStream, stream_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = RequestWindow.finish
    pending: SimpleQueue[int] = SimpleQueue()

    def finish_and_look(*args: Any) -> None:
        finish(*args)
        pending.put(js.publish_async_pending)

    monkeypatch.setattr(RequestWindow, "finish", finish_and_look)
    with pytest.raises(NoStreamResponseError):
        js.publish_async(stream_name, msg_id="1").result(15)
    assert pending.get(timeout=10) == 0


def test_without_a_stream_it_fails_soon(js: JetStream, stream_name: str) -> None:
    with pytest.raises(NoStreamResponseError, match=stream_name):
        js.publish_async(stream_name).result(10)
    futures = [
        js.publish_async(subject, msg_id=str(number), timeout=1000)
        for subject in (stream_name, f"{stream_name}.other")
        for number in range(100)
    ]
    for future in futures:
        with pytest.raises(NoStreamResponseError):
            future.result(15)
    assert js.publish_async_pending == 0
    with pytest.raises(NoStreamResponseError):
        js.publish_async(stream_name, msg_id="1", timeout=0.1).result(10)


def test_without_a_leader_it_is_published_again_with_an_id(js_client: natsync.Client) -> None:
    with LeaderlessStream(js_client) as stream:
        future = stream.js.publish_async(stream.subject, msg_id="1", timeout=60)
        assert future.result(20).seq == 9
        assert stream.listed >= 2


def test_without_more_threads_a_message_that_is_published_again_fails(
    js: JetStream, stream_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(ReplyFuture, "add_done_callback", fail)
    future = js.publish_async(stream_name, msg_id="1", timeout=1000)
    with pytest.raises(RuntimeError, match="start new thread"):
        future.result(10)
    assert js.wait_all(5)  # also for the attempt whose end nobody hears


def test_a_full_window_stalls(js_client: natsync.Client, stream_name: str) -> None:
    js = js_client.jetstream(publish_window=3, publish_stall=0.02, timeout=30)
    with js_client.subscribe(stream_name) as silent:
        futures = [js.publish_async(stream_name) for _ in range(3)]
        with pytest.raises(TooManyStalledMsgsError, match="3 published messages") as caught:
            js.publish_async(stream_name)
        assert (caught.value.pending, js.publish_async_pending) == (3, 3)
        assert not js.wait_all(0.01)
        for _ in futures:
            silent.next_msg(5).respond(b'{"stream":"s","seq":1}')
        assert js.wait_all(5)
        js.publish_async(stream_name)
        silent.next_msg(5).respond(b"no")
        assert js.wait_all(5)
    with pytest.raises(natsync.OptionError, match="publish_window"):
        js_client.jetstream(publish_window=0)


def test_a_window_that_gets_room_goes_on(js_client: natsync.Client, stream_name: str) -> None:
    js = js_client.jetstream(publish_window=2)
    js.create_stream(StreamConfig(stream_name))
    futures = [js.publish_async(stream_name) for _ in range(50)]
    assert js.wait_all() and {future.result(0).stream for future in futures} == {stream_name}


def test_what_is_no_acknowledgement_is_named(
    js: JetStream, js_client: natsync.Client, stream_name: str
) -> None:
    def respond(msg: Msg) -> None:
        msg.respond(b"hello")

    with js_client.subscribe(stream_name, handler=respond):
        with pytest.raises(InvalidPubAckError, match=stream_name):
            js.publish_async(stream_name).result(5)


def test_a_timeout_is_that_of_the_call(js: JetStream, js_client: natsync.Client) -> None:
    with js_client.subscribe("silent.async"):
        for options in EITHER:
            future = js.publish_async("silent.async", timeout=0.05, **options)
            with pytest.raises(natsync.RequestTimeoutError, match=r"within 0\.05 s"):
                future.result(5)


def test_bad_calls_raise_at_once_and_leave_nothing(js: JetStream, stream_name: str) -> None:
    js.create_stream(StreamConfig(stream_name))
    for subject in ("", "a b", "a.*"):
        for options in EITHER:
            with pytest.raises(natsync.ProtocolError):
                js.publish_async(subject, **options)
    with pytest.raises(natsync.MaxPayloadError):
        js.publish_async(stream_name, bytes(2 << 20), msg_id="1")
    for data in (5, [1, 2], "text"):
        for options in EITHER:
            with pytest.raises(TypeError, match="data must be bytes"):
                js.publish_async(stream_name, data, **options)  # type: ignore[arg-type]  # on purpose
    assert js.publish_async_pending == 0 and js.wait_all(0)


def test_a_lost_connection_fails_messages_without_an_id_and_repeats_the_others(
    start_server: StartServer, stream_name: str
) -> None:
    server = start_server(JETSTREAM)
    lost = threading.Event()
    with natsync.connect(server.url, on_disconnect=lambda error: lost.set()) as nc:
        js = nc.jetstream(timeout=20)
        js.create_stream(StreamConfig(stream_name))
        with nc.subscribe("silent"):
            plain = js.publish_async("silent")
            server.kill()
            assert lost.wait(10)
            with pytest.raises(natsync.ConnectionReconnectingError):
                plain.result(5)
            futures = [js.publish_async(stream_name, msg_id=str(number)) for number in range(100)]
            server.start()
            assert js.wait_all(20)
        assert len({future.result(0).seq for future in futures}) == 100
        assert js.stream(stream_name).info().state.messages == 100


@pytest.mark.parametrize(
    "error", [NoStreamResponseError("a"), StoreFailedError(503, 10077, "full")]
)
def test_a_failure_before_the_call_returns_is_seen_to(
    js: JetStream,
    js_client: natsync.Client,
    stream_name: str,
    monkeypatch: pytest.MonkeyPatch,
    error: natsync.Error,
) -> None:
    """The thread that reads may be faster than the one that publishes."""
    opened = js_client.open_window

    def open_window(most: int, read: Any, rescue: Any = None) -> Any:
        window = opened(most, read, rescue)
        if rescue:
            ask = window.ask

            def ask_that_fails(subject: str, *arguments: Any) -> Any:
                future = ask("silent." + subject, *arguments)
                assert rescue(future, error)
                return future

            monkeypatch.setattr(window, "ask", ask_that_fails)
        return window

    monkeypatch.setattr(js_client, "open_window", open_window)
    js.create_stream(StreamConfig(stream_name))
    with js_client.subscribe("silent.>"):
        future = js.publish_async(stream_name, msg_id="1")
        if isinstance(error, StoreFailedError):
            with pytest.raises(StoreFailedError):
                future.result(5)
        else:
            assert future.result(5).seq == 1


def test_messages_with_ids_that_are_too_late_are_not_pending(
    js: JetStream, js_client: natsync.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("natsync.jetstream.publish_window.ATTEMPT", 0.01)
    with js_client.subscribe("silent.late"):
        future = js.publish_async("silent.late", msg_id="1", timeout=0.6)
        with pytest.raises(natsync.RequestTimeoutError, match=r"within 0\.6 s"):
            future.result(5)
    assert js.wait_all(5) and js.publish_async_pending == 0


def test_a_closed_client_ends_all(js_server: NatsServer, stream_name: str) -> None:
    with natsync.connect(js_server.url) as nc:
        js = nc.jetstream()
        waiting = js.publish_async(stream_name, msg_id="1")
    with pytest.raises(natsync.Error):
        waiting.result(5)
    with pytest.raises(natsync.ConnectionClosedError):
        js.publish_async(stream_name)


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_forked_child_publishes_for_itself(js_server: NatsServer, stream_name: str) -> None:
    with natsync.connect(js_server.url) as nc:
        js = nc.jetstream()
        js.create_stream(StreamConfig(stream_name))
        js.publish_async(stream_name, msg_id="parent").result(5)
        child = os.fork()
        if not child:
            status = 1
            try:
                acks = [js.publish_async(stream_name, msg_id=name) for name in ("parent", "child")]
                js.wait_all(5)
                status = 0 if [ack.result(0).duplicate for ack in acks] == [True, False] else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert js.publish_async(stream_name).result(5).seq == 3
