"""Readers of an ordered consumer follow each other without a gap."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import monotonic

import pytest

import natsync
from natsync.errors import (
    ConnectionReconnectingError,
    NextMsgTimeoutError,
    OptionError,
    RequestTimeoutError,
)
from natsync.jetstream import (
    CantAckIfConsumerAckNoneError,
    ConsumerConfig,
    InvalidConsumerNameError,
    InvalidStreamNameError,
    JetStream,
    OrderedConsumer,
    OrderedMessages,
    PullRefusedError,
    StreamConfig,
    StreamNotFoundError,
    StreamReplacedError,
)
from natsync.jetstream.configs import DeliverPolicy

from tests.jetstream.streams import (
    TIMEOUT,
    Errors,
    Gathered,
    filled,
    later,
    numbers,
    publish,
    until_no_consumer,
)
from tests.support.fake_server import Background
from tests.support.jetstream import JETSTREAM
from tests.support.proxy import Admission, Proxy
from tests.support.servers import NatsServer, StartServer
from tests.support.waiting import eventually

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


def test_a_fetch_keeps_what_it_has_taken(js: JetStream, stream_name: str) -> None:
    """No reader gets these messages again."""
    filled(js, stream_name, 3)
    with js.ordered_consumer(stream_name) as ordered:
        reader = ordered.messages(on_error=lambda error: None)
        fetching = Background(lambda: ordered.fetch(5, timeout=TIMEOUT))
        eventually(lambda: reader.last_seq == 3)
        js.delete_stream(stream_name)
        found = fetching.result()
        assert numbers(found) == [0, 1, 2] and isinstance(found.error, StreamNotFoundError)
        with pytest.raises(StreamNotFoundError):
            ordered.fetch(5)


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
    with pytest.raises(TypeError, match="config must be ConsumerConfig, not str"):
        js.ordered_consumer("S", "a.*")  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize(
    "call",
    [
        lambda ordered: ordered.messages(),
        lambda ordered: ordered.next(timeout=0.1),
        lambda ordered: ordered.fetch(timeout=0.1),
    ],
)
def test_a_consumer_is_waited_for_as_long_as_the_context_says(
    js: JetStream,
    js_server: NatsServer,
    stream_name: str,
    call: Callable[[OrderedConsumer], object],
) -> None:
    """A server that does not answer must not take longer: five seconds, it was."""
    js.create_stream(StreamConfig(stream_name))
    with Proxy(js_server.host, js_server.port) as proxy:
        with natsync.connect(proxy.url) as nc:
            proxy.link().to_client.swallow()
            began = monotonic()
            with pytest.raises(RequestTimeoutError, match="within 0.3"):
                call(nc.jetstream(timeout=0.3).ordered_consumer(stream_name))
            assert monotonic() - began < 3
            proxy.cut()


def all_of(messages: OrderedMessages, count: int) -> list[bytes]:
    return [messages.next(TIMEOUT).data for _ in range(count)]


@pytest.mark.parametrize("policy", ["all", "new", "last_per_subject"])
def test_a_stream_that_is_created_again_is_read_from_its_beginning(
    js: JetStream, stream_name: str, policy: DeliverPolicy
) -> None:
    """A server sends a consumer nothing before the sequence that it begins at: so the reader heard nothing
    until the new stream had as many messages as the old one."""
    errors: list[natsync.Error] = []
    config = StreamConfig(stream_name)
    js.create_stream(config)
    with js.ordered_consumer(stream_name, ConsumerConfig(deliver_policy=policy)) as ordered:
        messages = ordered.messages(on_error=errors.append)
        for number in range(5):
            js.publish(stream_name, b"%d" % number)
        assert all_of(messages, 5) == [b"0", b"1", b"2", b"3", b"4"]
        js.delete_stream(stream_name)
        js.create_stream(config)
        js.publish(stream_name, b"new")
        assert all_of(messages, 1) == [b"new"]
        js.publish(stream_name, b"newer")
        assert all_of(messages, 1) == [b"newer"]
        assert StreamReplacedError in map(type, errors)
        again = ordered.messages()
        js.publish(stream_name, b"newest")
        assert all_of(again, 1) == [b"newest"] and again.replaced == 0


def test_a_stream_that_has_lost_its_last_messages_is_read_on(
    js: JetStream, stream_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a crash of the machine: the stream is as old as before, and its sequence is lower."""
    js.create_stream(StreamConfig(stream_name))
    with js.ordered_consumer(stream_name) as ordered:
        messages = ordered.messages()
        for number in range(5):
            js.publish(stream_name, b"%d" % number)
        all_of(messages, 5)
        monkeypatch.setattr(ordered._maker, "_since", None)
        js.delete_stream(stream_name)
        js.create_stream(StreamConfig(stream_name))
        js.publish(stream_name, b"kept")
        with pytest.raises(NextMsgTimeoutError):
            messages.next(0.5)
        js.publish(stream_name, b"new")
        assert all_of(messages, 1) == [b"new"] and messages.last_seq == 2


