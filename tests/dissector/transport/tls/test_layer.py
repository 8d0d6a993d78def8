"""TLS: records at the beginning, after INFO, and in the middle of a stream."""

from __future__ import annotations

import pytest

from dissect.nats.transport.layer import Begins, Heads
from dissect.nats.transport.tls.layer import LAYER

HELLO = b"\x16\x03\x01\x00\x30" + b"h" * 48
DATA = b"\x17\x03\x03\x00\x10" + b"d" * 16


def test_a_connection_begins_with_tls_if_both_sides_do() -> None:
    assert LAYER.begins(Heads(HELLO, HELLO)) is Begins.YES
    assert LAYER.begins(Heads(HELLO, b"INFO {}\r\n", final=True)) is Begins.NO


def test_the_client_alone_is_enough_at_the_end() -> None:
    """Until then the server's INFO may come."""
    assert LAYER.begins(Heads(HELLO, b"")) is Begins.NO
    assert LAYER.begins(Heads(HELLO, b"", final=True)) is Begins.YES


def test_the_server_alone_is_enough() -> None:
    """The beginning of the client's bytes may be missing."""
    assert LAYER.begins(Heads(b"", HELLO)) is Begins.YES


@pytest.mark.parametrize(
    "data, frames, expected",
    [
        (HELLO, 0, True),
        (HELLO, 1, True),
        (HELLO[:1], 1, True),
        (HELLO, 2, False),
        (b"\x16\x04", 0, False),
        (b"PUB", 0, False),
    ],
)
def test_tls_instead_of_a_frame(data: bytes, frames: int, expected: bool) -> None:
    assert LAYER.replaces(data, frames) is expected


@pytest.mark.parametrize(
    "packet, expected",
    [
        (DATA, True),
        (DATA * 3, True),
        (DATA + DATA[:9], True),
        (DATA[:12], True),
        (DATA + b"something else", False),
        (b"\x17\x03\x03\xff\xff", False),
        (b"rest", False),
    ],
)
def test_a_packet_of_records(packet: bytes, expected: bool) -> None:
    assert LAYER.resumes(packet) is expected
