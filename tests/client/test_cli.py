"""The command line: what it prints, its exit status, one-line errors without secrets."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

import natsync
from natsync.cli import main
from natsync.protocol import Err, HMsg, HPub, Msg, Ping, Pong, Pub, Sub

from tests.support.command_run import CommandRun
from tests.support.fake_server import FakeServer

SECRET = "s3cr3t"
Output = pytest.CaptureFixture[str]


def test_pub_sends_what_its_options_say(capsys: Output) -> None:
    with FakeServer() as server:
        run = CommandRun(server, "pub", "a", "hä", "--reply", "re", "--count", "2")
        for _ in range(2):
            assert run.peer.expect(Pub) == Pub(b"a", b"re", "hä".encode())
        assert run.status() == 0
        run = CommandRun(server, "pub", "a", "x", "-H", "K: v", "-H", "K:w", "-H", "empty:")
        assert run.peer.expect(HPub).headers == b"NATS/1.0\r\nK: v\r\nK: w\r\nempty: \r\n\r\n"
        assert run.status() == 0
        run = CommandRun(server, "pub", "a")
        assert run.peer.expect(Pub).payload == b""
        assert run.status() == 0
    assert capsys.readouterr() == ("", "")


def test_pub_reads_the_payload_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"\x00\xff")))
    with FakeServer() as server:
        run = CommandRun(server, "pub", "a", "-")
        assert run.peer.expect(Pub).payload == b"\x00\xff"
        assert run.status() == 0


def test_sub_prints_messages(capsys: Output) -> None:
    block = b"NATS/1.0\r\nk: 1\r\nk: 2\r\n\r\n"
    messages = [
        Msg(b"a.b", b"1", b"", b"text"),
        HMsg(b"a.c", b"1", b"re", block, b"x"),
        HMsg(b"a.\xff", b"1", b"", b"broken\r\n\r\n", b"\xff"),
    ]
    for extra in ([], ["--json"]):
        with FakeServer() as server:
            run = CommandRun(server, "sub", "a.*", "--queue", "q", "--count", "3", *extra)
            assert run.peer.expect(Sub) == Sub(b"a.*", b"1", b"q")
            run.peer.send(*messages)
            assert run.status() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["[a.b] text", "[a.c] x", r"[a.\xff] \xff"]
    assert [json.loads(line) for line in lines[3:]] == [
        {"subject": "a.b", "data": "text"},
        {"subject": "a.c", "reply": "re", "headers": {"k": ["1", "2"]}, "data": "x"},
        {"subject": r"a.\xff", "data_base64": "/w=="},
    ]


def test_sub_that_hears_nothing(capsys: Output) -> None:
    with FakeServer() as server:
        assert CommandRun(server, "sub", "a", "--timeout", "0.01").status() == 0
        assert CommandRun(server, "sub", "a", "--timeout", "0.01", "--count", "1").status() == 1
    assert capsys.readouterr().err == "natsync: no message on a within 0.01 s\n"


def test_request_and_reply(capsys: Output) -> None:
    with FakeServer() as server:
        run = CommandRun(server, "request", "svc", "question")
        asked = run.peer.until(Pub)
        assert asked.payload == b"question"
        run.peer.send(Msg(asked.reply, b"1", b"", b"answer"))
        assert run.status() == 0
        run = CommandRun(server, "request", "svc")
        asked = run.peer.until(Pub)
        run.peer.send(HMsg(asked.reply, b"1", b"", b"NATS/1.0 503\r\n\r\n"))
        assert run.status() == 1
    out, err = capsys.readouterr()
    assert out.endswith("] answer\n")
    assert err == "natsync: no responders on svc\n"


def test_a_request_that_a_service_refuses(capsys: Output) -> None:
    fields = b"Nats-Service-Error: by zero\r\nNats-Service-Error-Code: 400\r\n"
    wanted = {b"NATS/1.0\r\n" + fields + b"\r\n": "service error 400: by zero"}
    wanted[b"broken\r\n\r\n"] = "header block without NATS/1.0: b'broken'"
    with FakeServer() as server:
        for block, text in wanted.items():
            for extra in ([], ["--replies", "1"]):
                run = CommandRun(server, "request", "svc", *extra)
                run.peer.send(HMsg(run.peer.until(Pub).reply, b"1", b"", block, b"body"))
                assert run.status() == 1
                out, err = capsys.readouterr()
                assert out.endswith("] body\n")
                assert err == f"natsync: {text}\n"


@pytest.mark.parametrize(("arguments", "payload"), [([], b"echo"), (["fixed"], b"fixed")])
def test_reply_answers_requests(arguments: list[str], payload: bytes) -> None:
    with FakeServer() as server:
        run = CommandRun(server, "reply", "svc", *arguments, "--count", "2")
        sid = run.peer.subscribed()
        run.peer.send(Msg(b"svc", sid, b"", b"no reply wanted"), Msg(b"svc", sid, b"re", b"echo"))
        assert run.peer.until(Pub) == Pub(b"re", b"", payload)
        assert run.status() == 0


def test_rtt_prints_the_round_trip(capsys: Output) -> None:
    with FakeServer() as server:
        assert CommandRun(server, "rtt", "--count", "2").status() == 0
        assert CommandRun(server, "rtt", "--json").status() == 0
    *plain, last = capsys.readouterr().out.splitlines()
    assert len(plain) == 2 and all(line.endswith(" ms") for line in plain)
    assert json.loads(last)["rtt_ns"] > 0


def test_who_listens_goes_on_with_another_connection(capsys: Output) -> None:
    with FakeServer() as server:
        run = CommandRun(server, "sub", "a", "--count", "2")
        run.peer.until(Ping)
        run.peer.send(Pong(), Msg(b"a", b"1", b"", b"before"), Err(b"Stale Connection"))
        run.peer.close()
        run.peer = server.accept()
        run.peer.greet()
        run.peer.send(Msg(b"a", run.peer.subscribed(), b"", b"after"))
        assert run.status() == 0
    out, err = capsys.readouterr()
    assert out == "[a] before\n[a] after\n"
    lost, again = err.splitlines()
    assert lost == "natsync: disconnected: Stale Connection; reconnecting"
    assert re.fullmatch(r"natsync: reconnected after \d\.\d s", again)


def test_a_lost_connection_is_one_line(capsys: Output) -> None:
    with FakeServer() as server:
        run = CommandRun(server, "request", "a")
        run.peer.until(Pub)
        run.peer.send(Err(b"Stale Connection"))
        run.peer.close()
        assert run._call.result() == 1
    assert capsys.readouterr().err == "natsync: connection closed: Stale Connection\n"


@pytest.mark.parametrize("command", ["sub", "reply"])
def test_a_refused_subscription_is_one_line(command: str, capsys: Output) -> None:
    refusal = 'Permissions Violation for Subscription to "a"'
    with FakeServer() as server:
        run = CommandRun(server, command, "a")
        run.peer.subscribed()
        run.peer.send(Err(refusal.encode()))
        assert run.status() == 1
    assert capsys.readouterr() == ("", f"natsync: the server reported: {refusal}\n")


def test_failures_are_one_line_without_secrets(capsys: Output) -> None:
    with FakeServer() as server:
        dead = server.url.replace("//", f"//u:{SECRET}@")
    assert main(["pub", "a", "-s", dead]) == 1
    assert main(["pub", "a", "-s", f"http://u:{SECRET}@h"]) == 2
    with FakeServer() as server:
        assert CommandRun(server, "pub", "a b").status() == 2
    err = capsys.readouterr().err
    assert SECRET not in err
    assert err.count("\n") == 3
    assert all(line.startswith("natsync: ") for line in err.splitlines())


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["pub"],
        ["pub", "a", "--count", "0"],
        ["pub", "a", "--timeout", "x"],
        ["pub", "a", "-H", "no colon"],
        ["rtt", "a"],
    ],
)
def test_wrong_usage_is_one_line_and_status_2(arguments: list[str], capsys: Output) -> None:
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("natsync: ") and err.count("\n") == 1


def test_version_is_that_of_the_package(capsys: Output) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"natsync {natsync.__version__}\n"


def run(server: FakeServer, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "natsync", *arguments],
        env={**os.environ, "NATS_URL": server.url, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_an_interrupt_ends_a_command_with_status_130() -> None:
    with FakeServer() as server, run(server, "sub", "a") as process:
        peer = server.accept()
        peer.greet()
        peer.until(Ping)
        peer.send(Pong())
        process.send_signal(signal.SIGINT)
        peer.expect_end()
        out, err = process.communicate(timeout=10)
    assert (process.returncode, out, err) == (130, "", "")


def test_a_closed_pipe() -> None:
    with FakeServer() as server, run(server, "sub", "a") as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        peer = server.accept()
        peer.greet()
        peer.send(Msg(b"a", peer.subscribed(), b"", b"x"))
        peer.expect_end()
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_a_refused_publish_fails(capsys: Output) -> None:
    with FakeServer() as server:
        run = CommandRun(server, "pub", "a", "x")
        run.peer.expect(Pub)
        run.peer.send(Err(b'Permissions Violation for Publish to "a"'))
        assert run.status() == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_a_terminal_that_lacks_a_character(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding))
    with FakeServer() as server:
        run = CommandRun(server, "sub", "a", "--count", "1")
        run.peer.subscribed()
        run.peer.send(Msg(b"a", b"1", b"", "ä".encode()))
        assert run.status() == 0
        assert out.getvalue() == b"[a] " + "ä".encode(encoding, "backslashreplace") + b"\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize("where", [">/dev/full", ">&-"])
def test_an_output_that_takes_nothing(where: str) -> None:
    with FakeServer() as server:
        command = f'exec "{sys.executable}" -m natsync sub a --count 1 -s {server.url} {where}'
        with subprocess.Popen(["sh", "-c", command], stderr=subprocess.PIPE, text=True) as process:
            peer = server.accept()
            peer.greet()
            peer.subscribed()
            peer.send(Msg(b"a", b"1", b"", b"x"))
            peer.expect_end()
            _, err = process.communicate(timeout=10)
    assert process.returncode == (1 if "full" in where else 0)
    assert "Traceback" not in err and len(err.splitlines()) <= 1
