"""The measurements against a real server: they end, add up, and fail where messages are missing."""

from __future__ import annotations

import json

import pytest

import natsync
from natsync.cli import main

from tests.support.fake_server import Background
from tests.support.servers import NatsServer

pytestmark = pytest.mark.server

Output = pytest.CaptureFixture[str]


def figures(output: Output) -> dict[str, float]:
    printed: dict[str, float] = json.loads(output.readouterr().out)
    return printed


def test_bench_pub_measures_what_it_sends(server: NatsServer, capsys: Output) -> None:
    command = ["-s", server.url, "bench", "pub", "b.pub", "--count", "500", "--size", "10"]
    assert main([*command, "--json"]) == 0
    printed = figures(capsys)
    assert (printed["messages"], printed["data_bytes"]) == (500, 10)
    assert printed["messages_per_second"] * printed["seconds"] == pytest.approx(500, rel=0.05)
    assert printed["bytes_per_second"] == pytest.approx(
        printed["messages_per_second"] * 10, rel=0.01
    )
    assert main(command) == 0
    assert capsys.readouterr().out.startswith("pub: 500 messages of 10 bytes, 0.")


@pytest.mark.parametrize(("sent", "status"), [(200, 0), (150, 1)])
def test_bench_sub_measures_what_arrives(
    server: NatsServer, capsys: Output, sent: int, status: int
) -> None:
    arguments = ["bench", "sub", "b.sub", "--count", "200", "--timeout", "0.3", "--json"]
    call = Background(lambda: main(["-s", server.url, *arguments]))
    with natsync.connect(server.url) as nc:

        def listed() -> bool | None:
            return True if "b.sub" in str(server.monitor("subsz?subs=1")) else None

        server.wait_for(listed, 5, "the subscription")
        for _ in range(sent):
            nc.publish("b.sub", b"12345")
        nc.flush()
        assert call.result() == status
    printed = figures(capsys)
    assert (printed["messages"], printed["data_bytes"], printed["dropped"]) == (sent, 5, 0)


@pytest.mark.parametrize("at_once", ["1", "7"])
def test_bench_request_measures_round_trips(
    server: NatsServer, capsys: Output, at_once: str
) -> None:
    arguments = ["bench", "request", "b.svc", "--count", "50", "--at-once", at_once]
    with natsync.connect(server.url) as nc:
        nc.subscribe("b.svc", handler=lambda msg: msg.respond(msg.data))
        nc.flush()
        assert main(["-s", server.url, *arguments]) == 0
        assert " latency min " in capsys.readouterr().out
        assert main(["-s", server.url, *arguments, "--json"]) == 0
    printed = figures(capsys)
    assert printed["messages"] == 50
    latencies = [printed[f"latency_{name}_ns"] for name in ("min", "median", "p99", "max")]
    assert latencies == sorted(latencies) and latencies[0] > 0


def test_bench_request_fails_where_nobody_listens(server: NatsServer, capsys: Output) -> None:
    assert main(["-s", server.url, "bench", "request", "b.nobody"]) == 1
    assert capsys.readouterr().err == "natsync: no responders on b.nobody\n"
