"""The layers below NATS: megabytes of plaintext per second of one core, beside zlib's own speed.

Wanted: WebSocket frames at 150 MB/s, S2 at 60 MB/s in plain Python, deflate as fast as zlib. Asserted is only
that plaintext comes out whole; the figures are printed.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable
from time import process_time

import pytest

from dissect.nats.options import Options
from dissect.nats.pipeline import records, segments
from dissect.nats.transport.layer import LayerOptions, Transform
from dissect.nats.transport.s2 import IDENTIFIER
from dissect.nats.transport.s2 import LAYER as S2
from dissect.nats.transport.s2_codec import masked_checksum
from dissect.nats.transport.websocket import LAYER as WEBSOCKET
from dissect.nats.types import Chunk, Direction
from natsync.protocol.websocket import Opcode, build_frame, deflate

from tests.support.paths import CAPTURES
from tests.support.transport_scenarios import prose

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]
SIZE = 1448
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
DEFLATE = (
    b"Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; "
    b"client_no_context_takeover\r\n"
)


def flushes(count: int) -> list[bytes]:
    """What a server writes at a time: a few messages, with subjects and sizes that do not repeat."""
    dice = random.Random(8)
    made = []
    for number in range(count):
        payloads = [prose(number * 8 + each, dice.randrange(50, 900)) for each in range(8)]
        made.append(
            b"".join(
                b"MSG orders.%d.%d 7 %d\r\n%s\r\n" % (number, dice.randrange(9999), len(p), p)
                for p in payloads
            )
        )
    return made


def speed(transform: Transform, wire: bytes) -> tuple[float, int]:
    """Megabytes of plaintext per second, and how many bytes these were."""
    pieces = [Chunk(at, at, "t", at, wire[at : at + SIZE]) for at in range(0, len(wire), SIZE)]
    start, size = process_time(), 0
    for piece in pieces:
        size += sum(len(each.data) for each in transform.feed(piece) if isinstance(each, Chunk))
    return size / 1e6 / (process_time() - start), size


def websocket(frames: Iterable[bytes], head: bytes = SWITCH) -> tuple[float, int]:
    assert WEBSOCKET.transforms
    transform = WEBSOCKET.transforms(LayerOptions())[Direction.RESPONDER]
    return speed(transform, head + b"\r\n" + b"".join(frames))


def test_websocket_frames() -> None:
    whole = flushes(3_000)
    total = sum(map(len, whole))
    for name, mask in (("plain", b""), ("masked", b"mask")):
        rate, size = websocket(build_frame(Opcode.BINARY, each, mask) for each in whole)
        print(f"WebSocket, {name}: {rate:.0f} MB/s")
        assert size == total
    deflated = [deflate(each) for each in whole]
    frames = [build_frame(Opcode.BINARY, each, b"", True) for each in deflated]
    rate, size = websocket(frames, SWITCH + DEFLATE)
    start = process_time()
    for each in deflated:
        zlib.decompressobj(-15).decompress(each + b"\0\0\xff\xff")
    alone = total / 1e6 / (process_time() - start)
    print(f"WebSocket, permessage-deflate: {rate:.0f} MB/s, zlib alone {alone:.0f} MB/s")
    assert size == total


def test_s2_blocks() -> None:
    stored = b"".join(
        IDENTIFIER
        + b"\x01"
        + (len(each) + 4).to_bytes(3, "little")
        + masked_checksum(each).to_bytes(4, "little")
        + each
        for each in flushes(3_000)
    )
    assert S2.transforms
    rate, size = speed(S2.transforms(LayerOptions())[Direction.RESPONDER], stored)
    print(f"S2, stored blocks: {rate:.0f} MB/s of plaintext")
    assert size > 10_000_000
    streams: dict[tuple[bytes, ...], bytes] = {}
    for segment in segments([str(CAPTURES / "s2-2.15.1.pcap")]):
        payload = getattr(segment, "payload", b"")
        if payload:
            key = (getattr(segment, "key", b""),)
            streams[key] = streams.get(key, b"") + payload
    wires = [wire[wire.find(IDENTIFIER) :] for wire in streams.values() if IDENTIFIER in wire]
    assert wires
    wire = b"".join(wires) * 40
    rate, size = speed(S2.transforms(LayerOptions())[Direction.RESPONDER], wire)
    print(f"S2, compressed blocks of real servers: {rate:.0f} MB/s of plaintext, {size} bytes")
    assert size > len(wire)


def test_tls_records() -> None:
    path, keys = str(CAPTURES / "tls-keys-2.15.1.pcap"), str(CAPTURES / "tls-keys-2.15.1.keylog")
    for name, options in (("opaque", Options()), ("decrypted", Options(key_logs=[keys]))):
        start = process_time()
        count = sum(len(list(records([path], ["frames"], options))) for _ in range(5))
        print(f"TLS, {name}: {(process_time() - start) / 5 * 1e3:.1f} ms for {count // 5} frames")
