"""The client's calls, as a user makes them, against a server that shows what reached it."""

from __future__ import annotations

import errno
import gc
import subprocess
import sys
import threading
import weakref
from array import array
from collections.abc import Iterator
from functools import partial
from queue import SimpleQueue

import pytest

import natsync
from natsync import errors
from natsync.protocol import (
    Connect,
    ConnectOptions,
    HMsg,
    HPub,
    Info,
    Msg,
    Ping,
    Pong,
    Pub,
    Sub,
    Unsub,
)

from tests.support.fake_server import INFO, Background, FakeServer, Peer
from tests.support.waiting import eventually

TIMEOUT = 10.0
Connected = tuple[natsync.Client, Peer]


@pytest.fixture
def connected() -> Iterator[Connected]:
    with FakeServer() as server, server.client() as connected:
        yield connected


def test_what_connect_says() -> None:
    with FakeServer() as server:
        connect = partial(natsync.connect, name="me", token="tok")
        call = server.connecting(connect)
        peer = server.accept()
        peer.send(Info(INFO.to_json()))
        options = ConnectOptions.parse(peer.expect(Connect).json)
        peer.send(Pong())
        call.result().close(0)
    assert (options.name, options.auth_token, options.lang) == ("me", "tok", "python")
    assert options.version == natsync.__version__
    assert (options.verbose, options.pedantic, options.protocol) == (False, False, 1)
    assert options.headers and options.no_responders


@pytest.mark.parametrize(
    "data", [b"", b"x", bytearray(b"xy"), memoryview(b"xyz"), memoryview(b"abcd").cast("H")]
)
def test_publishing_any_bytes(connected: Connected, data: bytes | bytearray | memoryview) -> None:
    nc, peer = connected
    nc.publish("ä.b", data)
    assert peer.expect(Pub) == Pub("ä.b".encode(), b"", bytes(data))
    nc.publish("a", data, reply="re", headers={"k": ["1", "2"], "K": "ü"})
    block = "NATS/1.0\r\nk: 1\r\nk: 2\r\nK: ü\r\n\r\n".encode()
    assert peer.expect(HPub) == HPub(b"a", b"re", block, bytes(data))


def test_publishing_a_message(connected: Connected) -> None:
    nc, peer = connected
    nc.publish(natsync.Msg("a", b"1", reply="r", headers={"k": ["v", "w"]}))
    nc.publish(natsync.Msg("a", b"2"))
    block = b"NATS/1.0\r\nk: v\r\nk: w\r\n\r\n"
    assert peer.expect(HPub) == HPub(b"a", b"r", block, b"1")
    assert peer.expect(Pub) == Pub(b"a", b"", b"2")
    with pytest.raises(TypeError, match="^a Msg is sent alone"):
        nc.publish(natsync.Msg("a"), b"more")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("a", "text"), "data.encode()"),
        (("a", 5), "not int"),
        (("a", None), "not NoneType"),
        ((b"a", b"x"), "subject must be str, not bytes"),
        ((None, b"x"), "subject must be str"),
    ],
)
def test_publishing_what_is_no_bytes(
    connected: Connected, arguments: tuple[str, bytes], says: str
) -> None:
    nc, peer = connected
    for call in (nc.publish, nc.request):
        with pytest.raises(TypeError, match=says.replace("(", r"\(").replace(")", r"\)")):
            call(*arguments)
    with pytest.raises(TypeError, match="reply must be str"):
        nc.publish("a", b"", reply=b"re")  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("subject", ["", "a b", "a\r\nPUB x", "a\t"])
def test_subjects_that_cannot_be_sent(connected: Connected, subject: str) -> None:
    nc, peer = connected
    with pytest.raises(errors.ProtocolError):
        nc.publish(subject)
    if subject:
        with pytest.raises(errors.ProtocolError):
            nc.publish("a", reply=subject)
    nc.publish("fine")
    assert peer.expect(Pub).subject == b"fine"


def test_max_payload_counts_headers() -> None:
    block = len(b"NATS/1.0\r\nk: v\r\n\r\n")
    info = natsync.ServerInfo(headers=True, max_payload=block + 10)
    with FakeServer() as server, server.client(info=info) as (nc, peer):
        nc.publish("a" * 100, bytes(block + 10))
        nc.publish("a", bytes(10), headers={"k": "v"})
        with pytest.raises(errors.MaxPayloadError) as caught:
            nc.publish("a", bytes(11), headers={"k": "v"})
        assert (caught.value.size, caught.value.limit) == (block + 11, block + 10)
        with pytest.raises(errors.MaxPayloadError):
            nc.publish("a", memoryview(bytes(2 * block + 40)).cast("H"))
        with pytest.raises(errors.MaxPayloadError):
            nc.request("a", bytes(100))
        peer.expect(Pub)
        peer.expect(HPub)


