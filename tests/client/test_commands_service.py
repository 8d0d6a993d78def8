"""`natsync service` against a real server."""

from __future__ import annotations

import json

import pytest

import natsync
from natsync.cli import main
from natsync.micro import Request, add_service

from tests.support.servers import NatsServer

pytestmark = pytest.mark.server


def fail(request: Request) -> None:
    request.respond_error(404, "no such number")


def test_services_are_listed_shown_and_measured(
    server: NatsServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(line: str, status: int = 0) -> str:
        words = ["-s", server.url, "service", *line.split()]
        assert main(words) == status
        out, err = capsys.readouterr()
        return err if status else out

    with natsync.connect(server.url) as nc:
        service = add_service(nc, "math", "1.0.0", description="numbers", metadata={"a": "b"})
        add_service(nc, "math", "1.1.0")
        service.add_endpoint("divide", fail, metadata={"c": "d"})
        nc.request("divide", timeout=5)
        assert run("ls").split()[-4:] == ["math", "2", "1.0.0,", "1.1.0"]
        printed = json.loads(run("ls --json"))
        assert printed == {"name": "math", "instances": 2, "versions": ["1.0.0", "1.1.0"]}
        assert "1.1.0" in run("ping math") and "1.1.0" in run("ping")
        printed = json.loads(run(f"ping math {service.id} --json"))
        assert printed["id"] == service.id and printed["rtt_ns"] > 0
        assert run(f"info math {service.id}").splitlines() == [
            f"math 1.0.0 {service.id} numbers",
            "  a=b",
            "  divide: divide queue q",
            "    c=d",
        ]
        printed = json.loads(run(f"info math {service.id} --json"))
        assert printed["endpoints"][0]["subject"] == "divide"
        assert "404:no such number" in run(f"stats math {service.id}")
        assert "404:no such number" in run("stats") and "numbers" in run("info")
        printed = json.loads(run(f"stats math {service.id} --json"))
        assert printed["endpoints"][0]["num_errors"] == 1
        service.stop()
        assert run(f"stats math {service.id}", 1) == f"natsync: no service math {service.id}\n"
    assert run("ls").split() == ["SERVICE", "INSTANCES", "VERSIONS"]
    assert "may have letters" in run("info a.b", 2)
