"""Compressed files: however they are cut, damaged, or blown up."""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissect.nats.capture.decompress import (
    ALWAYS_EXPANDED,
    FORMATS,
    LARGEST_RATIO,
    Unpack,
    bounded,
    bunzip2,
    gunzip,
    unxz,
    unzstd,
)
from dissect.nats.capture.reader import BLOCK, PackedError
from dissect.nats.errors import MissingLibrary

from tests.support.requirements import missing

try:
    import zstandard
except ImportError:
    missing("zstandard", "pip install 'natsync[zstd]'")

Pack = Callable[[bytes], bytes]


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def zstd_stream(data: bytes) -> bytes:
    """As the command does it with a pipe: the size is not known before."""
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    return packer.compress(data) + packer.flush()


ALL: list[tuple[Pack, Unpack, str]] = [
    (gzip.compress, gunzip, "gzip"),
    (zstd, unzstd, "zstd"),
    (zstd_stream, unzstd, "zstd"),
    (lzma.compress, unxz, "xz"),
    (bz2.compress, bunzip2, "bzip2"),
]
every_format = pytest.mark.parametrize(("pack", "unpack", "name"), ALL)


def cut(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def unpacked(unpack: Unpack, pieces: Iterator[bytes]) -> tuple[bytes, str]:
    """The output, and the text of the error at the end."""
    found = []
    try:
        for piece in unpack(pieces):
            assert 0 < len(piece) <= BLOCK
            found.append(piece)
    except PackedError as error:
        return b"".join(found), str(error)
    return b"".join(found), ""


@every_format
def test_a_format_is_known_by_its_first_bytes(pack: Pack, unpack: Unpack, name: str) -> None:
    (known,) = [unpacker for magic, unpacker in FORMATS.items() if pack(b"abc").startswith(magic)]
    assert known == (name, unpack)


@every_format
@settings(deadline=None, max_examples=40)
@given(data=st.binary(max_size=500), size=st.integers(1, 50))
def test_several_parts_are_unpacked_however_they_are_cut(
    pack: Pack, unpack: Unpack, name: str, data: bytes, size: int
) -> None:
    packed = pack(data[:100]) + pack(b"") + pack(data[100:])
    assert unpacked(unpack, cut(packed, size)) == (data, "")


@every_format
def test_a_large_one_comes_a_block_at_a_time(pack: Pack, unpack: Unpack, name: str) -> None:
    data = bytes(range(256)) * 5000 + bytes(5 * BLOCK)
    assert unpacked(unpack, cut(pack(data), 1000)) == (data, "")


@every_format
def test_one_that_ends_early_says_so_wherever_it_does(
    pack: Pack, unpack: Unpack, name: str
) -> None:
    packed = pack(b"abc" * 100 + bytes(range(256)))
    for kept in range(1, len(packed)):
        data, fault = unpacked(unpack, iter([packed[:kept]]))
        assert fault == f"the {name} data ends early"
        assert (b"abc" * 100 + bytes(range(256))).startswith(data)


@every_format
def test_damage_keeps_what_was_before(pack: Pack, unpack: Unpack, name: str) -> None:
    found = unpacked(unpack, iter([pack(b"abc" * 100) + b"garbage"]))
    assert found == (b"abc" * 100, f"the {name} data is damaged")


@every_format
@settings(deadline=None, max_examples=60)
@given(place=st.integers(0, 10**6), value=st.integers(1, 255), rest=st.binary(max_size=50))
def test_flipped_bytes_do_no_harm(
    pack: Pack, unpack: Unpack, name: str, place: int, value: int, rest: bytes
) -> None:
    packed = bytearray(pack(b"abc" * 100 + bytes(range(256))) + rest)
    packed[place % len(packed)] ^= value
    _, fault = unpacked(unpack, cut(bytes(packed), 7))
    assert "\n" not in fault


@every_format
def test_a_bomb_takes_no_memory(pack: Pack, unpack: Unpack, name: str) -> None:
    bomb = pack(bytes(300 * BLOCK))
    tracemalloc.start()
    try:
        sizes = [len(piece) for piece in islice(unpack(iter([bomb])), 200)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(sizes) > 50 * BLOCK
    limit = 12 << 20  # xz has a window of 8 MiB
    assert peak < limit


def test_padding_after_a_member_is_no_damage() -> None:
    assert unpacked(gunzip, iter([gzip.compress(b"a", mtime=0) + bytes(9)])) == (b"a", "")
    assert unpacked(unxz, iter([lzma.compress(b"a") + bytes(8)])) == (b"a", "")


def test_zstd_frames_without_data_are_passed_over() -> None:
    skippable = b"\x5a\x2a\x4d\x18" + (3 * BLOCK).to_bytes(4, "little") + bytes(3 * BLOCK)
    packed = skippable + zstd(b"abc") + skippable
    assert unpacked(unzstd, cut(packed, 1000)) == (b"abc", "")
    assert unpacked(unzstd, iter([packed[:-1]])) == (b"abc", "the zstd data ends early")


@pytest.mark.parametrize("exponent", [18, 31])
def test_a_window_that_zstd_itself_would_refuse_is_refused(exponent: int) -> None:
    head = b"\x28\xb5\x2f\xfd\x00" + bytes([exponent << 3])  # 2 ** (10 + exponent) bytes
    packed = head + b"\x01\0\0"
    fault = "the zstd data needs more memory than zstd itself accepts"
    assert unpacked(unzstd, iter([packed])) == (b"", fault)


def test_a_large_window_is_fine() -> None:
    options = zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
    packer = zstandard.ZstdCompressor(compression_params=options).compressobj()
    packed = packer.compress(b"abc") + packer.flush()
    assert unpacked(unzstd, iter([packed])) == (b"abc", "")


def test_without_the_library_zstd_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = zstd(b"abc")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingLibrary, match=r"zstandard is not .*\[zstd\]'"):
        list(unzstd(iter([packed])))


@pytest.mark.parametrize(
    ("taken", "most", "size"),
    [
        (0, None, ALWAYS_EXPANDED),
        (100_000, None, 100_000 * LARGEST_RATIO),
        (100_000, 5 * BLOCK, 5 * BLOCK),
        (0, 1000 * BLOCK, 1000 * BLOCK),
    ],
)
def test_contents_are_bounded_by_what_was_taken_or_by_a_size(
    taken: int, most: int | None, size: int
) -> None:
    endless = iter(lambda: bytes(BLOCK), b"")
    found = 0
    with pytest.raises(PackedError, match="--max-expanded"):
        for piece in bounded(endless, lambda: taken, most):
            found += len(piece)
    assert size - BLOCK < found <= size


@pytest.mark.parametrize("most, read", [(0, b""), (2, b"ab"), (3, b"abc"), (4, b"abcd")])
def test_contents_are_read_up_to_the_bound(most: int, read: bytes) -> None:
    found = []
    with pytest.raises(PackedError, match=f"more than {most} bytes"):
        for piece in bounded(iter([b"abc", b"de"]), lambda: 1, most):
            assert piece  # an empty one would be the end
            found.append(piece)
    assert b"".join(found) == read


def test_contents_within_the_bound_are_all_there() -> None:
    assert list(bounded(iter([b"abc", b"de"]), lambda: 1, 5)) == [b"abc", b"de"]