def test_a_subscription_comes_before_what_is_published_next(connected: Connected) -> None:
    nc, peer = connected
    nc.publish("1")
    nc.subscribe("2", queue="q")
    nc.publish("3")
    call = Background(nc.flush)
    nc.publish("4")
    kinds = [type(peer.next()) for _ in range(5)]
    assert kinds[:3] == [Pub, Sub, Pub]
    assert sorted(kind.__name__ for kind in kinds[3:]) == ["Ping", "Pub"]
    peer.send(Pong())
    call.result()


def test_arguments_that_make_no_sense(connected: Connected) -> None:
    nc, _ = connected
    with pytest.raises(errors.OptionError):
        nc.subscribe("a", max_msgs=0)
    with pytest.raises(errors.OptionError):
        nc.subscribe("a").unsubscribe(max_msgs=10**9)
    with pytest.raises(TypeError, match="subject must be str"):
        nc.subscribe(b"a")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(TypeError, match="queue must be str"):
        nc.subscribe("a", queue=None)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(errors.OptionError):
        nc.subscribe("a", pending_msgs_limit=0)
    with pytest.raises(errors.ProtocolError):
        nc.subscribe("a..b")
    with pytest.raises(errors.OptionError):
        natsync.connect("http://x")


def answer(peer: Peer, payload: bytes = b"", headers: bytes = b"") -> bytes:
    """Plays the responder of the next request; returns its subject."""
    request = peer.until(Pub)
    sid = b"1"
    if headers:
        peer.send(HMsg(request.reply, sid, b"", headers, payload))
    else:
        peer.send(Msg(request.reply, sid, b"", payload))
    return request.subject


def test_a_request_and_its_reply(connected: Connected) -> None:
    nc, peer = connected
    for number in range(3):
        call = Background(lambda: nc.request("svc", b"question", timeout=10))
        assert answer(peer, b"%d" % number) == b"svc"
        assert call.result().data == b"%d" % number
    call = Background(lambda: nc.request("svc", headers={"k": "v"}, timeout=10))
    request = peer.expect(HPub)  # no second SUB
    peer.send(Msg(request.reply, b"1", b"back", b"x"))
    assert call.result().reply == "back"


def test_a_request_that_nobody_listens_for_fails_at_once(connected: Connected) -> None:
    nc, peer = connected
    for headers in (b"NATS/1.0 503\r\n\r\n", b"NATS/1.0 503\r\nNats-Subject: svc\r\n\r\n"):
        call = Background(lambda: nc.request("svc", timeout=10))
        answer(peer, headers=headers)
        with pytest.raises(errors.NoRespondersError) as caught:
            call.result()
        assert caught.value.subject == "svc"


@pytest.mark.parametrize(
    ("headers", "payload"),
    [
        (b"NATS/1.0 503\r\n\r\n", b"a user's own 503"),
        (b"NATS/1.0 404\r\n\r\n", b""),
        (b"NATS/1.0\r\nStatus: 503\r\n\r\n", b""),
        (b"broken\r\n\r\n", b""),
    ],
)
def test_other_statuses_are_replies(connected: Connected, headers: bytes, payload: bytes) -> None:
    nc, peer = connected
    call = Background(lambda: nc.request("svc", timeout=10))
    answer(peer, payload, headers)
    assert call.result().data == payload


def test_a_request_that_nobody_answers_times_out(connected: Connected) -> None:
    nc, peer = connected
    with pytest.raises(errors.RequestTimeoutError) as caught:
        nc.request("svc", timeout=0.01)
    assert (caught.value.subject, caught.value.timeout) == ("svc", 0.01)
    late = peer.until(Pub)
    call = Background(lambda: nc.request("svc", timeout=10))
    peer.send(Msg(late.reply, b"1", b"", b"late"))
    answer(peer, b"in time")
    assert call.result().data == b"in time"


def test_a_request_that_was_given_up_is_forgotten(connected: Connected) -> None:
    nc, peer = connected
    with pytest.raises(errors.RequestTimeoutError):
        nc.request("svc", timeout=0.01)
    peer.until(Pub)
    call = Background(lambda: nc.request("svc", timeout=10))
    peer.until(Pub)
    # A rewritten subject is understood only where one request waits.
    peer.send(Msg(b"imported", b"1", b"", b"answer"))
    assert call.result().data == b"answer"


def test_the_connection_has_a_default_for_requests() -> None:
    connect = partial(natsync.connect, request_timeout=0.01)
    with FakeServer() as server, server.client(connect) as (nc, _):
        with pytest.raises(errors.RequestTimeoutError, match="0.01 s"):
            nc.request("svc")


