"""What it costs to write a message: `encode_publish`, the client's hot path, and `encode` for all else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from natsync.protocol import Msg, Pub, build_headers, encode, encode_publish

from tests.bench.rounds import interleaved, machine
from tests.protocol.table import SERVER

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

COUNT = 50_000
HEADERS = build_headers([(b"Nats-Msg-Id", b"1")])
NEW = [b"orders.created.%d" % number for number in range(COUNT)]


def publish(size: int, reply: bytes = b"", headers: bytes = b"") -> Callable[[], object]:
    payload = bytes(size)

    def write() -> None:
        for _ in range(COUNT):
            encode_publish(b"orders.created.eu", reply, headers, payload)

    return write


def publish_to_new_subjects() -> None:
    for subject in NEW:
        encode_publish(subject, b"", b"", b"0123456789abcdef")


def write_pub() -> None:
    for _ in range(COUNT):
        encode(Pub(b"orders.created.eu", payload=b"0123456789abcdef"))


def write_msg() -> None:
    for _ in range(COUNT):
        encode(Msg(b"orders.created.eu", b"7", payload=b"0123456789abcdef"), SERVER)


def test_encoding() -> None:
    rows: dict[str, Callable[[], object]] = {
        **{f"encode_publish, {size} B": publish(size) for size in (16, 128, 1024, 16384)},
        "encode_publish, 16 B, reply": publish(16, b"_INBOX.x.1"),
        "encode_publish, 16 B, headers": publish(16, b"", HEADERS),
        "encode_publish, 16 B, new subject each": publish_to_new_subjects,
        "encode(Pub), 16 B": write_pub,
        "encode(Msg), 16 B": write_msg,
    }
    print(f"\n\nEncoder, CPU time, {machine()}")
    for name, seconds in zip(rows, interleaved(list(rows.values()), rounds=5)):
        print(f"{name:42}{COUNT / seconds:12,.0f} a second{seconds / COUNT * 1e9:8,.0f} ns")
