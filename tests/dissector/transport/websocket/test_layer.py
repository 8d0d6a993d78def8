"""WebSocket: which upgrades are one, what comes out of its frames, and what damage costs."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import zlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats.transport.layer import Begins, Heads, LayerOptions
from dissect.nats.transport.websocket.layer import LAYER, Upgrade, WebSocketTransform
from dissect.nats.types import Chunk, Direction, Gap, Item, Oddity
from natsync.protocol.websocket import Opcode, build_frame, deflate

from tests.dissector.fuzzing.layers import begun
from tests.dissector.transport.s2.test_layer import stored
from tests.support.paths import CAPTURES
from tests.support.requirements import missing

INFO = b'INFO {"server_id":"NS"} \r\n'
GET = b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
MQTT = GET.replace(b"/ ", b"/mqtt ")
ORIGINATOR, RESPONDER = Direction
MASK = b"mask"


@pytest.mark.parametrize(
    "request_, response, expected",
    [
        (GET, b"", Begins.MAYBE),
        (GET[:20], b"", Begins.MAYBE),
        (GET, SWITCH[:5], Begins.MAYBE),
        (GET, SWITCH, Begins.YES),
        (GET, SWITCH[:20], Begins.YES),
        (MQTT, SWITCH, Begins.YES),
        (GET, b"HTTP/1.1 400 Bad Request\r\n\r\n", Begins.NO),
        (GET.replace(b"Upgrade: websocket", b"X: y"), SWITCH, Begins.NO),
        (b"PUB a 0\r\n\r\n", b"", Begins.NO),
        (b"", SWITCH, Begins.YES),
        (b"", SWITCH.replace(b"websocket", b"h2c"), Begins.NO),
        (b"", SWITCH[:30], Begins.NO),
    ],
)
def test_the_first_bytes(request_: bytes, response: bytes, expected: Begins) -> None:
    assert LAYER.begins(Heads(request_, response)) == expected


def test_at_the_end_nothing_is_waited_for() -> None:
    assert LAYER.begins(Heads(GET, b"", final=True)) is Begins.NO
    assert LAYER.begins(Heads(GET, b"HTTP/1.1 1", final=True)) is Begins.NO


@pytest.mark.parametrize(
    "packet, resumes",
    [
        (build_frame(Opcode.BINARY, b"MSG a 1 0\r\n\r\n"), True),
        (build_frame(Opcode.BINARY, b"PING\r\n", MASK), True),
        (build_frame(Opcode.BINARY, deflate(b"PUB a 0\r\n\r\n"), MASK, True), True),
        (build_frame(Opcode.BINARY, b"PUB a 9000\r\n" + b"x" * 9000)[:500], True),
        (build_frame(Opcode.BINARY, b"PING\r\n") * 2, True),
        (build_frame(Opcode.BINARY, b"PING\r\n") + b"\xf3\x00", False),
        (build_frame(Opcode.BINARY, b"PING\r\n") + b"\x82", False),
        (build_frame(Opcode.BINARY, b"hello, I am something else"), False),
        (build_frame(Opcode.BINARY, b"\xff" * 9, b"", True), False),
        (build_frame(Opcode.PING, b"PING\r\n"), False),
        (b"PING\r\n", False),
        (b"\x82", False),
    ],
)
def test_a_packet_in_the_middle(packet: bytes, resumes: bool) -> None:
    assert LAYER.resumes(packet) is resumes


def chunk(offset: int, data: bytes) -> Chunk:
    return Chunk(offset, offset, "t.pcap", offset, data)


def transform(response: bytes = SWITCH) -> WebSocketTransform:
    made = WebSocketTransform(RESPONDER, Upgrade())
    made.feed(chunk(0, response))
    return made


def extended(parameters: bytes) -> bytes:
    return SWITCH[:-2] + b"Sec-WebSocket-Extensions: permessage-deflate" + parameters + b"\r\n\r\n"


NO_CONTEXT = extended(b"; server_no_context_takeover; client_no_context_takeover")


def plain(found: list[Item]) -> bytes:
    return b"".join(each.data for each in found if isinstance(each, Chunk))


def noted(found: list[Item]) -> list[tuple[str, int, str]]:
    return [(e.anomaly.value, e.length, e.text) for e in found if isinstance(e, Oddity)]


@given(st.lists(st.binary(max_size=200), max_size=5), st.integers(1, 60), st.booleans())
def test_every_cut_gives_the_same_bytes(plains: list[bytes], size: int, deflates: bool) -> None:
    frames = [
        build_frame(Opcode.BINARY, deflate(each) if deflates else each, MASK, deflates)
        for each in plains
    ]
    wire = NO_CONTEXT + build_frame(Opcode.PING, b"ping").join(frames)
    made = WebSocketTransform(RESPONDER, Upgrade())
    found: list[Item] = []
    for at in range(0, len(wire), size):
        made = pickle.loads(pickle.dumps(made))
        found += made.feed(chunk(at, wire[at : at + size]))
    assert plain(found) == b"".join(plains)
    assert made.finish() == []
    assert made.counts.span == len(wire)
    assert made.compression == "deflate"


def test_a_message_may_be_fragmented_around_control_frames() -> None:
    data = deflate(b"PING\r\n" * 20)
    wire = b"\x42" + bytes([4]) + data[:4] + b"\x89\x00" + b"\x00\x02" + data[4:6]
    wire += b"\x80" + bytes([len(data) - 6]) + data[6:]
    assert plain(transform(NO_CONTEXT).feed(chunk(500, wire))) == b"PING\r\n" * 20


def test_the_context_of_earlier_messages_may_be_used() -> None:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    text = b"PUB orders.created 5\r\nhello\r\n"
    made, found = transform(extended(b"")), list[Item]()
    for number in range(4):
        data = compressor.compress(text) + compressor.flush(zlib.Z_SYNC_FLUSH)
        wire = build_frame(Opcode.BINARY, data[:-4], b"", True)
        found += pickle.loads(pickle.dumps(made)).feed(chunk(500, wire))
        made.feed(chunk(500 + number, wire))
    assert plain(found) == text * 4


def test_a_compressed_message_without_an_end_is_counted() -> None:
    made = transform(NO_CONTEXT)
    begun = b"\x42\x04" + deflate(b"PING\r\n" * 9)[:4]
    whole = build_frame(Opcode.BINARY, deflate(b"PONG\r\n"), b"", True)
    assert plain(made.feed(chunk(500, begun + whole))) == b"PONG\r\n"
    made.finish()
    assert made.counts.skipped == 4
    assert made.counts.span == len(NO_CONTEXT) + len(begun) + len(whole)


def test_a_gap_in_a_message_of_several_packets_costs_that_message() -> None:
    lost, whole = deflate(bytes(range(256)) * 3), deflate(b"PONG\r\n")
    wire = build_frame(Opcode.BINARY, lost, MASK, True)
    made, start = transform(NO_CONTEXT), len(NO_CONTEXT)
    found = made.feed(chunk(start, wire[:40])) + made.feed(chunk(start + 40, wire[40:70]))
    found += made.feed(Gap(9, 9, "t.pcap", start + 70, 30))
    found += made.feed(chunk(start + 100, wire[100:]))
    found += made.feed(
        chunk(start + len(wire), build_frame(Opcode.BINARY, whole, MASK, True) + wire[:50])
    )
    assert plain(found) == b"PONG\r\n"
    found = made.finish()
    head = len(wire) - len(lost)
    assert made.counts.missing == 30
    assert made.counts.skipped == len(lost) - 30 + 50 - head
    assert made.counts.carried == len(whole)
    assert noted(found) == [("skipped", 50 - head, "")]


def test_a_gap_takes_the_context_away() -> None:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    wires = []
    for _ in range(3):
        data = compressor.compress(b"PING\r\n") + compressor.flush(zlib.Z_SYNC_FLUSH)
        wires.append(build_frame(Opcode.BINARY, data[:-4], b"", True))
    made = transform(extended(b""))
    found = made.feed(chunk(500, wires[0]))
    found += made.feed(Gap(9, 9, "t.pcap", 500, len(wires[1])))
    found += made.feed(chunk(600, wires[2]))
    assert plain(found) == b"PING\r\n"
    assert made.counts.missing == len(wires[1])
    made.finish()
    assert made.counts.skipped == len(wires[2])


def test_a_gap_in_a_message_that_is_not_compressed_leaves_the_context() -> None:
    """Such a message is in no window (RFC 7692, 7.2.3.2)."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    text = b"PUB orders.created 5\r\nhello\r\n"
    wires = []
    for _ in range(2):
        data = compressor.compress(text) + compressor.flush(zlib.Z_SYNC_FLUSH)
        wires.append(build_frame(Opcode.BINARY, data[:-4], b"", True))
    made = transform(extended(b""))
    found = made.feed(chunk(500, wires[0]))
    found += made.feed(chunk(600, build_frame(Opcode.BINARY, b"x" * 50)[:2]))
    found += made.feed(Gap(9, 9, "t.pcap", 602, 50))
    found += made.feed(chunk(652, wires[1]))
    assert plain(found) == text * 2


