"""What others wrote cannot affect the terminal of who runs `natsync`: real servers pass on names, subjects,
descriptions and errors as they are. Payloads are exact, except in text on a terminal.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import natsync
from natsync.cli import main
from natsync.jetstream import ConsumerConfig, StreamConfig
from natsync.kv import KeyValueConfig
from natsync.micro import Request, add_service
from natsync.object_store import ObjectMeta, ObjectStoreConfig

from tests.support.servers import NatsServer, Which

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("control characters")]

NAME = "\x1b[2J\x07\x08\x9b1m\u2028\u202etxt"  # which a subject may have
NAME_SHOWN = "\\x1b[2J\\x07\\x08\\x9b1m\\u2028\\u202etxt"
TEXT = f"a{NAME}\r\nnatsync: forged\t\x00\x7f"
TEXT_SHOWN = f"a{NAME_SHOWN}\\x0d\\x0anatsync: forged\\x09\\x00\\x7f"
CONFIG = 'jetstream { store_dir: $FOLDER }\nserver_name: "srv\x1b[2J"\n'

Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module", params=["current", "old"])
def nc(request: pytest.FixtureRequest) -> Iterator[natsync.Client]:
    """A client of a server to which somebody has written what nobody should print."""
    which: Which = request.param
    with NatsServer(CONFIG, which=which) as server, natsync.connect(server.url) as nc:
        js = nc.jetstream()
        stream = js.create_stream(StreamConfig("s", subjects=["s.>"], description=TEXT))
        nc.publish_confirmed(f"s.{NAME}", b"data", headers={"h": "\x1b[2J"})
        stream.create_consumer(
            ConsumerConfig(durable_name="c", description=TEXT, filter_subject=f"s.{NAME}")
        )
        _create_what_this_client_refuses(nc)
        js.create_key_value(KeyValueConfig("b", description=TEXT, history=2))
        nc.publish_confirmed(f"$KV.b.key{NAME}", b"value")
        store = js.create_object_store(ObjectStoreConfig("o", description=TEXT))
        store.put(ObjectMeta(f"obj{NAME}"), b"1")
        store.put(ObjectMeta("plain", description=TEXT, headers={"h": [NAME]}), b"1")
        yield nc


def _create_what_this_client_refuses(nc: natsync.Client) -> None:
    consumer = {"durable_name": NAME, "ack_policy": "explicit"}
    for call, body in (
        (f"STREAM.CREATE.{NAME}", {"name": NAME, "subjects": ["other"]}),
        (f"CONSUMER.DURABLE.CREATE.s.{NAME}", {"stream_name": "s", "config": consumer}),
    ):
        answer = json.loads(nc.request(f"$JS.API.{call}", json.dumps(body).encode()).data)
        assert "error" not in answer


LINES: dict[str, tuple[int | None, str]] = {
    "stream ls": (5, NAME_SHOWN),
    "stream ls --names": (4, NAME_SHOWN),
    "stream info s": (None, TEXT_SHOWN),
    "stream info s --count s.>": (None, NAME_SHOWN),
    "stream get s 1": (1, f"[s.{NAME_SHOWN}] data"),
    "consumer ls s": (3, NAME_SHOWN),
    "consumer ls s --names": (2, NAME_SHOWN),
    "consumer info s c": (None, TEXT_SHOWN),
    "consumer next s c --no-ack": (1, f"[s.{NAME_SHOWN}] data"),
    "sub > --stream s --count 1": (1, f"[s.{NAME_SHOWN}] data"),
    "kv ls b": (1, f"key{NAME_SHOWN}"),
    "kv keys b": (1, f"key{NAME_SHOWN}"),
    "kv info b": (None, TEXT_SHOWN),
    "kv watch b --count 1": (1, f"[key{NAME_SHOWN} 1] value"),
    "object ls o": (3, f"obj{NAME_SHOWN}"),
    "object ls o --names": (2, f"obj{NAME_SHOWN}"),
    "object info o": (None, TEXT_SHOWN),
    "object info o plain": (None, TEXT_SHOWN),
    "object watch o --count 2": (2, f"[obj{NAME_SHOWN}] 1 bytes"),
}
"""Commands, the number of lines that each prints, and what is in one of them."""


@pytest.mark.parametrize("line", LINES)
def test_lines_and_tables(nc: natsync.Client, capsys: Output, line: str) -> None:
    lines, shown = LINES[line]
    printed = _printed(nc, capsys, line)
    assert any(shown in each for each in printed)
    assert lines in (None, len(printed))


def _printed(nc: natsync.Client, capsys: Output, line: str, status: int = 0) -> list[str]:
    assert main(["-s", nc.servers[0], *line.split()]) == status
    printed = capsys.readouterr()[bool(status)].removesuffix("\n").split("\n")
    assert [each for each in printed if not each.isprintable()] == []
    return printed


def test_services_are_printed_without_control_characters(
    nc: natsync.Client, capsys: Output
) -> None:
    def fail(request: Request) -> None:
        request.respond_error(400, f"failed{NAME}", b"")

    with natsync.connect(nc.servers[0]) as own:
        service = add_service(own, "math", "1.0.0", description=TEXT, metadata={TEXT: TEXT})
        service.add_endpoint("divide", fail, subject=f"div.{NAME}", metadata={TEXT: TEXT})
        info = _printed(nc, capsys, "service info --stall 0.1")
        assert len(info) == 4 and info[1] == f"  {TEXT_SHOWN}={TEXT_SHOWN}"
        assert info[2] == f"  divide: div.{NAME_SHOWN} queue q"
        own.request(f"div.{NAME}", timeout=5)
        stats = _printed(nc, capsys, "service stats --stall 0.1")
        assert len(stats) == 2 and "400:failed\\x1b[2J\\x07" in stats[1]


def test_errors_of_others(nc: natsync.Client, capsys: Output) -> None:
    def fail(msg: natsync.Msg) -> None:
        msg.respond(json.dumps({"error": {"code": 500, "description": TEXT}}).encode())

    def refuse(msg: natsync.Msg) -> None:
        fields = {"Nats-Service-Error": f"no{NAME}", "Nats-Service-Error-Code": "400"}
        msg.respond(b"", headers=fields)

    with natsync.connect(nc.servers[0]) as own:
        own.subscribe("forged.>", handler=fail)
        own.subscribe("refused", handler=refuse)
        own.flush()
        (error,) = _printed(nc, capsys, "stream ls --api-prefix forged", 1)
        assert "forged\\x09" in error
        (error,) = _printed(nc, capsys, "request refused x", 1)
        assert NAME_SHOWN in error


def test_messages_are_printed_without_control_characters(
    nc: natsync.Client, capsys: Output
) -> None:
    """The subject is escaped; the payload is as it was sent, where no terminal reads it."""
    js = nc.jetstream()
    kv = js.create_key_value("payloads")
    kv.put("k", TEXT.encode())
    url = ["-s", nc.servers[0]]
    assert main([*url, "kv", "get", "payloads", "k"]) == 0
    assert capsys.readouterr().out == f"[k 1] {TEXT}\n"
    assert main([*url, "sub", ">", "--stream", "KV_payloads", "--count", "1"]) == 0
    assert capsys.readouterr().out == f"[$KV.payloads.k] {TEXT}\n"
    for line in ("kv get payloads k --json", "kv watch payloads --count 1 --json"):
        assert json.loads(_printed(nc, capsys, line)[0])["value"] == TEXT
    js.delete_key_value("payloads")


def test_payloads_on_a_terminal(nc: natsync.Client, tmp_path: Path) -> None:
    js = nc.jetstream()
    data = f"one\r\n\ttwo{NAME}\rthree".encode() + b"\xff"
    js.create_key_value("terminal").put("k", data)
    js.create_object_store("terminal").put("k", data)
    shown = f"one\r\n\ttwo{NAME_SHOWN}\\x0dthree\\xff\r\n".encode()
    raw = data.replace(b"\n", b"\r\n")  # as a terminal does
    try:
        assert _on_a_terminal(nc, "kv get terminal k") == b"[k 1] " + shown
        found = _on_a_terminal(nc, "sub > --stream KV_terminal --count 1")
        assert found == b"[$KV.terminal.k] " + shown
        assert _on_a_terminal(nc, "kv get terminal k --raw") == raw + b"\r\n"
        assert _on_a_terminal(nc, "object get terminal k -o -") == raw
        found = _on_a_terminal(nc, "object ls o --names")
        assert found == f"obj{NAME_SHOWN}\r\nplain\r\n".encode()
    finally:
        js.delete_key_value("terminal")
        js.delete_object_store("terminal")


def _on_a_terminal(nc: natsync.Client, line: str) -> bytes:
    """What a terminal gets."""
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "natsync", "-s", nc.servers[0], *line.split()]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUTF8": "1"}
    try:
        with subprocess.Popen(command, stdout=its, env=env) as process:
            os.close(its)
            found = b""
            try:
                while more := os.read(ours, 1 << 16):
                    found += more
            except OSError:  # the terminal is closed
                pass
        assert process.returncode == 0
    finally:
        os.close(ours)
    return found
