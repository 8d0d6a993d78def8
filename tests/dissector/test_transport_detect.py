"""What the first bytes say."""

from __future__ import annotations

import zlib

import pytest

from dissect.nats.transport.detect import Detection, detect, websocket_kind
from natsync.protocol import Kind

INFO = b'INFO {"server_id":"NS"} \r\n'
GET = b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"


@pytest.mark.parametrize(
    "originator, responder, expected",
    [
        (b"", INFO, Detection.NATS),
        (b"", b"info{", Detection.NATS),
        (b'CONNECT {"cluster":"x"}\r\n', b"", Detection.NATS),
        (b"", b"INF", Detection.WAIT),
        (b"PUB a 1\r\nx\r\n", b"", Detection.WAIT),
        (b"CONNECT example.org:443 HTTP/1.1\r\n", b"HTTP/1.1 200 OK\r\n", Detection.OTHER),
        (b"PING\r\n", b"+PONG\r\n", Detection.OTHER),
        (b"\x16\x03\x01", b"\x16\x03\x03", Detection.OTHER),
        (b"SSH-2.0-x\r\n", b"SSH-2.0-y\r\n", Detection.OTHER),
        (b"GET /varz HTTP/1.1\r\n\r\n", b"", Detection.WAIT),
        (b"GET /varz HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n", Detection.OTHER),
        (b"GET /wrong-port HTTP/1.1\r\n\r\n", INFO, Detection.NATS),
        (b"PROXY TCP4 1.2.3.4 5.6.7.8 9 10\r\n", b"", Detection.WAIT),
        (b"PROXY TCP4 1.2.3.4 5.6.7.8 9 10\r\nCONNECT {}\r\n", b"", Detection.NATS),
        (b"PROXY TCP4 1.2.3.4 5.6.7.8 9 10\r\n", b"HTTP/1.1 200 OK\r\n", Detection.OTHER),
        (b"PROXY TCP4 1.2", INFO, Detection.NATS),
        (GET, b"", Detection.WAIT),
        (GET, SWITCH, Detection.WAIT),
        (GET, SWITCH + b"\x82\x7e\x01\x00" + INFO, Detection.WEBSOCKET),
        (GET, SWITCH + b"\x82\x19" + b"hello, I am something else", Detection.OTHER),
        (GET, b"HTTP/1.1 400 Bad Request\r\n\r\n", Detection.OTHER),
        (GET.replace(b"/ ", b"/leafnode "), SWITCH, Detection.WEBSOCKET),
        (GET.replace(b"/ ", b"/mqtt "), SWITCH, Detection.OTHER),
    ],
)
def test_a_connection_seen_from_its_beginning(
    originator: bytes, responder: bytes, expected: Detection
) -> None:
    assert detect(originator, responder, False) is expected


def test_midstream_nothing_is_ruled_out_by_other_bytes() -> None:
    assert detect(b"", b"rest of a payload\r\n", True) is Detection.WAIT


def test_midstream_the_server_may_have_been_seen_first() -> None:
    assert detect(INFO, b"", True) is Detection.TURNED


def test_a_compressed_websocket_frame_is_looked_into() -> None:
    deflater = zlib.compressobj(wbits=-15)
    data = deflater.compress(INFO) + deflater.flush(zlib.Z_SYNC_FLUSH)
    frame = b"\xc2" + bytes([len(data)]) + data
    assert detect(GET, SWITCH + frame, False) is Detection.WEBSOCKET
    assert detect(GET, SWITCH + b"\xc2\x30" + b"\xff" * 30, False) is Detection.OTHER


def test_the_path_tells_the_kind_inside_a_websocket() -> None:
    assert websocket_kind(GET) is Kind.CLIENT
    assert websocket_kind(GET.replace(b"/ ", b"/hub/leafnode ")) is Kind.LEAFNODE
