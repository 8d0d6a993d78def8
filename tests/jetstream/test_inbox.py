"""The inbox of a reader: messages, statuses and outages in the order of their arrival."""

from __future__ import annotations

from time import monotonic

import pytest

import natsync
from natsync.errors import ConnectionReconnectingError, PermissionsViolationError
from natsync.jetstream import ConsumerConfig, JetStream, JetStreamMsg
from natsync.jetstream.configs import AckPolicy
from natsync.jetstream.consumer import consumer_ref
from natsync.jetstream.inbox import Inbox
from natsync.jetstream.message import AckNoneMsg
from natsync.jetstream.pull_requests import Meaning, PullRequest, PullStatus

from tests.jetstream.streams import (
    TIMEOUT,
    durable,
    filled,
    publish,
    publish_block,
    publish_status,
    until_sent,
)
from tests.support.fake_server import Background
from tests.support.proxy import Admission, Proxy
from tests.support.servers import NatsServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.server


def receive(inbox: Inbox, timeout: float) -> JetStreamMsg | PullStatus | None:
    """The next message or status, or None after `timeout` seconds."""
    until = monotonic() + timeout
    while (taken := inbox.take()) is None and monotonic() < until:
        inbox.wait(until - monotonic())
    return taken if taken is None or isinstance(taken, PullStatus) else inbox.read(taken)


def inbox_of(js: JetStream, name: str, **options: object) -> Inbox:
    consumer = durable(filled(js, name, 3), "c", **options)
    return Inbox(consumer_ref(js.api, consumer.cached_info))


@pytest.mark.parametrize(("policy", "kind"), [("explicit", JetStreamMsg), ("none", AckNoneMsg)])
def test_messages_then_the_status(
    js: JetStream, stream_name: str, policy: AckPolicy, kind: type[JetStreamMsg]
) -> None:
    inbox = inbox_of(js, stream_name, ack_policy=policy)
    inbox.pull(PullRequest(5, no_wait=True))
    for number in range(3):
        msg = receive(inbox, TIMEOUT)
        assert type(msg) is kind
        assert int(msg.data) == number
    status = receive(inbox, TIMEOUT)
    assert isinstance(status, PullStatus)
    assert status.meaning is Meaning.END
    assert receive(inbox, 0.0) is None
    inbox.abandon()
    assert inbox.closed


def test_a_message_without_payload(js: JetStream, stream_name: str) -> None:
    inbox = inbox_of(js, stream_name, headers_only=True)
    inbox.pull(PullRequest(3))
    msg = receive(inbox, TIMEOUT)
    assert isinstance(msg, JetStreamMsg)
    assert (msg.data, msg.headers["Nats-Msg-Size"]) == (b"", "1")
    until_sent(js, js.consumer(stream_name, "c"), 3)
    assert inbox.end() == 2


@pytest.mark.parametrize("line", ["409 Consumer Deleted", "100 Idle Heartbeat", "503"])
def test_a_message_that_was_published_with_a_status(
    old_js: JetStream, old_js_server: NatsServer, stream_name: str, line: str
) -> None:
    """A server before 2.14 keeps the status, which would end readers, or let none of them past it."""
    consumer = durable(filled(old_js, stream_name, 0))
    publish_status(old_js_server, f"{stream_name}.0", line)
    publish(old_js, stream_name, [1])
    assert [msg.data for msg in consumer.fetch(2, timeout=2)] == [b"", b"1"]
    with old_js.ordered_consumer(stream_name).messages(on_error=print) as messages:
        assert [messages.next(2).data for _ in range(2)] == [b"", b"1"]


def test_outages(js: JetStream, js_server: NatsServer, stream_name: str) -> None:
    durable(filled(js, stream_name, 2), ack_policy="none")
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        other = nc.jetstream()
        info = other.consumer(stream_name, "c").cached_info
        inbox = Inbox(consumer_ref(other.api, info))
        assert inbox.connected
        before = nc.stats.in_msgs
        inbox.pull(PullRequest(1))
        eventually(lambda: nc.stats.in_msgs > before)
        proxy.admit(Admission.REFUSE)
        proxy.cut()
        assert isinstance(receive(inbox, TIMEOUT), JetStreamMsg)
        away = receive(inbox, TIMEOUT)
        assert isinstance(away, PullStatus)
        assert away.meaning is Meaning.AWAY
        assert isinstance(away.error, ConnectionReconnectingError)
        assert not inbox.connected
        late = Inbox(consumer_ref(other.api, info))
        assert not late.connected
        proxy.admit(Admission.FORWARD)
        back = receive(inbox, TIMEOUT)
        assert back == PullStatus(Meaning.RECONNECTED)
        assert inbox.connected
        publish(js, stream_name, [2])
        inbox.pull(PullRequest(5))
        msg = receive(inbox, TIMEOUT)
        assert isinstance(msg, JetStreamMsg)
        assert msg.data == b"1"
        assert [msg.data for msg in inbox.refresh() if isinstance(msg, JetStreamMsg)] in (
            [],
            [b"2"],
        )


