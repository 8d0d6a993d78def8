"""What real servers say where rules know it from them: each rule finds it, in old and new servers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from signal import SIGUSR2
from typing import get_args

import pytest

from dissect.nats import records
from dissect.nats.audit.run import tables_of
from dissect.nats.audit.sigma.rule_files import load_rules
from dissect.nats.audit.sql.compiler import compiled
from dissect.nats.audit.sql.dialect import Dialect

from tests.support.audit import in_memory
from tests.support.logins import (
    ACCOUNT,
    OPERATOR,
    SYSTEM,
    SYSTEM_USER,
    managed_config,
    operator_config,
    user_jwt,
)
from tests.support.nats_session import capture
from tests.support.recorded_session import RecordedSession
from tests.support.servers import NatsServer, Which, require_server

RULES = load_rules()
LIMITS = """max_payload: 100
max_subs: 2
authorization { users: [{user: a, password: b, permissions: {publish: ok}}] }
"""
ACCOUNTS = """accounts {
  A { users: [{user: a, password: b}], exports: [{service: "svc.>"}], jetstream: enabled }
  B { users: [{user: b, password: b}], imports: [{service: {account: A, subject: "svc.x"}, share: true}] }
  SYS { users: [{user: sys, password: b}] }
}
system_account: SYS
"""
LINKS = """cluster { name: c, host: 127.0.0.1, port: -1 }
gateway { name: c, host: 127.0.0.1, port: -1 }
leafnodes { host: 127.0.0.1, port: -1 }
"""


@pytest.fixture(params=get_args(Which))
def which(request: pytest.FixtureRequest) -> Which:
    require_server(request.param)
    made: Which = request.param
    return made


@contextmanager
def conversations(
    server: NatsServer, number: int = 1, port: int = 0
) -> Iterator[list[RecordedSession]]:
    """Connections to a server."""
    with ExitStack() as stack:
        address = (server.host, port or server.port)
        yield [stack.enter_context(RecordedSession(address)) for _ in range(number)]


def rules(folder: Path, made: list[RecordedSession], *names: str) -> set[str]:
    """Those of the rules that have findings in these sessions."""
    path = capture(folder / "sessions.pcap", [each.conversation for each in made])
    queries = compiled(RULES, names, Dialect.DUCKDB)
    tables = tables_of(queries)
    with in_memory(records([str(path)], list(tables)), tables) as engine:
        return {query.rule.name for query in queries if any(True for _ in engine.rows(query.sql))}


@pytest.mark.parametrize(
    ("wire", "error", "rule"),
    [
        (b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n", b"maximum subscriptions", "subscription-limit"),
        (b"PUB ok 101\r\n" + b"x" * 101 + b"\r\n", b"Maximum Payload", "payload-too-large"),
        (b"PUB no 0\r\n\r\n", b"Permissions Violation", "permission-violation"),
        (b"FOO bar\r\n", b"Unknown Protocol", "protocol-violation"),
        (b"SUB " + b"a" * 5000 + b" 1\r\n", b"control line", "protocol-violation"),
    ],
)
def test_what_a_client_must_not_do(
    limited: NatsServer, tmp_path: Path, wire: bytes, error: bytes, rule: str
) -> None:
    with conversations(limited) as made:
        made[0].logged_in(user="a", **{"pass": "b"})
        made[0].send(wire)
        made[0].until(error)
    assert rules(tmp_path, made, rule)


@pytest.fixture(scope="module", params=get_args(Which))
def limited(request: pytest.FixtureRequest) -> Iterator[NatsServer]:
    require_server(request.param)
    with NatsServer(LIMITS, which=request.param) as server:
        yield server


def test_a_login_that_fails(limited: NatsServer, tmp_path: Path) -> None:
    with conversations(limited) as made:
        made[0].connect(user="a", **{"pass": "no"})
        made[0].until(b"-ERR 'Authorization Violation'")
    assert rules(tmp_path, made, "authentication-failure")


def test_a_login_that_never_comes(which: Which, tmp_path: Path) -> None:
    config = "authorization { timeout: 0.1, user: a, password: b }\n"
    with NatsServer(config, which=which) as server, conversations(server) as made:
        made[0].until(b"-ERR 'Authentication Timeout'")
    assert rules(tmp_path, made, "authentication-timeout")


def test_more_connections_than_allowed(which: Which, tmp_path: Path) -> None:
    with NatsServer("max_connections: 1\n", which=which) as server, conversations(server) as made:
        made[0].logged_in()
        with conversations(server) as more:
            more[0].until(b"-ERR 'maximum connections exceeded'")
    assert rules(tmp_path, more, "connection-limit")


def test_a_client_that_answers_no_ping(which: Which, tmp_path: Path) -> None:
    config = 'ping_interval: "100ms"\nping_max: 1\n'
    with NatsServer(config, which=which) as server, conversations(server) as made:
        made[0].connect()
        made[0].until(b"-ERR 'Stale Connection'")
    assert rules(tmp_path, made, "stale-connection")


def test_clients_on_ports_of_servers(which: Which, tmp_path: Path) -> None:
    found = []
    with NatsServer(ACCOUNTS + LINKS, which=which) as server:
        for port in (server.route_port, server.gateway_port):
            with conversations(server, 1, port) as made:
                made[0].send(b'CONNECT {"lang":"go","protocol":1}\r\n')
                made[0].until(b"-ERR 'attempted to connect to")
            found.append(rules(tmp_path, made, "client-on-server-port"))
    assert all(found)


def test_a_server_that_shuts_down_without_jetstream(which: Which, tmp_path: Path) -> None:
    config = 'lame_duck_duration: "30s"\nlame_duck_grace_period: "10ms"\n'
    with NatsServer(config, which=which) as server, conversations(server) as made:
        made[0].logged_in()
        made[0].send(b"SUB _INBOX.a.* 1\r\nPUB $JS.API.INFO _INBOX.a.1 0\r\n\r\n")
        made[0].until(b"HMSG _INBOX.a.1")
        server.signal(SIGUSR2)
        made[0].until(b'"ldm":true')
    wanted = {"lame-duck", "not-served"}
    assert rules(tmp_path, made, *wanted) == wanted


def test_who_asks_through_an_import_and_who_claims_to(which: Which, tmp_path: Path) -> None:
    with NatsServer(ACCOUNTS, which=which) as server, conversations(server, 3) as made:
        service, other, forger = made
        for each, user in zip(made, "aba"):
            each.logged_in(user=user, **{"pass": "b"})
        service.send(b"SUB svc.> 1\r\nPING\r\n")
        service.until(b"PONG")
        other.publish("svc.x", b"", "_INBOX.b.1")
        assert b'"acc":"B"' in service.until(b"Nats-Request-Info")
        other.publish("svc.x", b"", "_INBOX.b.1", {"Nats-Request-Info": '{"acc":"SYS"}'})
        assert b'"acc":"B"' in service.until(b"Nats-Request-Info")  # the server corrects it
        forger.publish("svc.x", b"", "_INBOX.a.1", {"Nats-Request-Info": '{"acc":"SYS"}'})
        assert b'"acc":"SYS"' in service.until(b"Nats-Request-Info")
    assert rules(tmp_path, made, "client-info-forged")
    assert not rules(tmp_path, [service], "client-info-forged")


def test_credentials_that_expire(which: Which, tmp_path: Path) -> None:
    with NatsServer(operator_config(), which=which) as server:
        for seconds in (2, 5, 15):  # a busy machine may need longer to log in
            with conversations(server) as made:
                made[0].connect(jwt=user_jwt(bearer=True, expires=int(time.time()) + seconds))
                if b"Expired" in made[0].until(b"-ERR '"):
                    break
    assert rules(tmp_path, made, "credentials-expired")


def test_claims_of_accounts_are_changed(which: Which, tmp_path: Path) -> None:
    config = managed_config(str(tmp_path / "jwt"))
    account = OPERATOR.jwt(ACCOUNT).encode()
    gone = OPERATOR.jwt(OPERATOR, accounts=[ACCOUNT.public]).encode()
    asked = [
        ("$SYS.REQ.CLAIMS.UPDATE", account, b"jwt updated"),
        (f"$SYS.REQ.ACCOUNT.{ACCOUNT.public}.CLAIMS.UPDATE", account, b"jwt updated"),
        ("$SYS.REQ.CLAIMS.DELETE", gone, b"deleted 1 accounts"),
    ]
    for subject, claims, answer in asked:
        with NatsServer(config, which=which) as server, conversations(server) as made:
            made[0].logged_in(jwt=user_jwt(SYSTEM_USER, SYSTEM, bearer=True))
            made[0].send(b"SUB _INBOX.a.* 1\r\n")
            made[0].publish(subject, claims, "_INBOX.a.1")
            made[0].until(answer)
        assert rules(tmp_path, made, "account-claims-changed")


@pytest.mark.parametrize("order", ["RELOAD", "KICK", "LDM"])
def test_a_server_is_controlled_over_nats(ordered: NatsServer, tmp_path: Path, order: str) -> None:
    """Since 2.10."""
    with conversations(ordered, 2) as made:
        app, administrator = made
        info = app.logged_in(user="a", **{"pass": "b"})
        administrator.logged_in(user="sys", **{"pass": "b"})
        administrator.send(b"SUB _INBOX.a.* 1\r\nSUB $SYS.ACCOUNT.*.CONNECT 2\r\n")
        body = json.dumps({"cid": info["client_id"]}).encode() if order != "RELOAD" else b""
        administrator.publish(f"$SYS.REQ.SERVER.{info['server_id']}.{order}", body, "_INBOX.a.1")
        administrator.until(b"MSG _INBOX.a.1")
        assert b'"error"' not in administrator.until(b'{"server":')
        if order == "LDM":
            app.until(b'"ldm":true')
    wanted = {"server-controlled-over-nats", "subscribes-to-system"}
    assert rules(tmp_path, made, *wanted) == wanted


@pytest.fixture(scope="module")
def ordered() -> Iterator[NatsServer]:
    require_server("current")
    with NatsServer(ACCOUNTS) as server:
        yield server


def test_calls_of_the_api_are_dropped(tmp_path: Path) -> None:
    """Since 2.11 the length of the queue can be set, and few calls fill it."""
    require_server("current")
    config = ACCOUNTS + "jetstream { store_dir: $FOLDER, request_queue_limit: 4 }\n"
    with NatsServer(config) as server, conversations(server, 2) as made:
        app, administrator = made
        app.logged_in(user="a", **{"pass": "b"})
        administrator.logged_in(user="sys", **{"pass": "b"})
        administrator.send(b"SUB $JS.EVENT.> 2\r\nPING\r\n")
        administrator.until(b"PONG")
        calls = []
        for number in range(300):
            name = b"S%d" % number
            body = b'{"name":"%s","storage":"memory"}' % name
            calls.append(
                b"PUB $JS.API.STREAM.CREATE.%s _I.1 %d\r\n%s\r\n" % (name, len(body), body)
            )
        app.send(b"".join(calls))
        administrator.until(b"API.LIMIT_REACHED")
        administrator.until(b'"dropped"')
    assert rules(tmp_path, [administrator], "api-calls-dropped")
