"""Several replies, requests that cannot be answered, messages that came too fast."""

from __future__ import annotations

import json

import pytest

from natsync.protocol import Err, HMsg, Msg, Pub

from tests.support.command_run import CommandRun
from tests.support.fake_server import FakeServer

Output = pytest.CaptureFixture[str]


@pytest.mark.parametrize(("wanted", "status"), [("2", 0), ("0", 0), ("3", 1)])
def test_several_replies(wanted: str, status: int, capsys: Output) -> None:
    with FakeServer() as server:
        run = CommandRun(server, "request", "svc", "--replies", wanted, "--stall", "0.05", "--raw")
        asked = run.peer.until(Pub)
        run.peer.send(*[Msg(asked.reply, b"1", b"", b"%d" % number) for number in range(2)])
        assert run.status() == status
    out, err = capsys.readouterr()
    assert out == "0\n1\n"
    few = "natsync: 2 of 3 replies on svc within 5 s, or 0.05 s after the last one\n"
    assert err == (few if status else "")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["sub", "svc", "--start", "last"], "--start: needs --stream"),
        (["request", "svc", "--stall", "1"], "--stall: needs --replies"),
    ],
)
def test_an_option_without_the_one_it_belongs_to(
    arguments: list[str], text: str, capsys: Output
) -> None:
    with FakeServer() as server:
        assert CommandRun(server, *arguments).status() == 2
    assert capsys.readouterr().err == f"natsync: {text}\n"


def test_no_reply_of_several_is_a_failure(capsys: Output) -> None:
    with FakeServer() as server:
        run = CommandRun(server, "request", "svc", "--replies", "0", "--timeout", "0.05")
        run.peer.until(Pub)
        assert run.status() == 1
        run = CommandRun(server, "request", "svc", "--replies", "2")
        asked = run.peer.until(Pub)
        run.peer.send(HMsg(asked.reply, b"1", b"", b"NATS/1.0 503\r\n\r\n", b""))
        assert run.status() == 1
    assert capsys.readouterr().err.splitlines() == [
        "natsync: 0 replies on svc within 0.05 s",
        "natsync: no responders on svc",
    ]


def test_pub_counts_in_json(capsys: Output) -> None:
    with FakeServer() as server:
        run = CommandRun(server, "pub", "a", "xyz", "--count", "3", "--json")
        assert run.status() == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == {"subject": "a", "published": 3, "data_bytes": 3}


def test_a_request_that_cannot_be_answered_does_not_end_it(capsys: Output) -> None:
    with FakeServer() as server:
        run = CommandRun(server, "reply", "svc", "--count", "2")
        sid = run.peer.subscribed()
        big = bytes(1 << 20) + b"x"  # one more than may be sent
        run.peer.send(Msg(b"svc", sid, b"re", big), Msg(b"svc", sid, b"re", b"small"))
        assert run.peer.until(Pub).payload == b"small"
        assert run.status() == 1
    assert "over the server's max_payload" in capsys.readouterr().err


def test_answers_that_are_refused_are_reported_once(capsys: Output) -> None:
    with FakeServer() as server:
        run = CommandRun(server, "reply", "svc", "--count", "2")
        sid = run.peer.subscribed()
        for _ in range(2):
            run.peer.send(Msg(b"svc", sid, b"re", b""))
            run.peer.until(Pub)
            run.peer.send(Err(b'Permissions Violation for Publish to "re"'))
        assert run.status() == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_messages_that_came_too_fast(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("natsync.client.Client.subscribe.__kwdefaults__", _narrow())
    with FakeServer() as server:
        run = CommandRun(server, "sub", "a", "--timeout", "0.2")
        sid = run.peer.subscribed()
        run.peer.send(*[Msg(b"a", sid, b"", b"%d" % number) for number in range(3)])
        assert run.status() == 1
    err = capsys.readouterr().err.splitlines()
    assert err[0].startswith("natsync: slow consumer on a: ")
    assert err[-1].startswith("natsync: ") and err[-1].endswith("dropped: they came too fast")


def _narrow() -> dict[str, object]:
    from natsync.client import Client

    return {**(Client.subscribe.__kwdefaults__ or {}), "pending_msgs_limit": 1}
