"""Captures of made-up NATS connections, in a few words: what a client and its server say, line by line.

    session(pub("a", b"x"), "<-ERR 'Stale Connection'", info={"max_payload": 100})

A step that begins with `>` is a line of the client, one with `<` a line of the server, and a number is a time
in seconds that passes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path

from natsync.protocol import build_headers

from tests.support.pcapwriter import START_NS, Conversation, pcap_file

INFO = {
    "server_id": "NSERVER",
    "server_name": "demo",
    "version": "2.15.1",
    "proto": 1,
    "headers": True,
    "max_payload": 1048576,
    "client_id": 5,
}
CONNECT = {
    "verbose": False,
    "pedantic": False,
    "lang": "go",
    "version": "1.48.0",
    "name": "app",
    "protocol": 1,
    "headers": True,
    "no_responders": True,
}

Step = str | float | tuple[str, bytes]
_PORTS = count(20000)


def pub(
    subject: str, payload: bytes = b"", reply: str = "", headers: Mapping[str, str] | None = None
) -> Step:
    """The client publishes."""
    return ">", _message("PUB", f"{subject} {reply}", payload, headers)


def msg(
    subject: str,
    payload: bytes = b"",
    reply: str = "",
    sid: str = "1",
    headers: Mapping[str, str] | None = None,
) -> Step:
    """The server delivers."""
    return "<", _message("MSG", f"{subject} {sid} {reply}", payload, headers)


def status(subject: str, code: int, sid: str = "1") -> Step:
    """The server delivers a status without a payload, as 503: nobody listens."""
    block = f"NATS/1.0 {code}\r\n\r\n".encode()
    return "<", b"HMSG %s %s %d %d\r\n%s\r\n" % (
        subject.encode(),
        sid.encode(),
        len(block),
        len(block),
        block,
    )


def call(subject: str, answer: Mapping[str, object], **asked: object) -> list[Step]:
    """A call of the JetStream API with its answer."""
    inbox = f"_INBOX.app.{next(_PORTS)}"
    request = json.dumps(asked).encode() if asked else b""
    return [pub(f"$JS.API.{subject}", request, inbox), msg(inbox, json.dumps(answer).encode())]


def session(
    *steps: Step | list[Step],
    info: Mapping[str, object] | None = None,
    connect: Mapping[str, object] | None = None,
    client: str = "10.0.0.1",
    at: float = 0.0,
) -> Conversation:
    """A connection from its handshake to its end: INFO, CONNECT, a subscription to `_INBOX.app.*` as 1, then
    the steps. It begins after `at` seconds."""
    conversation = Conversation(
        (client, next(_PORTS)), ("10.9.9.9", 4222), now_ns=START_NS + round(at * 1e9)
    )
    conversation.handshake()
    conversation.from_server(b"INFO %s\r\n" % json.dumps({**INFO, **(info or {})}).encode())
    conversation.from_client(
        b"CONNECT %s\r\n" % json.dumps({**CONNECT, **(connect or {})}).encode()
    )
    for step in _flat((">SUB _INBOX.app.* 1", *steps)):
        if isinstance(step, (int, float)):
            conversation.now_ns += round(step * 1e9)
        else:
            side, data = step if isinstance(step, tuple) else (step[0], f"{step[1:]}\r\n".encode())
            (conversation.from_client if side == ">" else conversation.from_server)(data)
    conversation.close()
    return conversation


def capture(path: Path, conversations: Iterable[Conversation]) -> Path:
    """Writes connections as one capture."""
    found = sorted(
        (record for conversation in conversations for record in conversation.records),
        key=lambda r: r.ts_ns,
    )
    path.write_bytes(pcap_file(found, nanoseconds=True))
    return path


def _flat(steps: Iterable[Step | list[Step]]) -> Iterable[Step]:
    for step in steps:
        yield from step if isinstance(step, list) else [step]


def _message(op: str, words: str, payload: bytes, headers: Mapping[str, str] | None) -> bytes:
    line = " ".join(words.split())
    if headers is None:
        return b"%s %s %d\r\n%s\r\n" % (op.encode(), line.encode(), len(payload), payload)
    block = build_headers([(name.encode(), value.encode()) for name, value in headers.items()])
    sizes = f"{len(block)} {len(block) + len(payload)}"
    return f"H{op} {line} {sizes}\r\n".encode() + block + payload + b"\r\n"
