"""What programs do, and must not lose a connection, a message or a secret by; over TCP, WebSocket and TLS."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import natsync
from natsync import errors

from tests.support.fake_server import Background
from tests.support.servers import NatsServer
from tests.support.websocket_server import EVERY_FORM, WEBSOCKETS, Form, running

pytestmark = pytest.mark.server

TIMEOUT = 10.0


@pytest.fixture(scope="module", params=EVERY_FORM)
def nats_servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NatsServer]:
    with running(request.param, tmp_path_factory.mktemp("certificates")) as server:
        yield server


@pytest.fixture
def nc(nats_servers: NatsServer) -> Iterator[natsync.Client]:
    with natsync.connect(nats_servers.url) as client:
        yield client


def test_a_reply_has_no_headers_of_the_request(nc: natsync.Client) -> None:
    nc.subscribe("secret", handler=lambda msg: msg.respond(b"yes"))
    everything = nc.subscribe(">")
    headers = {"Authorization": ["Bearer s3cret", "Basic other"], "Plain": "p"}
    reply = nc.request("secret", headers=headers, timeout=TIMEOUT)
    assert (reply.data, len(reply.headers)) == (b"yes", 0)
    nc.flush(TIMEOUT)
    asked, answered = everything.messages(timeout=0)
    assert asked.headers.get_all("Authorization") == headers["Authorization"]
    assert (answered.subject, len(answered.headers)) == (asked.reply, 0)


def test_headers_of_one_name_all_arrive(nc: natsync.Client) -> None:
    sub = nc.subscribe("h")
    nc.publish("h", headers={"A": ["1", "2", "1"], "a": "3"})
    headers = sub.next_msg(TIMEOUT).headers
    assert (headers.get_all("A"), headers.get_all("a")) == (["1", "2", "1"], ["3"])


@pytest.mark.parametrize("form", EVERY_FORM)
def test_headers_count_towards_the_limit(form: Form, tmp_path: Path) -> None:
    with (
        running(form, tmp_path, "max_payload: 1000") as server,
        natsync.connect(server.url) as nc,
    ):
        sub = nc.subscribe("big")
        for size in (900, 960, 990, 1000, 1001):
            try:
                nc.publish("big", bytes(size), headers={"k": "v" * 20})
            except errors.MaxPayloadError:
                pass
        nc.publish("big", b"last")
        nc.flush(TIMEOUT)
        assert [len(msg.data) for msg in sub.messages(timeout=0)] == [900, 960, 4]
        assert nc.stats.reconnects == 0


def test_payloads_that_look_like_the_protocol(nc: natsync.Client) -> None:
    sub = nc.subscribe("p")
    payloads = [
        b"\r\n",
        b"PING\r\n",
        b"MSG p 1 5\r\nhello\r\n",
        b"-ERR 'Unknown'\r\n" * 1000,
        b"\r\n\r\n",
        b"x\r",
        b"\n",
    ]
    for payload in payloads:
        nc.publish("p", payload)
    assert [sub.next_msg(TIMEOUT).data for _ in payloads] == payloads


@pytest.mark.parametrize("form", ["current", "websocket"])
def test_pings_while_messages_wait(form: Form, tmp_path: Path) -> None:
    with (
        running(form, tmp_path, 'ping_interval: "50ms"\nping_max: 12') as server,
        natsync.connect(server.url, reconnect=False) as nc,
    ):
        waiting, entered = threading.Event(), threading.Event()

        def handler(msg: natsync.Msg) -> None:
            entered.set()
            waiting.wait(TIMEOUT)

        nc.subscribe("w", handler=handler)
        pending = nc.subscribe("w")
        for _ in range(100):
            nc.publish("w", bytes(1000))
        assert entered.wait(TIMEOUT)
        assert not waiting.wait(0.8)  # sixteen pings
        nc.flush(TIMEOUT)
        assert pending.pending_msgs == 100
        waiting.set()


def test_a_handler_that_always_raises_gets_every_message(nats_servers: NatsServer) -> None:
    seen: list[bytes] = []
    failures: list[int] = []
    done = threading.Event()

    def on_error(error: errors.Error) -> None:
        assert isinstance(error, errors.HandlerError)
        failures.append(error.failures)

    def handler(msg: natsync.Msg) -> None:
        seen.append(msg.data)
        if len(seen) == 100:
            done.set()
        raise ValueError(msg.data)

    with natsync.connect(nats_servers.url, on_error=on_error) as nc:
        nc.subscribe("bad", handler=handler)
        for number in range(100):
            nc.publish("bad", b"%d" % number)
        assert done.wait(TIMEOUT)
        nc.drain(TIMEOUT)
    assert seen == [b"%d" % number for number in range(100)] and sum(failures) == 100


def test_replies_reach_who_asked(nats_servers: NatsServer) -> None:
    """Sixteen threads, and answers that come in another order than the questions."""
    with natsync.connect(nats_servers.url) as nc, natsync.connect(nats_servers.url) as other:
        kept: list[natsync.Msg] = []

        def answer(msg: natsync.Msg) -> None:
            kept.append(msg)
            if len(kept) == 16:
                for each in reversed(kept):
                    each.respond(each.data)
                kept.clear()

        other.subscribe("late", handler=answer)
        other.flush()
        together = threading.Barrier(16)

        def ask(thread: int) -> None:
            for number in range(20):
                together.wait(TIMEOUT)
                data = b"%d/%d" % (thread, number)
                assert nc.request("late", data, timeout=TIMEOUT).data == data

        for call in [Background(partial(ask, thread)) for thread in range(16)]:
            call.result(40)


def test_threads_do_not_mix_their_bytes(nc: natsync.Client) -> None:
    sub = nc.subscribe("mix.*", pending_bytes_limit=-1)

    def publish(thread: int) -> None:
        for size in range(0, 20_000, 97):
            nc.publish(f"mix.{thread}", bytes([65 + thread]) * size)

    for call in [Background(partial(publish, thread)) for thread in range(8)]:
        call.result(30)
    nc.flush(TIMEOUT)
    for msg in sub.messages(timeout=0):
        thread = int(msg.subject.split(".")[1])
        assert msg.data == bytes([65 + thread]) * len(msg.data)
    assert sub.received == 8 * len(range(0, 20_000, 97)) and nc.stats.reconnects == 0


DENIED = (
    'authorization { users: [{ user: u, password: p, permissions: { publish: { deny: "no.>" }, '
)
DENIED += 'subscribe: { deny: "no.>" } } }] }'


@pytest.mark.parametrize("form", EVERY_FORM)
def test_what_is_denied_is_reported_at_once(form: Form, tmp_path: Path) -> None:
    with (
        running(form, tmp_path, DENIED) as server,
        natsync.connect(server.url, user="u", password="p") as nc,
    ):
        for _ in range(3):
            with pytest.raises(errors.PermissionsViolationError):
                nc.request("no.request", timeout=TIMEOUT)
            with pytest.raises(errors.PermissionsViolationError):
                nc.request_async("no.request", timeout=TIMEOUT).result(TIMEOUT)
            with pytest.raises(errors.PermissionsViolationError):
                nc.publish_confirmed("no.publish", timeout=TIMEOUT)
            with nc.subscribe("no.sub") as sub, pytest.raises(errors.PermissionsViolationError):
                sub.next_msg(TIMEOUT)
        nc.flush(TIMEOUT)
        assert nc.stats.reconnects == 0


FORK = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)
import natsync
nc = natsync.connect(sys.argv[1])
nc.subscribe("svc", handler=lambda msg: msg.respond(b"parent"), queue="q")
sub = nc.subscribe("to.parent")
nc.flush()
children = []
for number in range(4):
    pid = os.fork()
    if not pid:
        assert nc.request("svc", timeout=10).data == b"parent"
        own = nc.subscribe("own.%d" % os.getpid())
        nc.publish(own.subject, b"heard")
        assert own.next_msg(10).data == b"heard"
        nc.publish("to.parent", b"child")
        nc.close()
        os._exit(0)
    children.append(pid)
assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * 4
assert [sub.next_msg(10).data for _ in range(4)] == [b"child"] * 4
assert nc.request("svc", timeout=10).data == b"parent" and nc.stats.reconnects == 0
nc.close()
print("fine")
"""


# A fork is the same to servers of any version.
@pytest.mark.parametrize("nats_servers", ["current", *WEBSOCKETS], indirect=True)
def test_forked_children_hear_and_are_heard(nats_servers: NatsServer) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK, nats_servers.url],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (done.stdout, done.stderr) == ("fine\n", "")
