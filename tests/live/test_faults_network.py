"""A client behind a bad network, over TCP, WebSocket and TLS: what each fault costs, and that it says so. A
proxy does the harm."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, process_time, thread_time

import pytest

import natsync
from natsync import errors

from tests.support.fake_server import Background
from tests.support.faults import Link
from tests.support.proxy import Admission, Proxy
from tests.support.servers import NatsServer, StartServer
from tests.support.waiting import eventually
from tests.support.websocket_server import EVERY_FORM, Form, proxy_to, running

pytestmark = pytest.mark.server

TIMEOUT = 10.0


@pytest.fixture(scope="module", params=EVERY_FORM)
def nats_servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NatsServer]:
    with running(request.param, tmp_path_factory.mktemp("certificates")) as server:
        yield server


@pytest.fixture
def proxy(nats_servers: NatsServer) -> Iterator[Proxy]:
    with proxy_to(nats_servers) as between:
        yield between


@pytest.fixture
def witness(nats_servers: NatsServer) -> Iterator[natsync.Client]:
    """Not behind the proxy."""
    with natsync.connect(nats_servers.url, connect_timeout=TIMEOUT) as client:
        yield client


class Events:
    """What a client was told, in order."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.errors: list[errors.Error | None] = []
        self._changed = threading.Condition()

    def connect(self, url: str, **options: object) -> natsync.Client:
        call: Callable[..., natsync.Client] = natsync.connect
        return call(
            url,
            connect_timeout=TIMEOUT,
            on_disconnect=lambda error: self._add("lost", error),
            on_reconnect=lambda: self._add("back", None),
            on_close=lambda error: self._add("closed", error),
            **options,
        )

    def _add(self, what: str, error: errors.Error | None) -> None:
        with self._changed:
            self.seen.append(what)
            self.errors.append(error)
            self._changed.notify_all()

    def wait_for(self, *seen: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.seen == [*seen], TIMEOUT), self.seen


@pytest.mark.parametrize("reset", [False, True])
def test_a_cut_is_reported_and_healed(proxy: Proxy, witness: natsync.Client, reset: bool) -> None:
    events = Events()
    with events.connect(proxy.url) as nc:
        sub = nc.subscribe("cut.*")
        waiting = Background(lambda: sub.next_msg(TIMEOUT))
        nc.flush()
        proxy.cut(reset=reset)
        events.wait_for("lost", "back")
        nc.flush()
        witness.publish("cut.after", b"x")
        assert waiting.result().data == b"x"
        assert nc.stats.reconnects == 1
    assert isinstance(events.errors[0], errors.ConnectionClosedError)


def test_publishing_right_after_a_reconnect(proxy: Proxy, witness: natsync.Client) -> None:
    sub = witness.subscribe("after")
    witness.flush()
    back: list[Background[None]] = []

    def publish() -> None:
        for number in range(100):
            nc.publish("after", b"%d" % number)
        nc.flush(TIMEOUT)

    with natsync.connect(proxy.url, on_reconnect=lambda: back.append(Background(publish))) as nc:
        for _ in range(5):
            back.clear()
            proxy.cut()
            eventually(lambda: bool(back))
            back[0].result()
            assert [int(sub.next_msg(TIMEOUT).data) for _ in range(100)] == list(range(100))


@pytest.mark.parametrize("bite", [1, 3, 50])
def test_a_trickle_garbles_nothing(nats_servers: NatsServer, bite: int) -> None:
    if nats_servers.url.startswith("wss:"):
        bite *= 20  # a TLS handshake has some thousands of bytes

    def slow(link: Link) -> None:
        link.to_server.trickle(bite, 0.0002)
        link.to_client.trickle(bite, 0.0002)

    payload = b"PING\r\nMSG a 1 3\r\n\r\n-ERR 'no'\r\n"
    with proxy_to(nats_servers, slow) as proxy:
        with natsync.connect(proxy.url, connect_timeout=TIMEOUT) as nc:
            sub = nc.subscribe("trickle")
            for _ in range(5):
                nc.publish("trickle", payload, reply="r", headers={"a": ["1", "2"]})
            for _ in range(5):
                msg = sub.next_msg(TIMEOUT)
                assert (msg.data, msg.headers.get_all("a")) == (payload, ["1", "2"])


def test_a_black_hole_is_found_by_the_keep_alive(proxy: Proxy) -> None:
    events = Events()
    with events.connect(proxy.url, ping_interval=0.05, max_pings_out=20) as nc:
        sub = nc.subscribe("hole")
        waiting = Background(lambda: sub.next_msg(TIMEOUT))
        link = proxy.link()
        link.to_server.swallow()
        link.to_client.swallow()
        events.wait_for("lost", "back")
        assert isinstance(events.errors[0], errors.StaleConnectionError)
        nc.publish("hole", b"again")
        assert waiting.result().data == b"again"


