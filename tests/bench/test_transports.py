"""The layers below NATS: megabytes of plaintext per second of one core, beside zlib's own speed; TLS beside
tshark.

Wanted: WebSocket frames at 150 MB/s, S2 at 60 MB/s in plain Python or 400 as machine code, inflating as fast
as zlib. Inflating is what `inflate` does with a message: its tail is put back, its plaintext is limited, a
wrong one is an error. Beside it stand zlib alone on the same messages, without a limit, and the whole layer,
which also takes the messages out of packets and frames and counts their bytes. Asserted is only that
plaintext comes out whole; the figures are printed.
"""

from __future__ import annotations

import json
import random
import shutil
import struct
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path
from time import monotonic, process_time

import pytest

import natsync
from dissect.nats.options import Options
from dissect.nats.pipeline import records
from dissect.nats.transport.layer import LayerOptions, Transform
from dissect.nats.transport.s2 import codec as s2_codec
from dissect.nats.transport.s2 import kernel as s2_kernel
from dissect.nats.transport.s2 import snappy as s2_snappy
from dissect.nats.transport.s2.codec import decode_block, masked_checksum
from dissect.nats.transport.s2.layer import IDENTIFIER
from dissect.nats.transport.s2.layer import LAYER as S2
from dissect.nats.transport.websocket.layer import LAYER as WEBSOCKET
from dissect.nats.types import Chunk, Direction
from natsync import errors
from natsync.protocol.websocket import Opcode, build_frame, deflate, inflate

from tests.bench.children import alternating
from tests.bench.rounds import interleaved
from tests.bench.tap import Tap
from tests.support.certificates import Authority
from tests.support.paths import CAPTURES, ROOT
from tests.support.servers import NatsServer
from tests.support.transport_scenarios import prose

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]
SIZE, TIMEOUT = 1448, 30.0
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
FIELDS = ["-Tfields", "-eframe.time_epoch", "-eip.src", "-etcp.stream", "-edata.data"]
DEFLATE = (
    b"Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; "
    b"client_no_context_takeover\r\n"
)


def flushes(count: int) -> list[bytes]:
    """What a server writes at a time: a few messages, with subjects and sizes that do not repeat."""
    rng = random.Random(8)
    made = []
    for number in range(count):
        payloads = [prose(number * 8 + each, rng.randrange(50, 900)) for each in range(8)]
        made.append(
            b"".join(
                b"MSG orders.%d.%d 7 %d\r\n%s\r\n" % (number, rng.randrange(9999), len(p), p)
                for p in payloads
            )
        )
    return made


def packets(wire: bytes) -> list[Chunk]:
    return [Chunk(at, at, "t", at, wire[at : at + SIZE]) for at in range(0, len(wire), SIZE)]


def fed(transform: Transform, pieces: list[Chunk]) -> int:
    """How many bytes of plaintext come out."""
    size = 0
    for piece in pieces:
        size += sum(len(each.data) for each in transform.feed(piece) if isinstance(each, Chunk))
    return size


def speed(transform: Transform, wire: bytes) -> tuple[float, int]:
    """Megabytes of plaintext per second, and how many bytes these were."""
    pieces = packets(wire)
    start = process_time()
    size = fed(transform, pieces)
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


@pytest.mark.parametrize("size", [4_000, 16_000, 64_000])
def test_inflating_beside_zlib(size: int) -> None:
    plain = b"".join(flushes(800))
    messages = [deflate(plain[at : at + size]) for at in range(0, len(plain), size)]
    frames = (build_frame(Opcode.BINARY, each, b"", True) for each in messages)
    pieces = packets(SWITCH + DEFLATE + b"\r\n" + b"".join(frames))
    out: dict[str, int] = {}

    def layer() -> None:
        assert WEBSOCKET.transforms
        transform = WEBSOCKET.transforms(LayerOptions())[Direction.RESPONDER]
        out["layer"] = fed(transform, pieces)

    def inflating() -> None:
        out["inflating"] = sum(len(inflate(each, 64 << 20)) for each in messages)

    def alone() -> None:
        ended = (each + b"\0\0\xff\xff" for each in messages)
        out["zlib"] = sum(len(zlib.decompressobj(-15).decompress(each)) for each in ended)

    taken = interleaved([layer, inflating, alone])
    print(
        f"permessage-deflate, messages of {size} bytes: the layer {len(plain) / 1e6 / taken[0]:.0f} MB/s,"
        f" {taken[2] / taken[0]:.2f} x zlib, inflating {taken[2] / taken[1]:.2f} x zlib"
    )
    assert set(out.values()) == {len(plain)}


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


