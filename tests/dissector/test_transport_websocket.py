"""WebSocket: which upgrades are one, which carry NATS, and of which kind."""

from __future__ import annotations

import zlib

import pytest

from dissect.nats.transport.layer import Found, Heads, Undecided
from dissect.nats.transport.websocket import LAYER
from natsync.protocol import Kind

INFO = b'INFO {"server_id":"NS"} \r\n'
GET = b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
LEAF = GET.replace(b"/ ", b"/hub/leafnode ")
MQTT = GET.replace(b"/ ", b"/mqtt ")
NATS = Found(LAYER, True, Kind.CLIENT)
CHAT = Found(LAYER)


@pytest.mark.parametrize(
    "request_, response, expected",
    [
        (GET, b"", Undecided.WAIT),
        (GET[:20], b"", Undecided.WAIT),
        (GET, SWITCH, Undecided.WAIT),
        (GET, SWITCH + b"\x82\x7e\x01\x00" + INFO, NATS),
        (GET, SWITCH + b"\x82\x19" + b"hello, I am something else", CHAT),
        (GET, SWITCH[:-2] + b"Nats-No-Masking: true\r\n\r\n", NATS),
        (GET, b"HTTP/1.1 400 Bad Request\r\n\r\n", None),
        (LEAF, SWITCH, Found(LAYER, True, Kind.LEAFNODE)),
        (MQTT, SWITCH, CHAT),
        (GET.replace(b"Upgrade: websocket", b"X: y"), SWITCH, None),
        (b"PUB a 0\r\n\r\n", b"", None),
    ],
)
def test_the_first_bytes(
    request_: bytes, response: bytes, expected: Found | Undecided | None
) -> None:
    assert LAYER.begins(Heads(request_, response)) == expected


def test_at_the_end_nothing_is_waited_for() -> None:
    assert LAYER.begins(Heads(GET, SWITCH, final=True)) == CHAT
    assert LAYER.begins(Heads(GET, b"", final=True)) is None
    assert LAYER.begins(Heads(GET, b"HTTP/1.1 1", final=True)) is None


def test_a_compressed_frame_is_looked_into() -> None:
    deflater = zlib.compressobj(wbits=-15)
    data = deflater.compress(INFO) + deflater.flush(zlib.Z_SYNC_FLUSH)
    frame = b"\xc2" + bytes([len(data)]) + data
    assert LAYER.begins(Heads(GET, SWITCH + frame)) == NATS
    assert LAYER.begins(Heads(GET, SWITCH + b"\xc2\x30" + b"\xff" * 30)) == CHAT
