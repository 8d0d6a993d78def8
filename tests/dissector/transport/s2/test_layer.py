"""S2 streams: where they begin, what a gap or a damaged chunk costs, and what hostile ones may cost."""

from __future__ import annotations

import pickle
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats.transport.layer import Begins, Heads
from dissect.nats.transport.s2 import layer as s2_layer
from dissect.nats.transport.s2.codec import masked_checksum
from dissect.nats.transport.s2.layer import IDENTIFIER, LAYER, SNAPPY_IDENTIFIER, S2Transform
from dissect.nats.types import Chunk, Gap, Item, Oddity

ZEROS = b"\x80\x80\x40" + b"\x00\x00" + b"\x01\x01" + b"\x1d\x00\xf7\xff\x0e"


def stored(plain: bytes, identifier: bytes = IDENTIFIER) -> bytes:
    """A flush of the server with one stored block."""
    size = (len(plain) + 4).to_bytes(3, "little")
    return identifier + b"\x01" + size + masked_checksum(plain).to_bytes(4, "little") + plain


def chunk(offset: int, data: bytes) -> Chunk:
    return Chunk(offset, offset, "t.pcap", offset, data)


def played(*items: Item) -> tuple[S2Transform, list[Item]]:
    transform = S2Transform()
    found = [each for item in items for each in transform.feed(item)]
    return transform, found + transform.finish()


def plain(found: list[Item]) -> bytes:
    return b"".join(each.data for each in found if isinstance(each, Chunk))


def noted(found: list[Item]) -> list[tuple[str, int, str]]:
    return [(e.anomaly.value, e.length, e.text) for e in found if isinstance(e, Oddity)]


@pytest.mark.parametrize("size", [1, 5, 10])
def test_a_stream_may_begin_in_pieces_where_a_frame_should(size: int) -> None:
    assert LAYER.replaces(IDENTIFIER[:size], 1)
    assert not LAYER.replaces(b"\xff\x06\x01", 1)


def test_in_the_middle_the_whole_identifier_proves_nats() -> None:
    assert LAYER.implies_nats
    assert LAYER.resumes(IDENTIFIER + b"\x01")
    assert not LAYER.resumes(IDENTIFIER[:5])


def test_no_connection_begins_with_it() -> None:
    assert LAYER.begins(Heads(IDENTIFIER, IDENTIFIER)) is Begins.NO


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=5), st.integers(1, 40))
def test_every_cut_gives_the_same_bytes(plains: list[bytes], size: int) -> None:
    wire = b"\xfe\x02\x00\x00xx".join(map(stored, plains))
    pieces = [chunk(7 + at, wire[at : at + size]) for at in range(0, len(wire), size)]
    transform = S2Transform()
    found: list[Item] = []
    for piece in pieces:
        transform = pickle.loads(pickle.dumps(transform))
        found += transform.feed(piece)
    assert plain(found) == b"".join(plains)
    assert transform.finish() == []
    offsets = [each.offset for each in found if isinstance(each, Chunk)]
    assert offsets[:1] in ([7], [])
    assert transform.counts.span == len(wire)
    assert transform.counts.carried == len(b"".join(plains))


def test_snappy_frames_are_read_as_well() -> None:
    assert plain(played(chunk(0, stored(b"old", SNAPPY_IDENTIFIER)))[1]) == b"old"


def test_a_gap_costs_what_follows_up_to_the_next_identifier() -> None:
    wire = stored(b"first") + stored(b"second") + stored(b"third")
    cut = len(stored(b"first")) + 12
    transform, found = played(
        chunk(0, wire[:cut]), Gap(1, 1, "t.pcap", cut, 4), chunk(cut + 4, wire[cut + 4 :])
    )
    assert plain(found) == b"firstthird"
    assert [each.length for each in found if isinstance(each, Gap)] == [4]
    skipped = len(stored(b"second")) - 4 - len(IDENTIFIER)
    assert sum(length for _, length, _ in noted(found)) == skipped
    assert transform.counts.span == len(wire)
    assert (transform.counts.missing, transform.counts.skipped) == (4, skipped)


