"""`natsync streaming` against a real server."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest

from natsync import streaming
from natsync.cli import main
from natsync.streaming import StartPosition

from tests.support.streaming_servers import CLUSTER, StreamingServer

pytestmark = pytest.mark.server

Output = pytest.CaptureFixture[str]


class Command:
    """`natsync streaming`, with the server and the output of a test."""

    def __init__(self, server: StreamingServer, capsys: Output) -> None:
        self._server = server
        self._capsys = capsys

    def __call__(self, line: str, status: int = 0) -> str:
        assert main(["-s", self._server.url, "streaming", *line.split()]) == status
        out, err = self._capsys.readouterr()
        assert err.count("\n") == bool(status), err
        return err if status else out


@pytest.fixture
def command(streaming_server: StreamingServer, capsys: Output) -> Command:
    return Command(streaming_server, capsys)


def test_what_is_published_is_printed(command: Command) -> None:
    assert command("pub printed two --count 3") == ""
    printed = json.loads(command("pub printed last --json"))
    assert printed == {"channel": "printed", "published": 1, "data_bytes": 4}
    assert (
        command("sub printed --start first --count 4") == "[printed] two\n" * 3 + "[printed] last\n"
    )
    rows = [
        json.loads(line)
        for line in command("sub printed --start last --count 1 --json").splitlines()
    ]
    age = datetime.now(timezone.utc) - datetime.fromisoformat(rows[0].pop("time"))
    assert age < timedelta(minutes=1)
    assert rows == [{"sequence": 4, "subject": "printed", "data": "last"}]
    assert command("sub printed --start-sequence 3 --timeout 0.2 --raw") == "two\nlast\n"
    assert command("sub printed --since 31536000 --count 1 --raw") == "two\n"
    assert command("sub printed --start-sequence 9000000000 --timeout 0.2") == ""
    assert command("sub printed --start-time 2020-01-01T00:00Z --count 1 --raw") == "two\n"


def test_a_durable_goes_on(command: Command) -> None:
    command("pub durable x --count 5")
    line = "sub durable --client me --durable d --start first --json"
    first = command(f"{line} --count 2 --max-in-flight 1").splitlines()
    rest = command(f"{line} --timeout 0.2 --unsubscribe").splitlines()
    again = command(f"{line} --count 1").splitlines()
    sequences = [[json.loads(row)["sequence"] for row in rows] for rows in (first, rest, again)]
    assert sequences == [[1, 2], [3, 4, 5], [1]]


def test_what_was_printed_before_says_so(
    command: Command, streaming_server: StreamingServer
) -> None:
    with streaming.connect(CLUSTER, "unacked", servers=streaming_server.url) as sc:
        sc.publish("again", b"1")
        sc.subscribe("again", durable="d", start=StartPosition.FIRST, manual_acks=True).next_msg(10)
    row = json.loads(command("sub again --client unacked --durable d --count 1 --json"))
    assert row["redelivery_count"] == 1


def test_failures_are_one_line(command: Command) -> None:
    assert "nobody listens on _STAN.discover.other" in command("pub a --cluster other", 1)
    assert "--client" in command("pub a --client a.b", 2)
    assert "--client" in command("pub a --client ''", 2)
    assert "--client: is needed" in command("sub a --durable d", 2)
    assert "no message on empty" in command("sub empty --count 1 --timeout 0.1", 1)
    assert "--start-time: is more than 292" in command("sub a --start-time 0002-01-01", 2)
    assert main(["streaming", "sub", "a", "--start-time", "yesterday"]) == 2
    assert main(["streaming", "pub", "a.*"]) == 2
