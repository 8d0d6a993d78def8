"""TLS and the servers that a cluster announces: a host name is verified by itself, an address by the name of
the server that announced it. The names exist nowhere: `open_socket` stands for the resolver."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

import natsync
from natsync import TLS, errors

from tests.support.certificates import Authority, Paths
from tests.support.servers import NatsServer, require_server, wait_routed
from tests.support.waiting import eventually

pytestmark = pytest.mark.server
TIMEOUT = 10.0
FORMS = pytest.mark.parametrize("form", ["tls", "tls first", "wss"])


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def ours(authority: Authority) -> Paths:
    return authority.issue("ours", "a.example")


@pytest.fixture(scope="module")
def others(authority: Authority) -> Paths:
    return authority.issue("others", "b.example")


@contextmanager
def pair(
    form: str, first: Paths, second: Paths, announced: str, named: str = "a.example"
) -> Iterator[list[NatsServer]]:
    """A cluster of two: `named`, and one that is announced as `announced` (empty: by its address)."""
    require_server("current")
    with ExitStack() as stack:
        servers: list[NatsServer] = []
        for paths, host in ((first, named), (second, announced)):
            routes = f'"nats://127.0.0.1:{servers[0].route_port}"' if servers else ""
            config = f"cluster {{ name: demo, host: 127.0.0.1, port: -1, routes: [{routes}] }}\n"
            if form == "wss":
                advertise = f"advertise: {host}" if host else ""
                section = f"listen: 127.0.0.1:-1, {advertise}\n tls {{ {paths.config} }}"
                config += f"websocket {{ {section} }}\n"
            else:
                first_line = ", handshake_first: true" if form == "tls first" else ""
                config += f"tls {{ {paths.config}{first_line} }}\n"
                config += f"client_advertise: {host}\n" if host else ""
            server = NatsServer(config, name=f"demo-{len(servers) + 1}")
            servers.append(stack.enter_context(server))
        for server in servers:
            wait_routed(server, 1)
        yield servers


def port_of(server: NatsServer, form: str) -> int:
    return server.websocket_port if form == "wss" else server.port


def url_of(server: NatsServer, form: str, host: str = "a.example") -> str:
    return f"{'wss' if form == 'wss' else 'tls'}://{host}:{port_of(server, form)}"


def open_socket(host: str, port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port))


@contextmanager
def moved(
    servers: list[NatsServer], form: str, tls: TLS, host: str = "a.example"
) -> Iterator[tuple[natsync.Client, list[errors.Error]]]:
    """A client of the first server, which has just left it, and the errors that it reports."""
    failures: list[errors.Error] = []
    with natsync.connect(
        url_of(servers[0], form, host),
        tls=tls,
        open_socket=open_socket,
        randomize=False,
        reconnect_wait=0.01,
        connect_timeout=TIMEOUT,
        on_error=failures.append,
    ) as nc:
        eventually(lambda: len(nc.servers) == 2 or None)
        nc.reconnect()
        assert nc.wait_connected(TIMEOUT)
        yield nc, failures


@FORMS
def test_an_announced_host_name_is_verified_by_itself(
    authority: Authority, ours: Paths, others: Paths, form: str
) -> None:
    tls = TLS(ca_file=authority.cert, handshake_first=form == "tls first")
    with (
        pair(form, ours, others, "b.example") as servers,
        moved(servers, form, tls) as (nc, failures),
    ):
        assert nc.server == f"b.example:{port_of(servers[1], form)}" and not failures
        nc.reconnect()  # and back, by its own name again
        assert nc.wait_connected(TIMEOUT)
        assert nc.server == f"a.example:{port_of(servers[0], form)}" and not failures


@FORMS
def test_the_certificate_of_the_first_server_is_refused_under_another_name(
    authority: Authority, ours: Paths, form: str
) -> None:
    """The error names the server whose certificate it was, and the name that it does not have."""
    tls = TLS(ca_file=authority.cert, handshake_first=form == "tls first")
    with (
        pair(form, ours, ours, "b.example") as servers,
        moved(servers, form, tls) as (nc, failures),
    ):
        assert nc.server == f"a.example:{port_of(servers[0], form)}"
        (failure,) = eventually(lambda: list(failures))  # on_error runs on its own thread
        place = f"b.example:{port_of(servers[1], form)}"
        assert isinstance(failure, errors.ConnectError)
        assert (failure.server, failure.step) == (place, "tls")
        assert f"the certificate of {place} is not accepted: " in failure.reason
        assert "not valid for 'b.example'" in failure.reason


@FORMS
def test_an_announced_address_is_verified_by_the_name_of_who_announced_it(
    authority: Authority, ours: Paths, others: Paths, form: str
) -> None:
    tls = TLS(ca_file=authority.cert, handshake_first=form == "tls first")
    with (
        pair(form, ours, ours, "") as servers,
        moved(servers, form, tls) as (nc, failures),
    ):
        assert nc.server == f"127.0.0.1:{port_of(servers[1], form)}" and not failures
    with (
        pair(form, ours, others, "") as servers,
        moved(servers, form, tls) as (nc, failures),
    ):
        place = f"127.0.0.1:{port_of(servers[1], form)}"
        failure = str(eventually(lambda: list(failures))[0])
        assert f"the certificate of {place} is not accepted: " in failure
        assert "not valid for 'a.example'" in failure


def test_the_name_in_the_options_holds_for_all_servers(
    authority: Authority, ours: Paths, others: Paths
) -> None:
    inside = authority.issue("inside", "inside.example")
    tls = TLS(ca_file=authority.cert, hostname="inside.example")
    for announced in ("b.example", ""):
        with (
            pair("tls", inside, inside, announced) as servers,
            moved(servers, "tls", tls) as (nc, failures),
        ):
            assert nc.server.endswith(f":{servers[1].port}") and not failures


def test_an_address_that_an_address_announces_is_verified_by_itself(authority: Authority) -> None:
    one = authority.issue("one", "10.9.8.7")
    two = authority.issue("two", "127.0.0.1")
    tls = TLS(ca_file=authority.cert)
    with (
        pair("tls", one, two, "", "10.9.8.7") as servers,
        moved(servers, "tls", tls, "10.9.8.7") as (nc, failures),
    ):
        assert nc.server == f"127.0.0.1:{servers[1].port}" and not failures


def test_servers_of_a_new_pool_are_verified_by_their_own_names(
    authority: Authority, ours: Paths, others: Paths
) -> None:
    tls = TLS(ca_file=authority.cert)
    with pair("tls", ours, others, "b.example") as servers:
        with natsync.connect(url_of(servers[0], "tls"), tls=tls, open_socket=open_socket) as nc:
            nc.set_server_pool(url_of(servers[1], "tls", "b.example"))
            nc.reconnect()
            assert nc.wait_connected(TIMEOUT)
            assert nc.server == f"b.example:{servers[1].port}"