def test_a_denied_request_raises_at_once(connected: Connected) -> None:
    nc, peer = connected
    call = Background(lambda: nc.request("svc", timeout=10))
    peer.until(Pub)
    peer.send(b"-ERR 'Permissions Violation for Publish to \"svc\"'\r\n")
    with pytest.raises(errors.PermissionsViolationError):
        call.result()


def test_a_denied_inbox_raises_at_once(connected: Connected) -> None:
    nc, peer = connected
    call = Background(lambda: nc.request("svc", timeout=10))
    subject = peer.until(Sub).subject
    peer.send(b"-ERR 'Permissions Violation for Subscription to \"%b\"'\r\n" % subject)
    for _ in range(2):  # the one that waits, and the next
        with pytest.raises(errors.PermissionsViolationError):
            call.result()
        call = Background(lambda: nc.request("svc", timeout=10))
    with pytest.raises(errors.PermissionsViolationError):
        call.result()


def test_inboxes(connected: Connected) -> None:
    nc, _ = connected
    assert nc.new_inbox() != nc.new_inbox()
    assert nc.new_inbox().startswith("_INBOX.")
    connect = partial(natsync.connect, inbox_prefix="mine.here")
    with FakeServer() as server, server.client(connect) as (nc, peer):
        assert nc.new_inbox().startswith("mine.here.")
        call = Background(lambda: nc.request("a", timeout=10))
        assert peer.until(Sub).subject.startswith(b"mine.here.")
        answer(peer, b"yes")
        assert call.result().data == b"yes"


def test_flush_and_rtt(connected: Connected) -> None:
    nc, peer = connected
    call = Background(lambda: nc.rtt(10))
    peer.expect(Ping)
    peer.send(Pong())
    assert 0 < call.result() < 10


def test_what_it_tells_of_itself(connected: Connected) -> None:
    nc, peer = connected
    assert nc.status is natsync.Status.CONNECTED
    assert (nc.server_info.server_name, nc.server_info.client_id) == ("fake", 7)
    assert repr(nc) == f"Client({nc.server}, connected)"
    assert nc.server == "{}:{}".format(*peer.connection.getsockname())
    before = nc.stats
    nc.publish("a", b"xyz")
    sub = nc.subscribe("b")
    assert repr(sub) == "Subscription('b', 0 pending)"
    peer.until(Sub)
    wire = Msg(b"b", b"1", b"", b"hello")
    peer.send(wire, wire)
    sub.next_msg(10)
    sub.next_msg(10)
    after = nc.stats
    assert (after.in_msgs - before.in_msgs, after.out_msgs - before.out_msgs) == (2, 1)
    assert after.in_bytes - before.in_bytes == 2 * len(b"MSG b 1 5\r\nhello\r\n")
    assert after.out_bytes - before.out_bytes == len(b"PUB a 3\r\nxyz\r\nSUB b 1\r\n")
    nc.close(0)
    assert (nc.status, nc.stats.out_msgs) == (natsync.Status.CLOSED, after.out_msgs)


def test_closing_from_a_handler_and_from_a_callback() -> None:
    done = threading.Event()

    def close_and_tell(_: natsync.Msg | errors.Error) -> None:
        nc.close(0)
        done.set()

    with FakeServer() as server:
        with server.client() as (nc, peer):
            nc.subscribe("a", handler=close_and_tell)
            peer.send(Msg(b"a", peer.subscribed()))
            assert done.wait(10)
            assert nc.status is natsync.Status.CLOSED
        done.clear()
        with server.client(partial(natsync.connect, on_error=close_and_tell)) as (nc, peer):
            peer.send(b"-ERR 'Invalid Subject'\r\n")
            assert done.wait(10)


class Held(Exception):
    """Its traceback holds the message of the handler that raises it."""


def test_a_handler_that_always_fails_keeps_little_while_a_callback_is_slow() -> None:
    began, go = threading.Event(), threading.Event()
    failures: list[int] = []
    raised: weakref.WeakSet[Held] = weakref.WeakSet()

    def on_error(error: errors.Error) -> None:
        failures.append(getattr(error, "failures", 1))
        began.set()
        assert go.wait(TIMEOUT)

    def handler(msg: natsync.Msg) -> None:
        error = Held(msg.data)
        raised.add(error)
        raise error

    with FakeServer() as server, server.client(partial(natsync.connect, on_error=on_error)) as pair:
        nc, peer = pair
        sub = nc.subscribe("a", handler=handler)
        sid = peer.subscribed()
        peer.send(Msg(b"a", sid))
        assert began.wait(TIMEOUT)
        peer.send(*[Msg(b"a", sid)] * 2000)
        eventually(lambda: sub.delivered == 2001)
        call = Background(lambda: sub.drain(TIMEOUT))  # although the callback does not return
        peer.until(Unsub)
        peer.answer()
        call.result()
        gc.collect()
        assert len(raised) < 40
        go.set()
        call = Background(partial(nc.close, TIMEOUT))
        peer.expect_end()
        call.result()
        assert sum(failures) == 2001


