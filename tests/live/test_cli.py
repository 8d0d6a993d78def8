"""The command line against real servers: TLS, credentials in the environment, refusals, a crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT

import pytest

import natsync
from natsync.cli import main
from natsync.commands.connection import ENVIRONMENT

from tests.support.http_proxy import ConnectProxy
from tests.support.secured import make_certificates
from tests.support.servers import NatsServer, StartServer, Which

pytestmark = pytest.mark.server

BOTH = pytest.mark.parametrize("which", ["current", "old"])
SECRET = "s3cr3t"
GUARDED = f"""
    authorization {{ users: [ {{
        user: guest, password: {SECRET},
        permissions: {{ publish: {{ deny: "secret.>" }}, subscribe: {{ deny: "secret.>" }} }}
    }} ] }}
"""
Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT.values():
        monkeypatch.delenv(name, raising=False)


@contextmanager
def started(server: NatsServer, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command in a process of its own, once the server knows of its subscription."""
    with subprocess.Popen(
        [sys.executable, "-m", "natsync", "-s", server.url, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            server.wait_for(lambda: _listens(server, arguments[1]), 20, "the subscription")
            yield process
        finally:
            process.kill()  # where the test has failed


def _listens(server: NatsServer, subject: str) -> bool | None:
    return True if subject in str(server.monitor("connz?subs=1")) else None


@BOTH
def test_what_the_server_refuses_is_one_line(
    start_server: StartServer, which: Which, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(GUARDED, which=which)
    monkeypatch.setenv("NATS_URL", server.url)
    monkeypatch.setenv("NATS_USER", "guest")
    monkeypatch.setenv("NATS_PASSWORD", SECRET)
    assert main(["pub", "open.a", "hello"]) == 0
    assert capsys.readouterr() == ("", "")
    publish = "natsync: the server reported: Permissions Violation for Publish to "
    for command in ("pub secret.a x", "pub secret.b x --count 20", "request secret.c"):
        assert main(command.split()) == 1
        assert capsys.readouterr().err == f'{publish}"{command.split()[1]}"\n'
    for command in ("sub", "reply"):
        assert main([command, "secret.d"]) == 1
        assert (
            capsys.readouterr().err == publish.replace("Publish", "Subscription") + '"secret.d"\n'
        )
    monkeypatch.setenv("NATS_PASSWORD", SECRET[::-1])
    assert main(["rtt"]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "Authorization Violation" in err
    assert SECRET not in err and SECRET[::-1] not in err


@BOTH
def test_tls_with_a_certificate(
    start_server: StartServer, which: Which, tmp_path: Path, capsys: Output
) -> None:
    paths = make_certificates(tmp_path)
    server = start_server(
        f"tls {{ {paths.server.config}, ca_file: '{paths.ca}', verify: true }}", which=which
    )
    ours = ["--tls-ca", str(paths.ca), "--tls-cert", str(paths.client.cert)]
    ours += ["--tls-key", str(paths.client.key)]
    assert main(["-s", server.url, *ours, "rtt"]) == 0
    assert capsys.readouterr().out.endswith(" ms\n")
    assert main(["-s", server.url, "rtt"]) == 1
    err = capsys.readouterr().err
    assert "certificate" in err and err.count("\n") == 1


@BOTH
def test_sub_outlives_a_crash_of_the_server(start_server: StartServer, which: Which) -> None:
    server = start_server("", which=which)
    with started(server, "sub", "news.*", "--json") as process:
        with natsync.connect(server.url) as nc:
            nc.publish_confirmed("news.1", b"before")
        assert process.stdout and process.stderr
        came = [json.loads(process.stdout.readline())["data"]]  # a killed server sends no more
        server.kill()
        server.start()
        server.wait_for(lambda: _listens(server, "news.*"), 20, "the subscription again")
        with natsync.connect(server.url) as nc:
            nc.publish_confirmed("news.2", b"after")
        came += [json.loads(process.stdout.readline())["data"]]
        process.send_signal(SIGINT)
        assert process.wait(10) == 130
        lines = process.stderr.read().splitlines()
    assert came == ["before", "after"]
    first, *attempts, last = [line.split()[1] for line in lines]
    assert (first, last) == ("disconnected:", "reconnected")
    assert set(attempts) <= {"no"}  # connection, where the port of the dying server still took one


@BOTH
def test_requests_are_answered(start_server: StartServer, which: Which, capsys: Output) -> None:
    server = start_server("", which=which)
    with started(server, "reply", "greet", "hello", "-H", "K:v", "--count", "2") as process:
        assert main(["-s", server.url, "request", "greet", "x", "--raw"]) == 0
        assert main(["-s", server.url, "request", "greet", "x", "--replies", "1", "--json"]) == 0
        assert process.wait(10) == 0
        assert process.stdout and process.stdout.read() == "[greet] x\n[greet] x\n"
    raw, row = capsys.readouterr().out.splitlines()
    printed = json.loads(row)
    assert (raw, printed["data"], printed["headers"]) == ("hello", "hello", {"K": ["v"]})


@pytest.mark.parametrize("in_environment", [False, True])
def test_through_an_http_proxy(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch, in_environment: bool
) -> None:
    with ConnectProxy(password=SECRET) as proxy:
        if in_environment:
            monkeypatch.setenv("NATS_HTTP_PROXY", proxy.url)
        option = [] if in_environment else ["--http-proxy", proxy.url]
        assert main(["-s", server.url, *option, "pub", "a", "b"]) == 0
    assert [head.split()[1] for head in proxy.asked] == [f"{server.host}:{server.port}".encode()]
