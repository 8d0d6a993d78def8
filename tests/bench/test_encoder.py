"""What it costs to write a message: `MessageEncoder` for publishing, and `encode` for everything else."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from natsync._engine.encoding import MessageEncoder
from natsync.protocol import Msg, Pub, ServerInfo, encode

from tests.bench.rounds import interleaved, machine
from tests.protocol.table import SERVER

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

COUNT = 50_000
DICE = random.Random(1)
NEW = [f"orders.created.{number}" for number in range(COUNT)]
MANY = [f"orders.created.{DICE.randrange(20_000)}" for _ in range(COUNT)]
PAYLOADS = [bytes(DICE.randrange(401)) for _ in range(COUNT)]
REPLIES = [f"_INBOX.Qy2bTxJ8cLkqE0pW.{number}" for number in range(COUNT)]
HEADERS = [
    {"Nats-Msg-Id": f"order-{number}", "Trace-Id": f"{number:032x}"} for number in range(COUNT)
]
INFO = ServerInfo(headers=True)


def publish(size: int, reply: str | None = None, named: bool = False) -> Callable[[], object]:
    payload = bytes(size)
    encoder = MessageEncoder(INFO)
    headers = HEADERS[0] if named else None

    def write() -> None:
        for _ in range(COUNT):
            encoder.message("orders.created.eu", payload, reply, headers)

    return write


def publish_varied(subjects: list[str]) -> Callable[[], object]:
    encoder = MessageEncoder(INFO)

    def write() -> None:
        for subject, payload in zip(subjects, PAYLOADS):
            encoder.message(subject, payload, None, None)

    return write


def publish_with_new_replies() -> None:
    encoder = MessageEncoder(INFO)
    for subject, payload, reply in zip(MANY, PAYLOADS, REPLIES):
        encoder.message(subject, payload, reply, None)


def publish_with_new_headers() -> None:
    encoder = MessageEncoder(INFO)
    for subject, payload, headers in zip(MANY, PAYLOADS, HEADERS):
        encoder.message(subject, payload, None, headers)


def write_pub() -> None:
    for _ in range(COUNT):
        encode(Pub(b"orders.created.eu", payload=b"0123456789abcdef"))


def write_msg() -> None:
    for _ in range(COUNT):
        encode(Msg(b"orders.created.eu", b"7", payload=b"0123456789abcdef"), SERVER)


def test_encoding() -> None:
    rows: dict[str, Callable[[], object]] = {
        **{f"publish, {size} B": publish(size) for size in (16, 128, 1024, 16384)},
        "publish, 16 B, reply": publish(16, "_INBOX.x.1"),
        "publish, 16 B, headers": publish(16, None, True),
        "publish, 0 to 400 B, 20,000 subjects": publish_varied(MANY),
        "publish, 0 to 400 B, new subject each": publish_varied(NEW),
        "publish, 0 to 400 B, new reply each": publish_with_new_replies,
        "publish, 0 to 400 B, new headers each": publish_with_new_headers,
        "encode(Pub), 16 B": write_pub,
        "encode(Msg), 16 B": write_msg,
    }
    print(f"\n\nEncoder, CPU time, {machine()}")
    for name, seconds in zip(rows, interleaved(list(rows.values()), rounds=5)):
        print(f"{name:42}{COUNT / seconds:12,.0f} a second{seconds / COUNT * 1e9:8,.0f} ns")