def test_a_gap_inside_a_payload_is_a_gap_of_that_length() -> None:
    wire = build_frame(Opcode.BINARY, b"PUB a 20\r\n" + b"x" * 20 + b"\r\n", MASK)
    made = transform()
    found = made.feed(chunk(100, wire[:20]))
    found += made.feed(Gap(9, 9, "t.pcap", 120, 5))
    found += made.feed(chunk(125, wire[25:] + build_frame(Opcode.BINARY, b"PING\r\n")))
    gaps = [each for each in found if isinstance(each, Gap)]
    assert [each.length for each in gaps] == [5]
    assert plain(found) == b"PUB a 20\r\nxxxx" + b"x" * 11 + b"\r\nPING\r\n"


def test_a_gap_over_the_head_of_a_frame_costs_the_packets_up_to_a_sure_one() -> None:
    made = transform()
    found = made.feed(chunk(100, b"\x82\x05PI"))
    found += made.feed(Gap(9, 9, "t.pcap", 104, 10))
    found += made.feed(chunk(114, b"half of a frame"))
    found += made.feed(chunk(129, build_frame(Opcode.BINARY, b"PONG\r\n")))
    assert plain(found) == b"PIPONG\r\n"
    assert noted(found) == [("skipped", 15, "")]
    assert made.counts.missing == 10


