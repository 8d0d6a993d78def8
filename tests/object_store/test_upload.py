"""Contents in chunks, and what becomes of an upload that fails."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator

import pytest

import natsync
from natsync.jetstream import APIError, JetStream
from natsync.object_store import ObjectMeta, ObjectStore, ObjectStoreConfig, StoreNotFoundError
from natsync.object_store.upload import Content, Source, chunks_of, upload

from tests.support.servers import StartServer


class Pipe(io.RawIOBase):
    """A file that gives three bytes at a time."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, size: int = -1, /) -> bytes:
        part, self._data = self._data[: min(3, size)], self._data[min(3, size) :]
        return part


def pieces() -> Iterator[bytes]:
    yield b"01234567"
    yield b""
    yield b"89"


def small_pieces() -> Iterator[bytes]:
    """Pieces that end within chunks and where these do, in a buffer that is used again."""
    buffer = bytearray()
    for piece in (b"0", b"1", b"23456", b"7", b"89"):
        buffer[:] = piece
        yield buffer


@pytest.mark.parametrize(
    "source",
    [
        b"0123456789",
        bytearray(b"0123456789"),
        memoryview(b"0123456789"),
        memoryview(b"0-1-2-3-4-5-6-7-8-9-")[::2],
        io.BytesIO(b"0123456789"),
        Pipe(b"0123456789"),
        pieces(),
        small_pieces(),
        [b"0", b"1234", memoryview(b"56789")],
        [memoryview(b"0-1-2-")[::2], b"3456789"],
    ],
)
def test_chunks_are_full_whatever_they_come_from(source: Source) -> None:
    assert [bytes(chunk) for chunk in chunks_of(source, 4)] == [b"0123", b"4567", b"89"]


def test_an_empty_content_has_no_chunk() -> None:
    for source in (b"", io.BytesIO(), [], [b""]):
        assert list(chunks_of(source, 4)) == []
    assert Content().sha256.hex().startswith("e3b0c442")


def test_what_is_no_content_is_refused() -> None:
    for wrong in ("text", io.StringIO("text"), ["text"], 7):
        with pytest.raises(
            TypeError, match="object's content is bytes|file must be open for bytes"
        ):
            list(chunks_of(wrong, 4))  # type: ignore[arg-type]  # wrong calls


def test_a_file_that_has_nothing_yet_is_not_at_its_end() -> None:
    near, far = os.pipe()
    os.set_blocking(near, False)
    with open(near, "rb", buffering=0) as file, open(far, "wb", buffering=0) as other:
        other.write(b"012345")
        chunks = chunks_of(file, 4)  # type: ignore[arg-type]  # a raw file, as of a pipe
        assert next(chunks) == b"0123"
        with pytest.raises(BlockingIOError, match="has no bytes yet"):
            next(chunks)


@pytest.mark.server
def test_all_chunks_are_stored_in_order(js: JetStream, store: ObjectStore) -> None:
    data = os.urandom(100_001)
    content = upload(js.api, f"$O.{store.bucket}.C.test", data, 1000)
    assert (content.chunks, content.size) == (101, 100_001)
    stream = js.stream(f"OBJ_{store.bucket}")
    assert b"".join(msg.data for msg in stream.get_msgs(batch=200)) == data


def count(js: JetStream, store: ObjectStore) -> int:
    return js.stream(f"OBJ_{store.bucket}").info().state.messages


@pytest.mark.server
def test_a_source_that_fails_leaves_nothing_behind(js: JetStream, store: ObjectStore) -> None:
    store.put("o", b"old")

    def broken() -> Iterator[bytes]:
        yield bytes(300_000)
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        store.put("o", broken())
    assert count(js, store) == 2 and store.get_bytes("o") == b"old"


@pytest.mark.server
def test_a_store_that_is_full_leaves_nothing_behind(js: JetStream, name: str) -> None:
    store = js.create_object_store(ObjectStoreConfig(name, max_bytes=500_000))
    with pytest.raises(APIError, match="maximum bytes exceeded"):
        store.put("o", bytes(1_000_000))
    assert count(js, store) == 0


@pytest.mark.server
def test_a_store_that_is_gone(js: JetStream, store: ObjectStore) -> None:
    js.delete_object_store(store.bucket)
    with pytest.raises(StoreNotFoundError):
        store.put("o", bytes(10))
    with pytest.raises(StoreNotFoundError):
        store.put("o", b"")


def test_chunks_are_no_larger_than_what_the_server_takes(start_server: StartServer) -> None:
    server = start_server("max_payload: 1000\njetstream { store_dir: $FOLDER }")
    content = bytes(range(250)) * 9
    with natsync.connect(server.url) as nc:
        store = nc.jetstream().create_object_store("small")
        for meta in (ObjectMeta("default"), ObjectMeta("more", max_chunk_size=1001)):
            assert store.put(meta, content).chunks == 3
            assert store.get_bytes(meta.name) == content
        assert store.put(ObjectMeta("less", max_chunk_size=500), content).chunks == 5
