"""WebSocket frames and permessage-deflate against the examples of the RFCs, and hostile bytes."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsync.protocol import ProtocolError
from natsync.protocol.websocket import (
    FrameHead,
    FrameReader,
    Opcode,
    accept_key,
    apply_mask,
    build_frame,
    deflate,
    inflate,
    read_frame_head,
)

MASK = b"\x37\xfa\x21\x3d"


def test_the_examples_of_rfc_6455() -> None:
    """Section 5.7, and the keys of section 1.3."""
    assert build_frame(Opcode.TEXT, b"Hello") == b"\x81\x05Hello"
    assert build_frame(Opcode.TEXT, b"Hello", MASK) == b"\x81\x85" + MASK + b"\x7f\x9f\x4d\x51\x58"
    assert build_frame(Opcode.PONG, b"Hello", MASK)[:2] == b"\x8a\x85"
    assert build_frame(Opcode.BINARY, bytes(256))[:4] == b"\x82\x7e\x01\x00"
    assert build_frame(Opcode.BINARY, bytes(65536))[:10] == b"\x82\x7f" + (65536).to_bytes(8, "big")
    assert accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def test_the_examples_of_rfc_7692() -> None:
    """Section 7.2.3: one message, and a second one that takes the context over."""
    first, second = b"\xf2\x48\xcd\xc9\xc9\x07\x00", b"\xf2\x00\x11\x00\x00"
    assert inflate(first, 100) == b"Hello"
    assert inflate(second, 100, b"Hello") == b"Hello"
    assert read_frame_head(b"\xc1\x07" + first) == FrameHead(2, Opcode.TEXT, True, True, b"", 7)


@given(st.binary(max_size=70_000), st.sampled_from([b"", MASK]), st.booleans())
def test_a_frame_that_is_built_can_be_read(payload: bytes, mask: bytes, compressed: bool) -> None:
    wire = build_frame(Opcode.BINARY, payload, mask, compressed)
    head = read_frame_head(wire)
    assert head
    assert head[1:] == (Opcode.BINARY, True, compressed, mask, len(payload))
    assert apply_mask(wire[head.size :], head.mask) == payload
    assert all(read_frame_head(wire[:size]) is None for size in range(head.size))


@pytest.mark.parametrize("size", [126, 70_000])
def test_a_long_length_may_come_in_pieces(size: int) -> None:
    wire = build_frame(Opcode.BINARY, bytes(size))
    head = read_frame_head(wire)
    assert head and head.length == size
    assert [read_frame_head(wire[:cut]) for cut in range(head.size)] == [None] * head.size


@given(st.binary(max_size=64), st.integers(0, 64))
def test_a_payload_may_be_unmasked_in_pieces(payload: bytes, cut: int) -> None:
    masked = apply_mask(payload, MASK)
    assert apply_mask(masked[:cut], MASK) + apply_mask(masked[cut:], MASK, cut) == payload


@pytest.mark.parametrize(
    "wire, reason",
    [
        (b"\x83\x00", "unknown WebSocket opcode 3"),
        (b"\xa2\x00", "reserved bits"),
        (b"\x89\x7e\x00\x7e", "control frame that is too long"),
        (b"\x09\x00", "control frame that is too long, fragmented"),
        (b"\xc8\x00", "or compressed"),
        (b"\x82\x7f\x80" + bytes(7), "negative"),
    ],
)
def test_what_is_no_frame(wire: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        read_frame_head(wire)


@given(st.binary(max_size=20))
def test_any_bytes_are_a_head_or_an_error(data: bytes) -> None:
    try:
        head = read_frame_head(data)
    except ProtocolError:
        return
    assert head is None or 2 <= head.size <= len(data)


@given(st.binary(max_size=500))
def test_a_message_that_is_deflated_can_be_inflated(message: bytes) -> None:
    data = deflate(message)
    assert inflate(data, len(message)) == message
    if message:
        with pytest.raises(ProtocolError, match="inflates to more than"):
            inflate(data, len(message) - 1)


@given(st.binary(max_size=100))
def test_any_bytes_are_inflated_or_an_error(data: bytes) -> None:
    try:
        assert len(inflate(data, 1000)) <= 1000
    except ProtocolError as error:
        assert "inflate" in str(error)


def test_a_bomb_is_inflated_up_to_the_limit() -> None:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = compressor.compress(bytes(32 << 20)) + compressor.flush(zlib.Z_SYNC_FLUSH)
    with pytest.raises(ProtocolError, match="more than 1000 bytes"):
        inflate(bomb[:-4], 1000)


@given(
    st.lists(st.tuples(st.binary(max_size=200), st.booleans()), max_size=6),
    st.integers(1, 90),
    st.booleans(),
)
def test_frames_may_come_in_any_pieces(
    sent: list[tuple[bytes, bool]], size: int, reads_late: bool
) -> None:
    wire = b"".join(
        build_frame(Opcode.BINARY, deflate(each) if compressed else each, b"mask", compressed)
        for each, compressed in sent
    )
    reader, found = FrameReader(), []
    for at in range(0, len(wire), size):
        reader.feed(wire[at : at + size])
        if not reads_late or at + size >= len(wire):
            found += list(iter(reader.read, None))
    assert {opcode for opcode, _ in found} <= {Opcode.BINARY}
    assert b"".join(payload for _, payload in found) == b"".join(each for each, _ in sent)


def test_a_frame_may_be_of_any_size_and_is_read_as_it_arrives() -> None:
    """A server sends what waits for a client as one frame: with `max_pending` of 512 MB, up to that much."""
    reader = FrameReader()
    reader.feed(b"\x82\x7f" + (1 << 40).to_bytes(8, "big") + b"PING\r\n")
    assert reader.read() == (Opcode.BINARY, b"PING\r\n")
    assert reader.read() is None
    reader.feed(b"PONG")
    assert reader.read() == (Opcode.BINARY, b"PONG")


def test_control_frames_are_whole_and_may_stand_between_the_fragments_of_a_message() -> None:
    data = deflate(b"PING\r\n" * 30)
    wire = b"\x42\x03" + data[:3] + build_frame(Opcode.PING, b"ping") + b"\x80"
    wire += bytes([len(data) - 3]) + data[3:] + build_frame(Opcode.BINARY, b"PONG\r\n", MASK)
    reader, found = FrameReader(), []
    for byte in wire:
        reader.feed(bytes([byte]))
        found += list(iter(reader.read, None))
    assert [payload for opcode, payload in found if opcode is Opcode.PING] == [b"ping"]
    rest = [payload for opcode, payload in found if not opcode.is_control]
    assert b"".join(rest) == b"PING\r\n" * 30 + b"PONG\r\n"


def test_a_message_that_cannot_be_inflated() -> None:
    reader = FrameReader()
    reader.feed(build_frame(Opcode.BINARY, b"\xff\xff", b"", True))
    with pytest.raises(ProtocolError, match="cannot be inflated"):
        reader.read()
