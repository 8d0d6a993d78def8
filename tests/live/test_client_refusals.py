"""What servers refuse: credentials, permissions, sizes, connections; and servers that go away."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from queue import SimpleQueue
from signal import SIGCONT, SIGHUP, SIGSTOP
from typing import Any, Protocol

import pytest

import natsync
from natsync import errors
from natsync._engine.handlers import Runner

from tests.support.fake_server import Background
from tests.support.servers import NatsServer, StartServer, Which
from tests.support.websocket_server import FORMS, Form, server_of

pytestmark = pytest.mark.server

TIMEOUT = 10.0
SECRET = "s3cr3t"
CONFIG = f"""
    authorization {{
        users: [
            {{ user: boss, password: {SECRET} }}
            {{ user: guest, password: {SECRET}, permissions: {{
                publish: {{ deny: "secret.>" }}
                subscribe: {{ deny: ["secret.>", "only.queue other"] }}
            }} }}
            {{ user: deaf, password: {SECRET}, permissions: {{ subscribe: "nothing" }} }}
        ]
    }}
"""


class Start(Protocol):
    """Starts a server that ends with the test."""

    def __call__(self, form: Form, config: str = "") -> NatsServer: ...


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as stack:
        yield lambda form, config="": stack.enter_context(server_of(form, config))


@pytest.fixture(scope="module", params=FORMS)
def guarded(request: pytest.FixtureRequest) -> Iterator[NatsServer]:
    with server_of(request.param, CONFIG) as server:
        yield server


def url(server: NatsServer, user: str, password: str = SECRET) -> str:
    return server.url.replace("//", f"//{user}:{password}@")


def test_credentials_in_the_url_and_as_options(guarded: NatsServer) -> None:
    natsync.connect(url(guarded, "boss")).close()
    natsync.connect(guarded.url, user="boss", password=SECRET).close()


def test_wrong_credentials(guarded: NatsServer) -> None:
    with pytest.raises(errors.AuthorizationError) as caught:
        natsync.connect(url(guarded, "boss", "wrong-" + SECRET))
    assert SECRET not in str(caught.value)
    with pytest.raises(errors.AuthorizationError):
        natsync.connect([guarded.url, url(guarded, "nobody")])
    with pytest.raises(errors.AuthorizationError):
        natsync.connect(guarded.url, token="x")


@pytest.mark.parametrize("form", FORMS)
def test_a_token_is_accepted_or_refused(start: Start, form: Form) -> None:
    server = start(form, f"authorization {{ token: {SECRET} }}")
    natsync.connect(server.url, token=SECRET).close()
    natsync.connect(server.url.replace("//", f"//{SECRET}@")).close()
    with pytest.raises(errors.AuthorizationError):
        natsync.connect(server.url)


def test_a_denied_subscription_with_a_handler_ends(guarded: NatsServer) -> None:
    ended = SimpleQueue[errors.Error]()
    with natsync.connect(url(guarded, "guest")) as nc:
        sub = nc.subscribe("secret.plans", handler=print, on_close=ended.put)
        assert isinstance(ended.get(timeout=TIMEOUT), errors.PermissionsViolationError)
        assert sub.state is natsync.State.CLOSED
        nc.flush(TIMEOUT)


def test_a_subscription_that_is_denied_before_its_handler_begins_ends(
    guarded: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported, ended = SimpleQueue[errors.Error](), SimpleQueue[errors.Error]()
    begin = Runner.subscribe

    def begin_late(self: Runner[natsync.Msg], *arguments: Any) -> None:
        reported.get(timeout=TIMEOUT)
        begin(self, *arguments)

    monkeypatch.setattr(Runner, "subscribe", begin_late)
    with natsync.connect(url(guarded, "guest"), on_error=reported.put) as nc:
        sub = nc.subscribe("secret.plans", handler=print, on_close=ended.put)
        assert isinstance(ended.get(timeout=TIMEOUT), errors.PermissionsViolationError)
        assert sub.state is natsync.State.CLOSED


def test_a_control_line_that_is_too_long_costs_the_subscription_alone(
    start_server: StartServer,
) -> None:
    reported = SimpleQueue[errors.Error]()
    server = start_server("max_control_line: 1024")
    with natsync.connect(server.url, reconnect_wait=0.01, on_error=reported.put) as nc:
        with pytest.raises(
            errors.MaxControlLineError, match="5003 bytes are over the limit of 4096"
        ):
            nc.subscribe("x" * 5000)
        nc.flush(TIMEOUT)
        fine, refused = nc.subscribe("fine"), nc.subscribe(
            "x" * 2000
        )  # more than this server takes
        with pytest.raises(errors.MaxControlLineError):
            refused.next_msg(TIMEOUT)
        assert any(
            isinstance(reported.get(timeout=TIMEOUT), errors.MaxControlLineError) for _ in range(2)
        )
        assert nc.wait_connected(TIMEOUT)
        nc.publish("fine")
        fine.next_msg(TIMEOUT)
        assert nc.stats.reconnects == 1


def test_the_longest_control_lines_are_taken(start_server: StartServer) -> None:
    with natsync.connect(start_server().url, reconnect=False) as nc:
        for size in (1, 600, 5000):
            room = 4096 - 1 - len(str(size))
            nc.publish("x" * room, bytes(size))
            nc.publish("x" * 2000, bytes(size), reply="y" * (room - 2001))
            nc.flush(TIMEOUT)
            with pytest.raises(errors.MaxControlLineError, match="4097 bytes are over"):
                nc.publish("x" * (room + 1), bytes(size))
        used = len(nc._connection.reply_mux().wire_prefix) + len(" 1 0")
        with pytest.raises(errors.NoRespondersError):
            nc.request("x" * (4096 - used - 1), timeout=TIMEOUT)


def test_a_denied_subscription(guarded: NatsServer) -> None:
    with natsync.connect(url(guarded, "guest")) as nc:
        for sub in (nc.subscribe("secret.plans"), nc.subscribe("only.queue", queue="other")):
            with pytest.raises(errors.PermissionsViolationError) as caught:
                sub.next_msg(TIMEOUT)
            assert (caught.value.subject, caught.value.queue) == (sub.subject, sub.queue)
        fine = nc.subscribe("only.queue", queue="mine")
        nc.publish("only.queue", b"x")
        assert fine.next_msg(TIMEOUT).data == b"x"


def test_a_denied_publish_is_reported_and_a_denied_request_raises(guarded: NatsServer) -> None:
    reported: list[errors.Error] = []
    with natsync.connect(url(guarded, "guest"), on_error=reported.append) as nc:
        nc.publish("secret.plans", b"x")
        with pytest.raises(errors.PermissionsViolationError):
            nc.request("secret.question", timeout=TIMEOUT)
        nc.flush()
    assert {getattr(error, "subject") for error in reported} == {"secret.plans", "secret.question"}


@pytest.mark.parametrize("which", ["current", "old"])
def test_a_queue_that_a_reload_denies(start_server: StartServer, which: Which) -> None:
    server = start_server("authorization { user: a, password: b }", which=which)
    ended = SimpleQueue[errors.Error]()
    with natsync.connect(url(server, "a", "b"), on_error=lambda error: None) as nc:
        nc.subscribe("x", queue="q", handler=print, on_close=ended.put)
        sub = nc.subscribe("x", queue="q")
        nc.flush(TIMEOUT)
        (config,) = server.folder.glob("*.conf")
        denied = 'password: b, permissions: { subscribe: { deny: "x" } }'
        users = config.read_text().replace(
            "user: a, password: b", f"users: [{{ user: a, {denied} }}]"
        )
        config.write_text(users)
        server.signal(SIGHUP)
        assert isinstance(ended.get(timeout=TIMEOUT), errors.PermissionsViolationError)
        with pytest.raises(errors.PermissionsViolationError):
            sub.next_msg(TIMEOUT)


def test_a_queue_with_too_many_tokens(start: Start) -> None:
    with natsync.connect(start("old", "max_sub_tokens: 2").url, on_error=print) as nc:
        sub = nc.subscribe("a.b.c", queue="q")
        with pytest.raises(errors.PermissionsViolationError, match="too many tokens"):
            sub.next_msg(TIMEOUT)


def test_a_reply_subject_that_the_server_keeps_for_itself_is_refused(guarded: NatsServer) -> None:
    with natsync.connect(url(guarded, "boss"), on_error=lambda error: None) as nc:
        with pytest.raises(errors.PermissionsViolationError, match="with Reply of"):
            nc.publish_confirmed("public", reply="_R_.mine", timeout=TIMEOUT)


def test_requests_without_a_permitted_inbox(guarded: NatsServer) -> None:
    with natsync.connect(url(guarded, "deaf")) as nc:
        for _ in range(2):
            with pytest.raises(errors.PermissionsViolationError):
                nc.request("question", timeout=TIMEOUT)


@pytest.mark.parametrize("form", FORMS)
def test_max_payload(start: Start, form: Form) -> None:
    server = start(form, "max_payload: 1000")
    with natsync.connect(server.url) as nc:
        sub = nc.subscribe("a")
        nc.publish("a", bytes(1000))
        with pytest.raises(errors.MaxPayloadError):
            nc.publish("a", bytes(1001))
        with pytest.raises(errors.MaxPayloadError):
            nc.publish("a", bytes(1000), headers={"k": "v"})
        assert len(sub.next_msg(TIMEOUT).data) == 1000
        nc.flush()


@pytest.mark.parametrize("form", FORMS)
def test_one_connection_too_many(start: Start, form: Form) -> None:
    server = start(form, "max_connections: 1")
    with natsync.connect(server.url):
        with pytest.raises(errors.ServerError, match="maximum connections exceeded"):
            natsync.connect(server.url)


@pytest.mark.parametrize("form", FORMS)
def test_subjects_the_server_refuses_leave_the_connection_open(start: Start, form: Form) -> None:
    reported: list[errors.Error] = []
    server = start(form, "max_subscriptions: 1")
    with natsync.connect(server.url, on_error=reported.append) as nc:
        first = nc.subscribe("a")
        second = nc.subscribe("b")
        with pytest.raises(errors.ServerError, match="maximum subscriptions exceeded"):
            second.next_msg(TIMEOUT)
        nc.publish("a", b"still here")
        assert first.next_msg(TIMEOUT).data == b"still here"
    assert [str(error) for error in reported] == [
        "the server reported: maximum subscriptions exceeded"
    ]


@pytest.mark.parametrize("form", FORMS)
def test_a_blocked_handler_does_not_cost_the_connection(start: Start, form: Form) -> None:
    """The server asks every 0.05 s and hangs up after twelve unanswered PINGs."""
    server = start(form, 'ping_interval: "50ms"\nping_max: 12')
    release, entered = threading.Event(), threading.Event()

    def handler(msg: natsync.Msg) -> None:
        entered.set()
        release.wait(TIMEOUT)

    with natsync.connect(server.url) as nc:
        nc.subscribe("a", handler=handler)
        nc.publish("a")
        assert entered.wait(TIMEOUT)
        quiet = nc.subscribe("quiet")
        with pytest.raises(errors.NextMsgTimeoutError):
            quiet.next_msg(1.0)  # twenty PINGs long
        nc.flush()
        assert nc.status is natsync.Status.CONNECTED
        release.set()


@pytest.mark.parametrize("form", FORMS)
def test_a_server_that_is_killed(start: Start, form: Form) -> None:
    closed: list[errors.Error | None] = []
    server = start(form)
    with natsync.connect(server.url, reconnect=False, on_close=closed.append) as nc:
        sub = nc.subscribe("a")
        waits: list[Background[object]] = [
            Background(lambda: sub.next_msg(TIMEOUT)),
            Background(lambda: list(sub)),
        ]
        nc.flush()
        server.kill()
        for wait in waits:
            with pytest.raises(errors.ConnectionClosedError):
                wait.result()
        for late in (nc.flush, lambda: nc.publish("a"), lambda: nc.request("a")):
            with pytest.raises(errors.ConnectionClosedError):
                late()
    assert len(closed) == 1 and closed[0] is not None


def test_a_server_that_hangs_is_found_stale(start_server: StartServer) -> None:
    server = start_server()
    with natsync.connect(server.url, reconnect=False, ping_interval=0.05, max_pings_out=20) as nc:
        sub = nc.subscribe("a")
        nc.flush()
        server.signal(SIGSTOP)
        try:
            with pytest.raises(errors.ConnectionClosedError) as caught:
                sub.next_msg(TIMEOUT)
            assert isinstance(caught.value.__cause__, errors.StaleConnectionError)
        finally:
            server.signal(SIGCONT)