def test_a_stalled_network_makes_publishers_wait_and_fail(proxy: Proxy) -> None:
    with natsync.connect(proxy.url, write_timeout=0.2) as nc:
        proxy.link().to_server.stall(reading=False)
        begun = monotonic()
        with pytest.raises(errors.OutboundBufferLimitError):
            for _ in range(10_000):
                nc.publish("stalled", bytes(10_000))
        assert 0.2 <= monotonic() - begun < TIMEOUT
        assert nc.status is natsync.Status.CONNECTED
        proxy.link().to_server.resume()
        nc.flush(TIMEOUT)


def test_closing_on_a_stalled_network_takes_no_cpu(proxy: Proxy) -> None:
    nc = natsync.connect(proxy.url)
    proxy.link().to_server.stall(reading=False)
    with pytest.raises(errors.FlushTimeoutError):
        nc.flush(0.01)
    begun, spent = monotonic(), process_time() - thread_time()
    nc.close(0.8)
    assert 0.7 < monotonic() - begun < 3
    assert process_time() - thread_time() - spent < 0.3


def test_a_flush_that_is_late_harms_nothing(proxy: Proxy) -> None:
    with natsync.connect(proxy.url) as nc:
        sub = nc.subscribe("late")
        nc.flush()
        proxy.link().to_client.stall()
        for _ in range(3):
            with pytest.raises(errors.FlushTimeoutError):
                nc.flush(0.02)
        nc.publish("late", b"heard")
        proxy.link().to_client.resume()
        assert sub.next_msg(TIMEOUT).data == b"heard"
        nc.flush(TIMEOUT)


def test_flushing_without_a_connection_raises(proxy: Proxy) -> None:
    with natsync.connect(proxy.url) as nc:
        proxy.link().to_server.stall()
        call = Background(lambda: nc.flush(TIMEOUT))
        proxy.wait_for(lambda: proxy.link().to_server.held > 0)
        proxy.admit(Admission.REFUSE)
        proxy.cut()
        with pytest.raises(errors.ConnectionReconnectingError):
            call.result()
        eventually(lambda: nc.status is natsync.Status.RECONNECTING)
        with pytest.raises(errors.ConnectionReconnectingError):
            nc.flush(TIMEOUT)
        with pytest.raises(errors.ConnectionReconnectingError):
            nc.publish_confirmed("never", b"x")


def test_what_is_kept_while_away_is_limited_and_arrives(
    proxy: Proxy, witness: natsync.Client
) -> None:
    sub = witness.subscribe("kept")
    witness.flush()
    events = Events()
    with events.connect(proxy.url, reconnect_buffer=10_000) as nc:
        proxy.admit(Admission.REFUSE)
        proxy.cut()
        events.wait_for("lost")
        assert nc.status is natsync.Status.RECONNECTING
        sent = 0
        with pytest.raises(errors.OutboundBufferLimitError):
            while True:
                nc.publish("kept", b"%04d" % sent + bytes(100))
                sent += 1
        assert 50 < sent < 120
        proxy.admit(Admission.FORWARD)
        events.wait_for("lost", "back")
        nc.flush(TIMEOUT)
        assert [int(sub.next_msg(TIMEOUT).data[:4]) for _ in range(sent)] == list(range(sent))
        assert nc.stats.unconfirmed_msgs == 0


def test_giving_up_is_reported(proxy: Proxy) -> None:
    events = Events()
    with events.connect(proxy.url, max_reconnects=3, reconnect_wait=0.01) as nc:
        sub = nc.subscribe("x")
        proxy.admit(Admission.REFUSE)
        proxy.cut()
        with pytest.raises(errors.ConnectionClosedError):
            sub.next_msg(TIMEOUT)
        events.wait_for("lost", "closed")
        assert isinstance(events.errors[1], errors.ConnectError)


@pytest.mark.parametrize("admission", [Admission.HANG_UP, Admission.RESET, Admission.REFUSE])
def test_a_server_that_takes_nobody_is_not_hurried(proxy: Proxy, admission: Admission) -> None:
    with natsync.connect(proxy.url, reconnect_wait=0.1, reconnect_max_wait=0.2) as nc:
        before = proxy.accepted
        proxy.admit(admission)
        proxy.cut()
        eventually(lambda: nc.status is natsync.Status.RECONNECTING)
        spent = process_time()
        assert not nc.wait_connected(1.0)
        assert process_time() - spent < 0.5
        assert proxy.accepted - before <= 11
        proxy.admit(Admission.FORWARD)
        assert nc.wait_connected(TIMEOUT)


