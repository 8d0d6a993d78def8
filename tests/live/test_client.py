"""The client against real servers of both versions, and over WebSocket: everything a program does with core
NATS."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

import natsync
from natsync import errors

from tests.support.fake_server import Background
from tests.support.servers import NatsServer
from tests.support.websocket_server import FORMS, server_of

pytestmark = pytest.mark.server

TIMEOUT = 10.0


@pytest.fixture(scope="module", params=FORMS)
def nats_servers(request: pytest.FixtureRequest) -> Iterator[NatsServer]:
    with server_of(request.param) as running:
        yield running


@pytest.fixture
def nc(nats_servers: NatsServer) -> Iterator[natsync.Client]:
    with natsync.connect(nats_servers.url, connect_timeout=TIMEOUT) as client:
        yield client


@pytest.fixture
def other(nats_servers: NatsServer) -> Iterator[natsync.Client]:
    with natsync.connect(nats_servers.url, connect_timeout=TIMEOUT) as client:
        yield client


def listening(nc: natsync.Client, subject: str, queue: str = "") -> natsync.Subscription:
    """A subscription that the server knows of."""
    sub = nc.subscribe(subject, queue=queue)
    nc.flush()
    return sub


def test_a_connected_client_knows_its_server(nc: natsync.Client, nats_servers: NatsServer) -> None:
    info = nc.server_info
    assert (info.server_name, info.version) == (nats_servers.name, nats_servers.version)
    assert info.client_id > 0 and info.max_payload == 1 << 20
    assert nc.status is natsync.Status.CONNECTED
    nc.flush()
    assert nc.rtt() < TIMEOUT


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_host_may_be_a_name_or_an_address(nats_servers: NatsServer, host: str) -> None:
    natsync.connect(f"{host}:{nats_servers.port}", connect_timeout=TIMEOUT).close()


def test_the_server_knows_name_language_and_subscriptions(nats_servers: NatsServer) -> None:
    with natsync.connect(nats_servers.url, name="worker 7") as nc:
        listening(nc, "known")
        connections = nats_servers.monitor("connz?subs=1")["connections"]
        assert isinstance(connections, list)
        (ours,) = (one for one in connections if one["cid"] == nc.server_info.client_id)
    assert (ours["name"], ours["lang"]) == ("worker 7", "python")
    assert ours["version"] == natsync.__version__
    assert ours["subscriptions_list"] == ["known"]


def test_the_addresses_of_both_ends(nats_servers: NatsServer) -> None:
    with natsync.connect(nats_servers.url) as nc:
        assert nc.tls_state is None
        connections = nats_servers.monitor("connz")["connections"]
        assert isinstance(connections, list)
        (ours,) = (one for one in connections if one["cid"] == nc.server_info.client_id)
        assert nc.local_address == f"{ours['ip']}:{ours['port']}"
        assert nc.remote_address == nc.server
        before = nc.local_address
        nc.reconnect()
        assert nc.wait_connected(TIMEOUT) and nc.local_address not in (None, before)
    assert nc.local_address is nc.remote_address is None


@pytest.mark.parametrize("size", [0, 1, 1000, 100_000, 1 << 20])
def test_payloads_arrive_as_they_were(nc: natsync.Client, other: natsync.Client, size: int) -> None:
    payload = bytes(range(256)) * (size // 256) + b"\r\n" * (size % 256 // 2) + b"x" * (size % 2)
    sub = listening(other, "payload.*")
    nc.publish("payload.one", payload, reply="re")
    msg = sub.next_msg(TIMEOUT)
    assert (msg.subject, msg.reply, msg.data) == ("payload.one", "re", payload)


def test_wildcards_match_as_the_server_says(nc: natsync.Client) -> None:
    one, rest, all_of_it = (nc.subscribe(subject) for subject in ("w.*", "w.>", ">"))
    for subject in ("w.a", "w.a.b", "w"):
        nc.publish(subject)
    nc.flush()
    assert one.next_msg(0).subject == "w.a"
    assert [rest.next_msg(0).subject for _ in range(2)] == ["w.a", "w.a.b"]
    assert (one.pending_msgs, rest.pending_msgs, all_of_it.pending_msgs) == (0, 0, 3)


def test_headers_arrive_with_their_order_case_and_repeats(
    nc: natsync.Client, other: natsync.Client
) -> None:
    sub = listening(other, "headed")
    nc.publish("headed", b"data", headers={"a": ["1", "2"], "A": "ü", "empty": ""})
    msg = sub.next_msg(TIMEOUT)
    assert msg.headers.fields == (("a", "1"), ("a", "2"), ("A", "ü"), ("empty", ""))
    other.publish("forward", msg.data, headers=msg.headers)
    nc.publish("headed", b"plain")
    assert len(sub.next_msg(TIMEOUT).headers) == 0


def test_queue_groups_share(nc: natsync.Client, other: natsync.Client) -> None:
    members = [listening(client, "work", "group") for client in (nc, other, nc)]
    everyone = listening(other, "work")
    for number in range(300):
        nc.publish("work", b"%d" % number)
    nc.flush()
    other.flush()
    taken = [int(sub.next_msg(0).data) for sub in members for _ in range(sub.pending_msgs)]
    assert sorted(taken) == list(range(300))
    assert everyone.pending_msgs == 300


def test_nothing_arrives_after_unsubscribing_or_the_limit(
    nc: natsync.Client, other: natsync.Client
) -> None:
    limited = nc.subscribe("u", max_msgs=3)
    ended = listening(nc, "u")
    ended.unsubscribe()
    nc.flush()
    for _ in range(5):
        other.publish("u")
    other.flush()
    nc.flush()
    assert len(list(limited)) == 3
    assert (ended.received, list(ended)) == (0, [])


def test_a_limit_set_later_counts_from_the_start(nc: natsync.Client) -> None:
    sub = nc.subscribe("later")
    nc.publish("later")
    nc.flush()
    sub.unsubscribe(max_msgs=3)
    for _ in range(5):
        nc.publish("later")
    assert len(list(sub)) == 3


def test_a_request_returns_the_reply_with_its_headers(
    nc: natsync.Client, other: natsync.Client
) -> None:
    other.subscribe("svc.*", handler=lambda msg: msg.respond(msg.data.upper(), headers={"k": "v"}))
    other.flush()
    reply = nc.request("svc.upper", b"abc", timeout=TIMEOUT)
    assert (reply.data, reply.headers["k"]) == (b"ABC", "v")
    assert nc.request("svc.upper", headers={"a": "b"}, timeout=TIMEOUT).data == b""


def test_no_responders_and_no_reply_are_different_errors(nc: natsync.Client) -> None:
    with pytest.raises(errors.NoRespondersError):
        nc.request("nobody.is.here", b"x", timeout=TIMEOUT)
    listening(nc, "silent")
    with pytest.raises(errors.RequestTimeoutError):
        nc.request("silent", timeout=0.05)
    with pytest.raises(errors.NoRespondersError):
        nc.request("nobody.is.here", timeout=TIMEOUT)


def test_the_first_of_several_replies_counts(nc: natsync.Client, other: natsync.Client) -> None:
    def twice(msg: natsync.Msg) -> None:
        msg.respond(b"first")
        msg.respond(b"second")

    other.subscribe("twice", handler=twice)
    other.flush()
    for _ in range(20):
        assert nc.request("twice", timeout=TIMEOUT).data == b"first"


def test_eight_threads_share_a_connection(nc: natsync.Client, other: natsync.Client) -> None:
    other.subscribe("echo", queue="q", handler=lambda msg: msg.respond(msg.data))
    other.flush()
    together = threading.Barrier(8)

    def ask(thread: int) -> None:
        sub = nc.subscribe(f"own.{thread}")
        together.wait(TIMEOUT)
        for number in range(100):
            data = b"%d/%d" % (thread, number)
            assert nc.request("echo", data, timeout=TIMEOUT).data == data
            nc.publish(f"own.{thread}", data)
        assert [sub.next_msg(TIMEOUT).data for _ in range(100)] == [
            b"%d/%d" % (thread, number) for number in range(100)
        ]
        nc.flush()

    for call in [Background(partial(ask, thread)) for thread in range(8)]:
        call.result(60)


def test_many_messages_in_order_and_none_lost(nc: natsync.Client, other: natsync.Client) -> None:
    count = 20_000
    sub = listening(other, "many.>")
    handled: list[int] = []
    all_handled = threading.Event()

    def handler(msg: natsync.Msg) -> None:
        handled.append(int(msg.data))
        if len(handled) == count:
            all_handled.set()

    other.subscribe("many.>", handler=handler)
    other.flush()

    def publish() -> None:
        for number in range(count):
            nc.publish(f"many.{number % 7}", b"%d" % number)

    call = Background(publish)
    assert [int(sub.next_msg(TIMEOUT).data) for _ in range(count)] == list(range(count))
    call.result()
    assert all_handled.wait(TIMEOUT)
    assert handled == list(range(count))
    assert (sub.dropped, sub.pending_msgs, sub.delivered) == (0, 0, count)


def test_several_publishers_lose_nothing(nc: natsync.Client, other: natsync.Client) -> None:
    sub = listening(other, "from.*")

    def publish(thread: int) -> None:
        for number in range(2500):
            nc.publish(f"from.{thread}", b"%d" % number)

    for call in [Background(partial(publish, thread)) for thread in range(4)]:
        call.result(30)
    got = [sub.next_msg(TIMEOUT) for _ in range(10_000)]
    assert Counter(msg.subject for msg in got) == {f"from.{n}": 2500 for n in range(4)}
    for thread in range(4):
        numbers = [int(msg.data) for msg in got if msg.subject == f"from.{thread}"]
        assert numbers == list(range(2500))


def test_what_was_published_before_closing_arrives(
    nc: natsync.Client, nats_servers: NatsServer
) -> None:
    sub = listening(nc, "goodbye")
    with natsync.connect(nats_servers.url) as leaving:
        listening(leaving, "goodbye")  # unread data at close would make the kernel send RST
        for number in range(1000):
            leaving.publish("goodbye", bytes(1000))
    for _ in range(1000):
        sub.next_msg(TIMEOUT)


def test_publishing_from_a_handler_that_outruns_the_buffer(nc: natsync.Client) -> None:
    sub = nc.subscribe("out")
    payload = bytes(64 << 10)

    def handler(msg: natsync.Msg) -> None:
        for _ in range(50):
            nc.publish("out", payload)

    nc.subscribe("in", handler=handler)
    for _ in range(4):
        nc.publish("in", payload)
    for _ in range(200):
        assert len(sub.next_msg(TIMEOUT).data) == len(payload)


def test_a_handler_that_raises_is_reported_and_gets_the_next_message(
    nats_servers: NatsServer,
) -> None:
    reported: list[errors.Error] = []
    got: list[bytes] = []
    done = threading.Event()

    def handler(msg: natsync.Msg) -> None:
        got.append(msg.data)
        if msg.data == b"bad":
            raise ValueError("bad")
        done.set()

    with natsync.connect(nats_servers.url, on_error=reported.append) as nc:
        nc.subscribe("h", handler=handler)
        nc.publish("h", b"bad")
        nc.publish("h", b"good")
        assert done.wait(TIMEOUT)
    assert got == [b"bad", b"good"]
    assert [type(error) for error in reported] == [errors.HandlerError]


def test_closing_from_a_handler_ends_the_waits_of_others(nats_servers: NatsServer) -> None:
    closed = threading.Event()
    nc = natsync.connect(nats_servers.url, on_close=lambda error: closed.set())
    nc.subscribe("stop", handler=lambda msg: nc.close())
    waiting = nc.subscribe("never")
    call = Background(waiting.next_msg)
    nc.publish("stop")
    with pytest.raises(errors.ConnectionClosedError):
        call.result()
    assert closed.wait(TIMEOUT)
    nc.close()


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=30,
    )


@pytest.mark.parametrize("callback", ["", ", on_close=print"])
def test_a_program_that_forgets_to_close_loses_no_message(
    nc: natsync.Client, nats_servers: NatsServer, callback: str
) -> None:
    sub = listening(nc, "forgotten")
    done = run(
        f"import natsync\nnc = natsync.connect({nats_servers.url!r}{callback})\n"
        "for n in range(5000): nc.publish('forgotten', b'x' * 1000)\n"
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr
    for _ in range(5000):
        sub.next_msg(TIMEOUT)


def test_a_forked_child_that_exits_leaves_the_connection_alone(nats_servers: NatsServer) -> None:
    done = run(
        f"import natsync, os, time\nnc = natsync.connect({nats_servers.url!r})\n"
        "sub = nc.subscribe('a')\nstart = time.monotonic()\nchild = os.fork()\n"
        "if child:\n"
        "    os.waitpid(child, 0)\n    nc.publish('a', b'alive')\n"
        "    print(sub.next_msg(10).data, time.monotonic() - start < 4)\n"
    )
    assert (done.stdout, done.stderr) == ("b'alive' True\n", "")