def test_a_user_who_may_not_ask_for_streams_reads_on(start_server: StartServer) -> None:
    user = '{ user: u, password: p, permissions: { publish: { deny: "$JS.API.STREAM.INFO.>" } } }'
    server = start_server(JETSTREAM + f"authorization {{ users: [ {user} ] }}\n")
    with natsync.connect(server.url, user="u", password="p", on_error=lambda error: None) as nc:
        js = nc.jetstream()
        js.create_stream(StreamConfig("s"))
        js.publish("s", b"1")
        with js.ordered_consumer("s") as ordered:
            messages = ordered.messages()
            assert all_of(messages, 1) == [b"1"]
            messages.restart()
            js.publish("s", b"2")
            assert all_of(messages, 1) == [b"2"]


def test_a_forked_child_reads_for_itself_and_leaves_the_parents_consumer(
    js: JetStream, stream_name: str
) -> None:
    stream = filled(js, stream_name, 3)
    ordered = js.ordered_consumer(stream_name)
    messages = ordered.messages()
    assert all_of(messages, 1) == [b"0"]
    child = os.fork()
    if not child:
        status = 1
        try:
            messages.stop()
            again = ordered.messages()
            status = 0 if all_of(again, 2) == [b"1", b"2"] else 2
            again.stop()
            js.stream(stream_name)  # when this is answered, the server has done the rest, too
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [*stream.consumer_names()] == [messages.consumer]
    messages.restart()
    assert all_of(messages, 2) == [b"1", b"2"]
    messages.stop()


def test_a_consumer_whose_creation_was_not_confirmed_is_deleted(
    js: JetStream, js_server: NatsServer, stream_name: str
) -> None:
    """Otherwise the server would keep it for five minutes."""
    stream = filled(js, stream_name, 1)
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        other = nc.jetstream(timeout=0.3)
        proxy.link(0).to_client.stall()
        with pytest.raises(RequestTimeoutError):
            other.ordered_consumer(stream_name).messages()
        proxy.link(0).to_client.resume()
        until_no_consumer(stream)


def test_what_there_is_at_this_moment(js: JetStream, stream_name: str) -> None:
    filled(js, stream_name, 5)
    with js.ordered_consumer(stream_name) as ordered:
        assert numbers(ordered.fetch_no_wait(3)) == [0, 1, 2]
        assert numbers(ordered.fetch_no_wait(10)) == [3, 4]
        assert ordered.fetch_no_wait(10) == []
        publish(js, stream_name, [5])
        assert numbers(ordered.fetch_no_wait(10)) == [5]
        with pytest.raises(OptionError):
            ordered.fetch_no_wait(0)


def test_as_many_messages_as_fit_into_some_bytes(js: JetStream, stream_name: str) -> None:
    filled(js, stream_name, 6)
    with js.ordered_consumer(stream_name) as ordered:
        (first,) = ordered.fetch(1)
        some = ordered.fetch_bytes(2 * first.wire_size + 1)
        assert numbers(some) == [1, 2]
        with pytest.raises(PullRefusedError, match="bytes, more than max_bytes"):
            ordered.fetch_bytes(5)
        assert ordered.next().data == b"3"  # what did not fit is not lost
        assert numbers(ordered.fetch_bytes(first.wire_size)) == [4]
        assert int(next(ordered.messages()).data) == 5
        with pytest.raises(OptionError):
            ordered.fetch_bytes(0)


def test_the_names_of_its_consumers(js: JetStream, stream_name: str) -> None:
    filled(js, stream_name, 1)
    with js.ordered_consumer(stream_name, name_prefix="report") as ordered:
        assert ordered.info().name.startswith("report_")
        assert ordered.info().num_pending + ordered.info().delivered.consumer_seq == 1
    with pytest.raises(InvalidConsumerNameError):
        js.ordered_consumer(stream_name, name_prefix="a.b")


def test_a_limit_of_attempts_to_replace_a_consumer(
    js: JetStream, js_server: NatsServer, stream_name: str
) -> None:
    filled(js, stream_name, 1)
    with pytest.raises(OptionError):
        js.ordered_consumer(stream_name, max_reset_attempts=0)
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        ordered = nc.jetstream().ordered_consumer(stream_name, max_reset_attempts=1)
        messages = ordered.messages(on_error=(errors := Errors()))
        assert messages.next(TIMEOUT).data == b"0"
        proxy.admit(Admission.REFUSE)
        proxy.cut()
        messages.restart()
        for _ in range(2):
            with pytest.raises((ConnectionReconnectingError, RequestTimeoutError)):
                messages.next(TIMEOUT)
        assert errors.all == []
