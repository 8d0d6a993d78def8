"""Hostile bytes into the layers below NATS: `python -m tests.dissector.fuzzing.layers [SECONDS] [--seed S]`.

A run takes what both sides of a real connection sent (TLS with its secrets and without, WebSocket, S2, a
refused upgrade, the handshake of a proxy), or an element of it (a block, a ClientHello, a certificate), harms
it, and feeds it in pieces, with gaps. The laws: nothing is raised but what a function says; each byte is
counted once; offsets ascend; what comes out of few bytes is bounded.

A failure is printed with the seed and the number of its run, which make it again (`--seed S --run R`).
"""

from __future__ import annotations

import argparse
import pickle
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from unittest.mock import patch

from dissect.nats.secrets.key_log import KeyLogs
from dissect.nats.tcp.flow import undirected
from dissect.nats.transport import http_connect, socks
from dissect.nats.transport.layer import Layer, LayerBytes, LayerOptions
from dissect.nats.transport.s2 import codec as s2_codec
from dissect.nats.transport.s2 import layer as s2
from dissect.nats.transport.s2.codec import (
    MOST_PLAIN_BYTES,
    BlockError,
    decode_block,
    decode_in_python,
)
from dissect.nats.transport.s2.kernel import Kernel, load
from dissect.nats.transport.tls import keys as tls_keys
from dissect.nats.transport.tls import layer as tls
from dissect.nats.transport.tls.certificate import first_certificate, read_certificate
from dissect.nats.transport.tls.client_hello import read_client_hello
from dissect.nats.transport.websocket import http_refusal
from dissect.nats.transport.websocket import layer as websocket
from dissect.nats.transport.websocket.http_upgrade import (
    refusal_text,
    request_facts,
    response_facts,
)
from dissect.nats.types import Chunk, Direction, Gap, Item, Oddity, Segment

from tests.support.paths import CAPTURES
from tests.support.segments import segments

KEYS = str(CAPTURES / "tls-keys-2.15.1.keylog")
FREE_BYTES = 64 << 20  # of plaintext, whatever came
MOST_EXPANSION = 2_000
Sent = list[tuple[Direction, bytes]]


@cache
def connections(name: str) -> list[Sent]:
    """What both sides of each connection of a capture sent."""
    found: dict[bytes, Sent] = {}
    opened: dict[bytes, bytes] = {}
    for each in segments([str(CAPTURES / name)]):
        if isinstance(each, Segment) and each.payload:
            flow = undirected(each.key)
            first = opened.setdefault(flow, each.key)
            way = Direction.ORIGINATOR if each.key == first else Direction.RESPONDER
            found.setdefault(flow, []).append((way, bytes(each.payload)))
    return list(found.values())


@cache
def begun(name: str, *starts: bytes) -> list[Sent]:
    """The connections from the first packet on that begins with one of these bytes, and whose sender is the
    originator."""
    cut = []
    for connection in connections(name):
        at = next((at for at, (_, data) in enumerate(connection) if data.startswith(starts)), None)
        if at is not None:
            swaps = connection[at][0] is not Direction.ORIGINATOR
            cut.append([(way.other if swaps else way, data) for way, data in connection[at:]])
    assert cut, name
    return cut