def test_a_server_that_drops_us_at_once_is_not_hurried(nats_servers: NatsServer) -> None:
    """It takes us, answers, and hangs up: a subscription it cannot read, say, which it is told again."""
    with proxy_to(nats_servers) as proxy:
        with natsync.connect(proxy.url, reconnect_wait=0.1, reconnect_max_wait=5.0) as nc:
            nc.subscribe("a")._sink.wire_subject = (
                b"no line of SUB"  # as the client never lets through
            )
            nc.reconnect()
            proxy.wait_for(lambda: len(proxy.links) > 2)  # it was dropped at least once
            until = monotonic() + 1.5
            proxy.wait_for(lambda: monotonic() > until or len(proxy.links) > 30)
            assert len(proxy.links) <= 8


@pytest.mark.parametrize("form", EVERY_FORM)
def test_a_server_killed_under_load_is_accounted_for(form: Form, tmp_path: Path) -> None:
    """What the server has confirmed may die with it, before a listener has it. Nothing else is unknown."""
    events = Events()
    with (
        running(form, tmp_path) as server,
        proxy_to(server) as proxy,
        events.connect(proxy.url, reconnect_wait=0.02) as nc,
    ):
        sub = nc.subscribe("load", pending_msgs_limit=-1, pending_bytes_limit=-1)
        nc.flush()
        sent = 0

        def publish(count: int) -> None:
            nonlocal sent
            for _ in range(count):
                nc.publish("load", b"%d" % sent)
                sent += 1

        for kills in range(1, 4):
            publish(10_000)
            nc.flush(TIMEOUT)  # confirmed, on a fast machine as on a slow one
            publish(10_000)
            proxy.link().to_server.swallow()
            publish(1)  # which reaches no server
            eventually(lambda: nc.stats.out_msgs == sent)
            server.kill()
            publish(100)
            server.start()
            events.wait_for(*["lost", "back"] * kills)
        publish(100)
        nc.flush(TIMEOUT)
        got = [int(msg.data) for msg in sub.messages(timeout=0)]
        assert (got == sorted(set(got)), nc.stats.out_msgs) == (True, sent)
        assert got[-100:] == list(range(sent - 100, sent)), "lost with no outage after it"
        assert 3 <= nc.stats.unconfirmed_msgs <= sent - 30_000
        assert 3 <= sent - len(got)
    assert events.seen == ["lost", "back"] * 3 + ["closed"]


def test_the_count_of_what_was_lost_is_exact(proxy: Proxy, witness: natsync.Client) -> None:
    """Where the network loses everything after a point, that is what the client says."""
    sub = witness.subscribe("exact")
    witness.flush()
    events = Events()
    with events.connect(proxy.url) as nc:
        for _ in range(10):
            nc.publish("exact")
        nc.flush()
        proxy.link().to_server.swallow()
        for _ in range(123):
            nc.publish("exact", b"lost")
        with pytest.raises(errors.FlushTimeoutError):
            nc.flush(0.05)
        eventually(lambda: nc.stats.out_msgs == 133)
        proxy.cut()
        events.wait_for("lost", "back")
        assert (nc.stats.out_msgs, nc.stats.unconfirmed_msgs) == (133, 123)
        nc.publish("exact")
        nc.flush()
        witness.flush()
        assert sub.pending_msgs == 11


def test_closing_while_away_counts_what_was_never_sent(proxy: Proxy) -> None:
    with natsync.connect(proxy.url) as nc:
        proxy.admit(Admission.REFUSE)
        proxy.cut()
        eventually(lambda: nc.status is natsync.Status.RECONNECTING)
        for _ in range(7):
            nc.publish("never")
        nc.close()
        assert nc.stats.unconfirmed_msgs == 7


def test_an_idle_program_answers_the_pings_of_the_server(start_server: StartServer) -> None:
    server = start_server('ping_interval: "50ms"\nping_max: 12')
    events = Events()
    with events.connect(server.url) as nc:
        waited = threading.Event()
        assert not waited.wait(1.0)  # twenty of them: the program does nothing at all
        assert nc.status is natsync.Status.CONNECTED and nc.stats.reconnects == 0
    assert events.seen == ["closed"]


def test_replies_of_several_end_with_the_loss(proxy: Proxy, witness: natsync.Client) -> None:
    """Those that came are handed out; that there may be more is no silent end."""
    asked = threading.Event()
    questions: list[natsync.Msg] = []

    def answer(msg: natsync.Msg) -> None:
        questions.append(msg)
        msg.respond(b"first")
        asked.set()

    witness.subscribe("several", handler=answer)
    witness.flush()
    with natsync.connect(proxy.url, reconnect_wait=0.01) as nc:
        replies = nc.request_many("several", timeout=60)
        assert asked.wait(TIMEOUT)
        assert next(replies).data == b"first"
        proxy.cut(reset=True)
        with pytest.raises(errors.ConnectionReconnectingError):
            next(replies)
        assert nc.wait_connected(TIMEOUT)
        questions[0].respond(b"second")
        witness.flush()
        nc.flush()
        assert list(replies) == [] and not nc._connection.reply_mux()._streams