@pytest.mark.parametrize("status, noted_texts", [(1000, []), (1001, []), (1008, ["1008 bye"])])
def test_why_it_was_closed(status: int, noted_texts: list[str]) -> None:
    close = build_frame(Opcode.CLOSE, status.to_bytes(2, "big") + b"bye")
    found = transform().feed(chunk(100, close))
    assert [text for _, _, text in noted(found)] == noted_texts
    assert noted(transform().feed(chunk(100, build_frame(Opcode.CLOSE, b"")))) == []


def test_the_reason_of_a_close_repeats_no_secret_of_the_request() -> None:
    made = transform()
    made.upgrade.request = GET.replace(b"GET / ", b"GET /?token=t0ken-of-bob ")
    close = build_frame(Opcode.CLOSE, (1008).to_bytes(2, "big") + b"no t0ken-of-bob")
    assert [text for _, _, text in noted(made.feed(chunk(100, close)))] == ["1008 no ***"]


def test_bytes_that_are_no_frame_are_reported_and_skipped() -> None:
    made = transform()
    found = made.feed(chunk(100, b"\x83\x00abc"))
    found += made.feed(chunk(105, build_frame(Opcode.BINARY, b"PING\r\n")))
    assert noted(found) == [
        ("websocket_error", 0, "unknown WebSocket opcode 3"),
        ("skipped", 5, ""),
    ]
    assert plain(found) == b"PING\r\n"