def harmed(data: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, left out, repeated or put in."""
    out = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 2, 8))):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(5):
            case 0 if at < len(out):
                out[at] = rng.randrange(256)
            case 1 if at < len(out):
                out[at] ^= 1 << rng.randrange(8)
            case 2:
                del out[at : at + rng.choice((1, 2, 3, 40))]
            case 3:
                out[at:at] = out[at : at + rng.choice((1, 4, 90))]
            case 4:
                out[at:at] = rng.choice((b"\xff" * 4, bytes(3), rng.randbytes(9)))
    return bytes(out)


def converse(layer: Layer, connection: Sent, rng: random.Random, options: LayerOptions) -> None:
    """Feeds both directions of a layer, and checks its laws."""
    assert layer.transforms
    transforms = dict(layer.transforms(options))
    ends: Counter[Direction] = Counter()
    items: dict[Direction, list[Item]] = {way: [] for way in Direction}
    packet = 0
    # Most runs are short, and few are cut into single bytes: more of them.
    for way, data in connection[
        : rng.choice((2, 4, 4, 6, 8, 8, 16, rng.choice((16, len(connection)))))
    ]:
        data = harmed(data, rng)
        size = rng.choice((1, 7, 60, 1448) if len(data) < 60 else (300, 1448, 1448))
        end, made, other = ends[way], items[way], items[way.other]
        feed, resume = transforms[way].feed, transforms[way.other].resume
        for at in range(0, len(data), size):
            if transforms[way].opaque or transforms[way].done:
                break
            packet += 1
            piece = data[at : at + size]
            item: Item = Chunk(packet, packet, "f", end, piece)
            if rng.random() < 0.02:
                item = Gap(packet, packet, "f", end, len(piece))
            end += len(piece)
            made += feed(item)
            other += resume()
        ends[way] = end
        if rng.random() < 0.02:
            transforms = pickle.loads(pickle.dumps(transforms))
    for way, transform in transforms.items():
        handed_on = 0
        if transform.done:
            plain = (each for each in items[way] if not isinstance(each, Oddity))
            sizes = (len(each.data) if isinstance(each, Chunk) else each.length for each in plain)
            handed_on = sum(sizes)
        elif not transform.opaque:
            items[way] += transform.finish()
        # `isinstance` with a protocol took a fifth of the time.
        below: Mapping[str, LayerBytes] = getattr(transform, "below", {})
        span = transform.counts.span + handed_on
        assert below or span == ends[way], (transform.counts, ends[way])
        assert all(counts.span <= ends[way] for counts in below.values())
        assert min(transform.counts.carried, transform.counts.skipped) >= 0
        at = 0
        for each in items[way]:
            if isinstance(each, Chunk):
                assert each.offset >= at and each.data
                at = each.offset + len(each.data)
        assert at < FREE_BYTES + MOST_EXPANSION * ends[way]
        dict(getattr(transform, "facts", {}))


def tls_without_secrets(rng: random.Random) -> None:
    connection = rng.choice(begun("tls-keys-2.15.1.pcap", b"\x16\x03"))
    converse(tls.LAYER, connection, rng, LayerOptions())


def tls_with_secrets(rng: random.Random) -> None:
    connection = rng.choice(begun("tls-keys-2.15.1.pcap", b"\x16\x03"))
    # Most time went to trials that are all alike.
    with patch.object(tls_keys, "_MOST_SEARCH_TRIALS", 100):
        converse(tls.LAYER, connection, rng, LayerOptions(KeyLogs((KEYS,))))


def websocket_frames(rng: random.Random) -> None:
    name = rng.choice(
        ("websocket-2.15.1", "websocket-deflate-2.15.1", "leafnode-websocket-s2-2.15.1")
    )
    converse(websocket.LAYER, rng.choice(begun(f"{name}.pcap", b"GET ")), rng, LayerOptions())


def s2_stream(rng: random.Random) -> None:
    connection = rng.choice(begun("s2-2.15.1.pcap", s2.IDENTIFIER))[:40]
    converse(s2.LAYER, connection, rng, LayerOptions())


def refused_upgrade(rng: random.Random) -> None:
    head = begun("websocket-2.15.1.pcap", b"GET ")[0][0][1]
    answer = (
        b"HTTP/1.1 302 Found\r\nLocation: https://a/?b=c\r\nSec-Websocket-Version: 13\r\n\r\nno\n"
    )
    connection = [(Direction.ORIGINATOR, head), (Direction.RESPONDER, answer)]
    converse(http_refusal.LAYER, connection, rng, LayerOptions())
    for read in (request_facts, response_facts, refusal_text):
        read(harmed(rng.choice((head, answer)), rng))


def proxy_tunnel(rng: random.Random) -> None:
    request = (
        b"CONNECT hub:7422 HTTP/1.1\r\nHost: hub:7422\r\nProxy-Authorization: Basic YTpi\r\n\r\n"
    )
    refusals = (
        b"HTTP/1.1 407 No\r\nContent-Length: 4\r\n\r\nbody",
        b"HTTP/1.1 502 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n",
    )
    connection = [(Direction.ORIGINATOR, request), (Direction.RESPONDER, rng.choice(refusals))]
    connection *= rng.randrange(3)
    connection += [
        (Direction.ORIGINATOR, request),
        (Direction.RESPONDER, b"HTTP/1.1 200 Connection established\r\n\r\nINFO {}\r\n"),
        (Direction.ORIGINATOR, b"CONNECT {}\r\nPING\r\n"),
    ]
    converse(http_connect.LAYER, connection, rng, LayerOptions())


def socks_tunnel(rng: random.Random) -> None:
    five = [
        (Direction.ORIGINATOR, b"\x05\x02\0\x02"),
        (Direction.RESPONDER, b"\x05\x02"),
        (Direction.ORIGINATOR, b"\x01\x01u\x02pw"),
        (Direction.RESPONDER, b"\x01\0"),
        (Direction.ORIGINATOR, b"\x05\x01\0\x03\x03hub\x10\x7eCONNECT {}\r\n"),
        (Direction.RESPONDER, b"\x05\0\0\x01\x7f\0\0\x01\x10\x7eINFO {}\r\n"),
    ]
    four = [
        (Direction.ORIGINATOR, b"\x04\x01\x10\x7e\0\0\0\x01user\0hub\0"),
        (Direction.RESPONDER, b"\0\x5a\x10\x7e\x7f\0\0\x01INFO {}\r\n"),
    ]
    converse(socks.LAYER, rng.choice((five, four)), rng, LayerOptions())


@cache
def blocks() -> list[bytes]:
    """Compressed blocks of real servers."""
    found = []
    for connection in begun("s2-2.15.1.pcap", s2.IDENTIFIER):
        for way in Direction:
            wire = b"".join(data for sender, data in connection if sender is way)
            at = max(wire.find(s2.IDENTIFIER), 0)
            while at + 8 < len(wire):
                size = int.from_bytes(wire[at + 1 : at + 4], "little")
                if wire[at] == 0 and size < 3_000:
                    found.append(wire[at + 8 : at + 4 + size])
                at += 4 + size
    return found


@cache
def kernels() -> list[Callable[[bytes, int, int], bytes | None]]:
    """With machine code where `numba` is installed, and without."""
    return [load() or Kernel(), Kernel(sys.maxsize)]


def s2_block(rng: random.Random) -> None:
    block = harmed(rng.choice(blocks()), rng)
    try:
        with patch.object(s2_codec, "_KERNEL", rng.choice(kernels())):
            plain = decode_block(block)
    except BlockError:
        plain = None
    assert plain is None or len(plain) <= MOST_PLAIN_BYTES
    try:
        in_python = decode_in_python(block)
    except BlockError:
        in_python = None
    assert plain == in_python


@cache
def messages(kind: int) -> list[bytes]:
    """Bodies of handshake messages of TLS 1.2, in the clear."""
    found = []
    for connection in begun("tls-keys-2.15.1.pcap", b"\x16\x03"):
        for way in Direction:
            wire = b"".join(data for sender, data in connection if sender is way)
            records, at = b"", 0
            while wire[at : at + 1] == b"\x16":
                size = int.from_bytes(wire[at + 3 : at + 5], "big")
                records += wire[at + 5 : at + 5 + size]
                at += 5 + size
            at = 0
            while at + 4 <= len(records):
                size = int.from_bytes(records[at + 1 : at + 4], "big")
                if records[at] == kind:
                    found.append(records[at + 4 : at + 4 + size])
                at += 4 + size
    return found


def client_hello(rng: random.Random) -> None:
    found = read_client_hello(harmed(rng.choice(messages(1)), rng))
    if found:
        assert len(found.ja3) == 32 and found.ja4.count("_") == 2
        assert found.server_name is not None and found.protocols is not None


def certificate(rng: random.Random) -> None:
    found = read_certificate(harmed(first_certificate(rng.choice(messages(11)), False), rng))
    if found:
        found.flaw(rng.randrange(2**62))


TARGETS: dict[str, Callable[[random.Random], None]] = {
    each.__name__: each
    for each in (
        tls_without_secrets,
        tls_with_secrets,
        websocket_frames,
        s2_stream,
        s2_block,
        refused_upgrade,
        proxy_tunnel,
        socks_tunnel,
        client_hello,
        certificate,
    )
}


def main(arguments: list[str] | None = None) -> int:
    """Runs each target for its share of the time; 1 if a law was broken."""
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", nargs="?", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--run", type=int, default=0)
    parser.add_argument("--target", choices=TARGETS, action="append")
    args = parser.parse_args(arguments)
    names = args.target or list(TARGETS)
    for name in names:
        until, run = time.monotonic() + args.seconds / len(names), args.run
        while time.monotonic() < until:
            try:
                TARGETS[name](random.Random(f"{args.seed}:{name}:{run}"))
            except Exception:  # any error is reported with the numbers that repeat it
                traceback.print_exc()
                print(f"{name}: broken by --target {name} --seed {args.seed} --run {run}")
                return 1
            run += 1
        print(f"{name}: {run - args.run} runs hold (seed {args.seed})", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
