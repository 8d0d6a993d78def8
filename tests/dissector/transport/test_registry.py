"""The registry: each layer is found by its first bytes, where a frame should begin, and in the middle."""

from __future__ import annotations

import pytest

from dissect.nats.transport.layer import Detected, Heads, Undecided
from dissect.nats.transport.registry import LAYERS, first_layer, layer_of, next_layer

RECORD = b"\x17\x03\x03\x00\x01x"
IDENTIFIER = b"\xff\x06\x00\x00S2sTwO"


def test_names_are_unique() -> None:
    names = [layer.name for layer in LAYERS]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize(
    "originator, responder, expected",
    [
        (b"PROXY UNKNOWN\r\n", b"", "proxy"),
        (RECORD, RECORD, "tls"),
        (
            b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n",
            b"HTTP/1.1 101 x\r\n" * 2000,
            "websocket",
        ),
        (b"PUB a 0\r\n\r\n", b"INFO {}\r\n", None),
    ],
)
def test_the_first_layer(originator: bytes, responder: bytes, expected: str | None) -> None:
    found = first_layer(Heads(originator, responder))
    assert (found.layer.name if isinstance(found, Detected) else found) == expected


def test_an_upgrade_waits_for_its_answer() -> None:
    assert first_layer(Heads(b"GET / HTTP/1.1\r\n", b"")) is Undecided.WAIT


@pytest.mark.parametrize("data, expected", [(RECORD, "tls"), (IDENTIFIER, "s2"), (b"PING", None)])
def test_a_layer_in_place_of_a_frame_and_in_the_middle(data: bytes, expected: str | None) -> None:
    for layer in (next_layer(data, 1), layer_of(data)):
        assert (layer.name if layer else None) == expected
