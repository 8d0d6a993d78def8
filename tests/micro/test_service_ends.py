"""Services that stop without a call of `stop`: as a whole, once, and with the reason."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

import pytest

import natsync
from natsync import PermissionsViolationError, Subscription
from natsync.micro import Request, ServiceClient, ServiceStoppedError, add_service

from tests.support.servers import NatsServer, StartServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.server


def echo(request: Request) -> None:
    request.respond(request.data)


def test_it_stops_when_the_connection_closes(server: NatsServer) -> None:
    ended: SimpleQueue[natsync.Error | None] = SimpleQueue()
    nc = natsync.connect(server.url)
    service = add_service(nc, "echo", "1.0.0", on_stop=ended.put)
    service.add_endpoint("echo", echo)
    nc.close()
    assert isinstance(ended.get(timeout=5), natsync.ConnectionClosedError)
    assert service.stopped
    service.stop()
    with pytest.raises(ServiceStoppedError):
        service.add_endpoint("echo", echo)
    with pytest.raises(natsync.ConnectionClosedError):
        add_service(nc, "echo", "1.0.0")


def test_it_stops_when_the_connection_is_drained(server: NatsServer) -> None:
    """Without an error, and not before the requests that arrived are handled."""
    handled: list[bytes] = []
    stopped: SimpleQueue[tuple[natsync.Error | None, list[bytes], bool]] = SimpleQueue()
    go = threading.Event()

    def handle(request: Request) -> None:
        assert go.wait(10)
        handled.append(request.data)

    nc = natsync.connect(server.url)
    with add_service(
        nc,
        "echo",
        "1.0.0",
        on_stop=lambda error: stopped.put((error, handled.copy(), service.stopped)),
    ) as service:
        service.add_endpoint("echo", handle)
        nc.publish("echo", b"1")
        nc.publish("echo", b"2")
        nc.flush()
        draining = threading.Thread(target=nc.drain)
        draining.start()
        eventually(lambda: nc.status is not natsync.Status.CONNECTED)
        assert not service.wait(0.2) and stopped.empty()
        go.set()
        assert stopped.get(timeout=5) == (None, [b"1", b"2"], True)
        draining.join(5)
    assert stopped.empty()
    for call in (lambda: add_service(nc, "echo", "1.0.0"), lambda: nc.subscribe("echo")):
        with pytest.raises(natsync.ConnectionClosedError, match="drain"):
            call()


@pytest.mark.parametrize("end", [Subscription.unsubscribe, Subscription.drain])
def test_it_stops_as_a_whole_when_the_program_unsubscribes_an_endpoint(
    nc: natsync.Client, end: Callable[[Subscription], None]
) -> None:
    ended: SimpleQueue[natsync.Error | None] = SimpleQueue()
    service = add_service(nc, "half", "1.0.0", on_stop=ended.put)
    service.add_endpoint("fine", echo)
    gone = service.add_endpoint("gone", echo)
    assert gone.subscription
    end(gone.subscription)
    error = ended.get(timeout=5)
    assert isinstance(error, natsync.BadSubscriptionError) and error.subject == "gone"
    assert service.stopped
    with pytest.raises(natsync.NoRespondersError):
        nc.request("fine", timeout=5)
    assert ServiceClient(nc).ping() == []


PERMISSIONS = """
authorization { users: [
  {user: service, password: pw, permissions: {subscribe: ["$SRV.>", "allowed", "_INBOX.>"], publish: ">"}}
  {user: other, password: pw}
] }
"""


def test_it_stops_when_the_server_refuses_an_endpoint(start_server: StartServer) -> None:
    server = start_server(PERMISSIONS)
    ended: SimpleQueue[natsync.Error | None] = SimpleQueue()
    with natsync.connect(server.url, user="service", password="pw") as nc:
        service = add_service(nc, "half", "1.0.0", on_stop=ended.put)
        service.add_endpoint("fine", echo, subject="allowed")
        refused = service.add_endpoint("forbidden", echo)
        error = ended.get(timeout=5)
        assert isinstance(error, PermissionsViolationError) and error.subject == "forbidden"
        assert refused.stats().num_errors == 1 and refused.stats().last_error == str(error)
        assert service.stopped
        assert ServiceClient(nc).ping() == []


def test_it_stops_when_the_server_refuses_to_let_it_be_discovered(
    start_server: StartServer,
) -> None:
    server = start_server(PERMISSIONS.replace('"$SRV.>", ', ""))
    ended: SimpleQueue[natsync.Error | None] = SimpleQueue()
    with natsync.connect(server.url, user="service", password="pw") as nc:
        service = add_service(nc, "hidden", "1.0.0", on_stop=ended.put)
        error = ended.get(timeout=5)
        assert isinstance(error, PermissionsViolationError) and "$SRV." in error.subject
        assert service.wait(5)


def test_it_stops_when_an_endpoint_is_one_subscription_too_many(start_server: StartServer) -> None:
    """Whole: the endpoints within the limit do not go on without it."""
    server = start_server("max_subscriptions: 10")  # nine of them on $SRV
    ended: SimpleQueue[natsync.Error | None] = SimpleQueue()
    with natsync.connect(server.url) as nc, natsync.connect(server.url) as other:
        service = add_service(nc, "half", "1.0.0", on_stop=ended.put)
        service.add_endpoint("fine", echo)
        refused = service.add_endpoint("excess", echo)
        error = ended.get(timeout=5)
        assert isinstance(error, natsync.ServerError) and "subscriptions exceeded" in error.text
        assert refused.stats().last_error == str(error) and service.stopped
        with pytest.raises(natsync.NoRespondersError):
            other.request("fine", timeout=5)
        assert ServiceClient(other).ping() == []


def test_what_goes_wrong_when_the_server_stops_it_is_logged(
    start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(error: natsync.Error | None) -> None:
        raise ValueError("no such service")

    server = start_server(PERMISSIONS)
    with natsync.connect(server.url, user="service", password="pw") as nc:
        service = add_service(nc, "half", "1.0.0", on_stop=fail)
        service.add_endpoint("forbidden", echo)
        assert service.wait(5)
        eventually(lambda: "no such service" in caplog.text)