@pytest.fixture(scope="module")
def route() -> list[bytes]:
    """What servers sent each other over compressed routes: JSON, text, packed numbers and noise."""
    rng = random.Random(1)
    found = []
    for mode in ("s2_fast", "s2_better", "s2_best"):
        cluster = f"name: c, listen: 127.0.0.1:-1, compression: {mode}, pool_size: 1"
        with NatsServer(f"cluster {{ {cluster}, no_advertise: true }}", name="a") as first:
            with Tap(first.route_port) as tap:
                routes = f'routes: ["nats://127.0.0.1:{tap.port}"]'
                with NatsServer(f"cluster {{ {cluster}, {routes} }}", name="b") as second:
                    exchange(first.url, second.url, [message(rng, at) for at in range(3_000)])
            found += [wire[max(wire.find(IDENTIFIER), 0) :] for wire in tap.directions()]
    return found


def message(rng: random.Random, number: int) -> tuple[str, bytes]:
    """A subject and a payload."""
    kind = rng.choice(("order", "order", "metric", "metric", "packed", "text", "noise"))
    subject = f"{kind}.{rng.randrange(400)}"
    if kind == "order":
        items = [{"sku": rng.randrange(9999), "price": rng.random()} for _ in range(4)]
        return subject, json.dumps({"id": rng.randrange(10**9), "items": items}).encode()
    if kind == "metric":
        return subject, json.dumps({"host": f"web-{rng.randrange(40)}", "at": number}).encode()
    if kind == "packed":
        return subject, b"".join(struct.pack("<IH", rng.randrange(9**6), 1) for _ in range(30))
    size = rng.randrange(100, 4000)
    return subject, prose(number, size) if kind == "text" else rng.randbytes(size)


def exchange(
    url: str, other: str, messages: list[tuple[str, bytes]], tls: natsync.TLS | None = None
) -> None:
    """Publishes messages at one server, and receives them at the other."""
    with (
        natsync.connect(url, tls=tls or False) as one,
        natsync.connect(other, tls=tls or False) as two,
    ):
        with two.subscribe(">") as sub:
            two.flush()
            answered(one, two)
            for number, (subject, payload) in enumerate(messages):
                one.publish(subject, payload)
                if number % 9 == 0:
                    one.flush()
            while sub.next_msg(TIMEOUT).subject != messages[-1][0]:
                pass


def answered(one: natsync.Client, two: natsync.Client) -> None:
    """Waits until the interest of one server has reached the other."""
    with two.subscribe("is.there", handler=lambda msg: msg.respond(b"")):
        two.flush()
        until = monotonic() + TIMEOUT
        while monotonic() < until:
            try:
                one.request("is.there", timeout=TIMEOUT)
                return
            except errors.NoRespondersError:
                continue
    raise TimeoutError("the other server")