def test_a_message_that_cannot_be_inflated_is_reported_and_skipped() -> None:
    made = transform(NO_CONTEXT)
    found = made.feed(chunk(200, build_frame(Opcode.BINARY, b"\xff" * 30, b"", True)))
    found += made.feed(chunk(232, build_frame(Opcode.BINARY, b"PING\r\n")))
    assert noted(found)[0][0] == "decompression_error"
    assert plain(found) == b"PING\r\n"


def test_a_bomb_is_read_up_to_a_limit() -> None:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = compressor.compress(bytes(8 << 20)) + compressor.flush(zlib.Z_SYNC_FLUSH)
    bomb = build_frame(Opcode.BINARY, data[:-4], b"", True)
    made = transform(NO_CONTEXT)
    found: list[Item] = []
    size = 0
    for number in range(12):
        each = made.feed(chunk(200 + number, bomb))
        size += len(plain(each))
        found += [item for item in each if isinstance(item, Oddity)]
    assert size <= 80 << 20
    assert [text for _, _, text in noted(found)][:1] == ["the rest is skipped: it expands too much"]


def test_s2_may_begin_below_the_frames() -> None:
    made = transform()
    found = made.feed(chunk(100, build_frame(Opcode.BINARY, INFO)))
    wire = stored(build_frame(Opcode.BINARY, b"PING\r\n"))
    for at in range(0, len(wire), 7):
        found += made.feed(chunk(200 + at, wire[at : at + 7]))
    assert plain(found) == INFO + b"PING\r\n"
    assert made.compression == "s2"
    assert made.below["s2"].span == len(wire)
    found = made.feed(chunk(300, stored(b"\xff\x06\x00\x00S2sTwO")))
    assert plain(found) == b""


def test_a_request_that_never_ends_is_skipped() -> None:
    made = WebSocketTransform(ORIGINATOR, Upgrade())
    for number in range(20):
        assert plain(made.feed(chunk(number * 1000, b"GET ".ljust(1000, b"x")))) == b""
    made.finish()
    assert made.counts.skipped == 20_000


@given(st.lists(st.one_of(st.binary(max_size=60), st.integers(1, 30)), max_size=8))
def test_any_bytes_are_accounted_for(parts: list[bytes | int]) -> None:
    made = WebSocketTransform(RESPONDER, Upgrade())
    end, found = 0, list[Item]()
    for part in (SWITCH, *parts):
        if isinstance(part, int):
            found += made.feed(Gap(end, end, "t.pcap", end, part))
            end += part
        else:
            found += made.feed(chunk(end, part))
            end += len(part)
    found += made.finish()
    if not made.s2:
        assert made.counts.span == end
        assert sum(length for name, length, _ in noted(found) if name == "skipped") == (
            made.counts.skipped
        )


@pytest.mark.parametrize("name", ["websocket-2.15.1.pcap", "websocket-deflate-2.15.1.pcap"])
def test_tshark_takes_the_same_bytes_out_of_frames(name: str) -> None:
    program = shutil.which("tshark")
    if program is None:
        missing("tshark", "apt-get install tshark")
    command = [
        program,
        "-n",
        "-r",
        str(CAPTURES / name),
        "-Y",
        "websocket",
        "-d",
        "tcp.port==8080,http",
    ]
    command += ["-T", "fields", "-e", "tcp.stream", "-e", "tcp.dstport", "-e", "data.data"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    theirs: dict[tuple[int, bool], bytes] = {}
    for line in done.stdout.splitlines():
        stream, port, data = line.split("\t")
        key = int(stream), port == "8080"
        theirs[key] = theirs.get(key, b"") + bytes.fromhex(data.replace(",", ""))
    ours: dict[tuple[int, bool], bytes] = {}
    for number, sent in enumerate(begun(name, b"GET ")):
        assert LAYER.transforms
        made, ends = LAYER.transforms(LayerOptions()), Counter[Direction]()
        for at, (way, data) in enumerate(sent):
            found = made[way].feed(Chunk(at, at, "t.pcap", ends[way], data))
            key = number, way is Direction.ORIGINATOR
            ours[key] = ours.get(key, b"") + plain(found)
            ends[way] += len(data)
    assert ours == theirs and len(b"".join(ours.values())) > 3_000