def test_a_request_at_the_moment_of_a_loss_is_not_sent_beside_the_next_one(
    js: JetStream, js_server: NatsServer, stream_name: str
) -> None:
    consumer = durable(filled(js, stream_name, 5), ack_policy="none")
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        inbox = Inbox(consumer_ref(nc.jetstream().api, consumer.cached_info))
        proxy.admit(Admission.REFUSE)
        proxy.cut()
        assert isinstance(receive(inbox, TIMEOUT), PullStatus)
        inbox.pull(PullRequest(3))  # as by a thread that looked for a connection just before
        proxy.admit(Admission.FORWARD)
        assert receive(inbox, TIMEOUT) == PullStatus(Meaning.RECONNECTED)
        inbox.pull(PullRequest(1))
        assert isinstance(receive(inbox, TIMEOUT), JetStreamMsg)
        nc.flush()
        assert consumer.info().delivered.consumer_seq == 1
        assert inbox.end() == 0


def test_the_end_of_an_outage_in_which_it_began_is_reported_once(
    js: JetStream, js_server: NatsServer, stream_name: str
) -> None:
    consumer = durable(filled(js, stream_name, 5), ack_policy="none")
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        proxy.admit(Admission.REFUSE)
        proxy.cut()
        eventually(lambda: nc.status is natsync.Status.RECONNECTING)
        inbox = Inbox(consumer_ref(nc.jetstream().api, consumer.cached_info))
        assert not inbox.connected
        proxy.admit(Admission.FORWARD)
        eventually(lambda: inbox.connected)
        inbox.pull(PullRequest(1))
        assert isinstance(receive(inbox, TIMEOUT), JetStreamMsg)  # not that the request is void
        inbox.abandon()


def test_what_is_left(js: JetStream, stream_name: str) -> None:
    inbox = inbox_of(js, stream_name)
    inbox.pull(PullRequest(5, no_wait=True))
    until_sent(js, js.consumer(stream_name, "c"), 3)
    assert inbox.drain(TIMEOUT) == 4
    assert [type(receive(inbox, 0.0)) for _ in range(4)] == [*[JetStreamMsg] * 3, PullStatus]
    assert inbox.end() == 0


@pytest.mark.parametrize("line", [b"no colon", b"Nats-Pin-Id: old"])
def test_the_pin_in_headers_that_are_invalid_or_have_another_one(
    js: JetStream, js_server: NatsServer, stream_name: str, line: bytes
) -> None:
    """The message is delivered, and the pin is found: the server adds it to what was published."""
    stream = filled(js, stream_name, 0)
    config = ConsumerConfig(
        durable_name="c", priority_groups=["A"], priority_policy="pinned_client"
    )
    consumer = stream.create_consumer(config)
    publish_block(js_server, f"{stream_name}.0", b"NATS/1.0\r\n%s\r\n\r\n" % line)
    publish(js, stream_name, [1, 2])
    (first,) = consumer.fetch(1, timeout=TIMEOUT)
    assert [msg.data for msg in consumer.fetch(1, timeout=TIMEOUT)] == [b"1"]
    first.nak()
    found: list[bytes] = []
    with consumer.consume(lambda msg: found.append(msg.data)) as consuming:
        eventually(lambda: len(found) == 2 or not consuming.running)
        assert consuming.error is None
    assert sorted(found) == [b"", b"2"]


def test_a_refused_request_says_nothing_of_the_next_one(js: JetStream, stream_name: str) -> None:
    inbox = inbox_of(js, stream_name)
    refusal = PermissionsViolationError("no", "publish", "next")
    inbox._sub._sink.refuse(refusal)  # that of a request on another inbox
    assert Background(inbox.refresh).result(TIMEOUT) == []
    status = receive(inbox, 0.0)
    assert isinstance(status, PullStatus) and repr(status.error) == repr(refusal)
    inbox.pull(PullRequest(1))
    assert isinstance(receive(inbox, TIMEOUT), JetStreamMsg)
    inbox._sub._sink.refuse(PermissionsViolationError("no", "subscription", inbox.subject))
    inbox.pull(PullRequest(1))
    status = receive(inbox, 0.0)
    while isinstance(status, JetStreamMsg):  # it may have come already
        status = receive(inbox, 0.0)
    assert isinstance(status, PullStatus) and status.meaning is Meaning.FATAL
    inbox.abandon()