@pytest.mark.parametrize("libraries", ["numba and google-crc32c", "pyarrow", "nothing"])
def test_s2_of_routes(route: list[bytes], monkeypatch: pytest.MonkeyPatch, libraries: str) -> None:
    """The whole layer, from packets on, and decoding alone: of blocks, with their checksums."""
    compiled = libraries.startswith("numba")
    monkeypatch.setattr(s2_codec, "_KERNEL", s2_kernel.load() if compiled else s2_kernel._nothing)
    if libraries == "nothing":
        monkeypatch.setattr(s2_snappy, "_library", lambda: None)
    if not compiled:
        monkeypatch.setattr(s2_codec, "_crc32c", lambda: s2_codec.crc32c_in_python)
    chunks = [each for wire in route for each in blocks_of(wire)]
    assert S2.transforms
    layer, decoding = [], []
    for _ in range(5):
        made = [S2.transforms(LayerOptions())[Direction.RESPONDER] for _ in route]
        rate, size = zip(*(speed(each, wire) for each, wire in zip(made, route)))
        layer.append(sum(size) / sum(done / each for done, each in zip(size, rate) if each))
        start = process_time()
        plain = [(decode_block(block), checksum) for checksum, block in chunks]
        assert all(masked_checksum(each) == checksum for each, checksum in plain)
        decoding.append(sum(len(each) for each, _ in plain) / 1e6 / (process_time() - start))
    print(
        f"S2, routes with {libraries}: decoding {max(decoding):.0f} MB/s of plaintext, the whole layer "
        f"{max(layer):.0f} (wanted: 60, 400 with machine code)"
    )
    assert sum(size) > 4_500_000


def blocks_of(wire: bytes) -> list[tuple[int, bytes]]:
    """The compressed chunks of a stream: a checksum, and a block."""
    found, at = [], 0
    while at + 4 <= len(wire):
        end = at + 4 + int.from_bytes(wire[at + 1 : at + 4], "little")
        if wire[at] == 0 and end <= len(wire):
            found.append((int.from_bytes(wire[at + 4 : at + 8], "little"), wire[at + 8 : end]))
        at = end
    return found


def test_tls_frames_beside_tshark(tmp_path: Path) -> None:
    """tshark 4.0 has no NATS. Its list of packets shows nothing of what it decrypts; `fields` has the
    plaintext, packet by packet, as `frames` writes frames. The same messages without TLS show what TLS takes.
    """
    program = shutil.which("tshark")
    if program is None:
        pytest.skip("tshark is missing: apt-get install tshark")
    rng = random.Random(2)
    keys, path, authority = tmp_path / "keys", tmp_path / "tls.pcap", Authority(tmp_path)
    paths = authority.issue("server", "localhost", "127.0.0.1")
    messages = [message(rng, at) for at in range(20_000)]
    with NatsServer(f"tls {{ {paths.config} }}") as server, Tap(server.port) as tap:
        url = f"tls://127.0.0.1:{tap.port}"
        exchange(url, url, messages, natsync.TLS(ca_file=authority.cert, keylog_file=keys))
    tap.write(path, 4222)
    clear = tmp_path / "clear.pcap"
    with NatsServer() as server, Tap(server.port) as tap:
        exchange(f"nats://127.0.0.1:{tap.port}", f"nats://127.0.0.1:{tap.port}", messages)
    tap.write(clear, 4222)
    peer = [program, "-n", "-r", str(path), "-o", f"tls.keylog_file:{keys}", "-dtcp.port==4222,tls"]
    ours = [sys.executable, "-m", "dissect.nats", "frames", "--keylog", str(keys), str(path)]
    commands = {
        "frames": ours,
        "frames of the same without TLS": [*ours[:4], str(clear)],
        "tshark, a list of packets": peer,
        "tshark -T fields -e data.data": [*peer, "-dtls.port==4222,data", *FIELDS],
        "tshark -T ek -J tls": [*peer, "-Tek", "-Jtls"],
    }
    runs = alternating(list(commands.values()), ROOT, 3)
    for name, run in zip(commands, runs):
        print(f"TLS, {name}: {run.cpu:.2f} s of CPU, frames x {run.cpu / runs[0].cpu:.2f} as fast")


def test_tls_records() -> None:
    path, keys = str(CAPTURES / "tls-keys-2.15.1.pcap"), str(CAPTURES / "tls-keys-2.15.1.keylog")
    for name, options in (("opaque", Options()), ("decrypted", Options(keylog=[keys]))):
        start = process_time()
        count = sum(len(list(records([path], ["frames"], options))) for _ in range(5))
        print(f"TLS, {name}: {(process_time() - start) / 5 * 1e3:.1f} ms for {count // 5} frames")