def test_a_wrong_checksum_is_reported_and_its_block_skipped() -> None:
    broken = bytearray(stored(b"second"))
    broken[-1] ^= 1
    wire = stored(b"first") + bytes(broken[10:]) + stored(b"third")
    transform, found = played(chunk(0, wire))
    assert plain(found) == b"firstthird"
    assert noted(found) == [
        ("decompression_error", 0, "the checksum is wrong"),
        ("skipped", len(broken) - 10, ""),
    ]
    assert len([each for each in found if isinstance(each, Gap)]) == 1
    assert transform.counts.span == len(wire)


@pytest.mark.parametrize(
    "wrong, text",
    [
        (b"\x02\x00\x00\x00", "reserved type 0x02"),
        (b"\x01\x03\x00\x00abc", "chunk of 3 bytes"),
        (b"\x00\xff\xff\xff", "chunk of 16777215 bytes"),
        (b"\xff\x06\x00\x00S2sTwX", "no stream identifier"),
        (b"\x00\x05\x00\x00abcd\x80", "no length"),
    ],
)
def test_what_is_no_chunk(wrong: bytes, text: str) -> None:
    _, found = played(chunk(0, stored(b"first") + wrong + stored(b"next")))
    assert plain(found) == b"firstnext"
    assert text in noted(found)[0][2]


def test_bytes_before_the_first_identifier_are_skipped() -> None:
    transform, found = played(chunk(0, b"the end of a chunk" + stored(b"first")))
    assert plain(found) == b"first"
    assert noted(found) == [("skipped", 18, "")]
    assert not [each for each in found if isinstance(each, Gap)]
    assert transform.counts.skipped == 18


def test_a_bomb_is_read_up_to_a_limit() -> None:
    """Blocks of 13 bytes that become a megabyte each."""
    million = bytes(1 << 20)
    block = masked_checksum(million).to_bytes(4, "little") + ZEROS
    wire = IDENTIFIER + (b"\x00" + len(block).to_bytes(3, "little") + block) * 200
    transform = S2Transform()
    size, notes = 0, []
    for at in range(0, len(wire), 1000):
        found = transform.feed(chunk(at, wire[at : at + 1000]))
        size += len(plain(found))
        notes += noted(found)
    assert 60 << 20 < size < 70 << 20
    assert notes == [("decompression_error", 0, "the rest is skipped: it expands too much")]
    transform.finish()
    assert transform.counts.span == len(wire)


@given(st.binary(max_size=100), st.randoms())
def test_any_bytes_are_accounted_for(data: bytes, rng: random.Random) -> None:
    wire = stored(b"a") + data + stored(b"b") + data[::-1]
    at = rng.randrange(len(wire))
    transform, found = played(chunk(0, wire[:at]), chunk(at, wire[at:]))
    assert transform.counts.span == len(wire)
    assert sum(length for name, length, _ in noted(found) if name == "skipped") == (
        transform.counts.skipped
    )


@pytest.mark.parametrize("size", [1500, 1 << 20])
def test_false_chunks_inside_of_false_chunks_are_decoded_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    decoded = 0

    def counted(block: bytes) -> int:
        nonlocal decoded
        decoded += len(block)
        return masked_checksum(block)

    monkeypatch.setattr(s2_layer, "masked_checksum", counted)
    false = IDENTIFIER + b"\x01" + (250_000).to_bytes(3, "little") + bytes(4)
    wire = false * (1_000_000 // len(false)) + bytes(250_000) + stored(b"true")
    pieces = [chunk(at, wire[at : at + size]) for at in range(0, len(wire), size)]
    transform, found = played(*pieces)
    assert plain(found) == b"true"
    assert transform.counts.span == len(wire)
    assert decoded < 5 * len(wire) + (17 << 20)