def test_closing_from_many_threads_at_once(connected: Connected) -> None:
    nc, _ = connected
    for call in [Background(lambda: nc.close(0.01)) for _ in range(5)]:
        call.result()
    assert nc.status is natsync.Status.CLOSED


def test_the_context_closes() -> None:
    with FakeServer() as server:
        call = server.connecting(natsync.connect)
        peer = server.accept()
        peer.greet()
        end = Background(peer.expect_end)
        with call.result() as nc:
            sub = nc.subscribe("a")
        assert (nc.status, sub.closed, list(sub)) == (natsync.Status.CLOSED, True, [])
        end.result()


def test_importing_is_quick_and_loads_nothing_heavy() -> None:
    code = "import sys, natsync; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"ssl", "asyncio", "concurrent.futures", "uuid", "http", "email", "argparse"}
    assert heavy & set(done.stdout.split()) == set()


def no_more(*_: object) -> None:
    raise RuntimeError("can't start new thread")


def test_no_more_threads_or_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_files() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("natsync._engine.loop.WakePair", no_files)
        with pytest.raises(errors.ConnectError, match="Too many open files"):
            natsync.connect("nats://127.0.0.1:1")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_more)
        with pytest.raises(errors.ConnectError, match="can't start new thread"):
            natsync.connect("nats://127.0.0.1:1")


def test_no_thread_for_a_handler(connected: Connected, monkeypatch: pytest.MonkeyPatch) -> None:
    nc, peer = connected
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_more)
        with pytest.raises(errors.HandlerError):
            nc.subscribe("a", handler=print)
    peer.subscribed()
    assert peer.expect(Unsub) == Unsub(b"1")


def test_a_limited_subscription_has_no_more_from_the_start(
    connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    nc, _ = connected
    written: list[object] = []
    monkeypatch.setattr(nc._connection.outbound, "put_control", written.append)
    nc.subscribe("a", max_msgs=1)
    assert len(written) == 1  # nothing can come in between SUB and its limit


def test_a_view_of_wide_items_spoils_no_later_message() -> None:
    wide = memoryview(array("I", [1, 2]))
    with FakeServer() as server, server.client() as (nc, peer):
        nc.publish("a", wide)
        nc.publish("a", b"xy")
        assert peer.expect(Pub).payload == wide.tobytes()
        assert peer.expect(Pub).payload == b"xy"


def test_callbacks_may_be_added_and_removed_later() -> None:
    """Those of one name are called in order; one that raises does not keep the next from being called."""
    told: SimpleQueue[str] = SimpleQueue()

    def fails(error: errors.Error | None) -> None:
        told.put("fails")
        raise ValueError

    def first(error: errors.Error | None) -> None:
        told.put("first")

    def second(error: errors.Error | None) -> None:
        told.put("second")

    connect = partial(natsync.connect, on_disconnect=fails, reconnect_wait=0.01)
    with FakeServer() as server, server.client(connect) as (nc, peer):
        for call in (first, first, second):
            nc.add_callback("on_disconnect", call)
        nc.remove_callback("on_disconnect", first)
        peer.close()
        peer = server.accept()
        peer.greet()
        assert [told.get(timeout=TIMEOUT) for _ in range(3)] == ["fails", "first", "second"]
        nc.remove_callback("on_disconnect", fails)
        nc.remove_callback("on_disconnect", second)
        peer.close()
        server.accept().greet()
        assert nc.wait_connected(TIMEOUT) and told.get(timeout=TIMEOUT) == "first"
        assert told.empty()


def test_callbacks_that_make_no_sense_are_refused() -> None:
    with FakeServer() as server, server.client() as (nc, _):

        async def waits(error: object) -> None:
            pass

        for call in (None, 5, waits):
            with pytest.raises(TypeError, match="on_error must be"):
                nc.add_callback("on_error", call)  # type: ignore[arg-type]  # wrong on purpose
        for change in (nc.add_callback, nc.remove_callback):
            with pytest.raises(errors.OptionError, match="name: is one of on_error, on_connect,"):
                change("on_message", print)  # type: ignore[arg-type]  # wrong on purpose
        with pytest.raises(errors.OptionError, match="on_error: is not a callback of this client"):
            nc.remove_callback("on_error", print)
