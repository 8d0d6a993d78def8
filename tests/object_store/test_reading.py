"""The content of an object as a file; what is missing or wrong is an error at its end."""

from __future__ import annotations

import io
import json
import os
import shutil
from dataclasses import replace
from hashlib import sha256

import pytest

import natsync
from natsync.jetstream import JetStream
from natsync.object_store import (
    BadObjectMetaError,
    DigestMismatchError,
    ObjectMeta,
    ObjectStore,
    StoreNotFoundError,
    TruncatedObjectError,
)
from natsync.object_store.info import digest_of
from natsync.object_store.naming import chunk_subject, meta_subject

from tests.jetstream.streams import until_no_consumer

pytestmark = pytest.mark.server

DATA = os.urandom(10_500)


@pytest.fixture
def filled(store: ObjectStore) -> ObjectStore:
    """A store with an object of eleven chunks."""
    store.put(ObjectMeta("o", max_chunk_size=1000), DATA)
    return store


def test_a_store_that_is_deleted_while_it_is_read(js: JetStream, store: ObjectStore) -> None:
    store.put("o", os.urandom(10_000_000))  # more than is requested at once
    with store.get("o") as reader:
        assert reader.read(1)
        js.delete_object_store(store.bucket)
        with pytest.raises(StoreNotFoundError):
            reader.readall()


def test_a_store_of_an_old_server_that_is_deleted(old_js: JetStream) -> None:
    js = JetStream(old_js.api.core, timeout=1)
    store = js.create_object_store("old")
    store.put("o", os.urandom(10_000_000))
    with store.get("o") as reader:
        assert reader.read(1)
        js.delete_object_store("old")
        with pytest.raises(StoreNotFoundError):
            reader.readall()
    with pytest.raises(StoreNotFoundError):
        store.info("o")


def test_it_is_a_file(filled: ObjectStore) -> None:
    with filled.get("o") as reader:
        assert reader.readable() and not reader.seekable() and not reader.writable()
        assert reader.read(0) == b"" and reader.read(10) == DATA[:10]
        assert reader.read(5000) == DATA[10:1000]  # what there is of a chunk, as a raw file does
        assert reader.readall() == DATA[1000:] and reader.read(1) == b"" == reader.read()
        assert reader.info.chunks == 11
        assert repr(reader) == "ObjectReader('o', 10500 bytes)"
    with pytest.raises(ValueError, match="closed"):
        reader.read(1)
    with filled.get("o") as reader:
        copy = io.BytesIO()
        shutil.copyfileobj(reader, copy)
        assert copy.getvalue() == DATA
    with io.BufferedReader(filled.get("o")) as buffered:
        assert buffered.read(7777) == DATA[:7777]


def test_chunks_come_as_they_were_stored(filled: ObjectStore) -> None:
    with filled.get("o") as reader:
        assert [len(chunk) for chunk in reader.chunks()] == [1000] * 10 + [500]


def test_a_lost_connection_in_the_middle(js_client: natsync.Client, store: ObjectStore) -> None:
    data = os.urandom(3_000_000)
    store.put(ObjectMeta("o", max_chunk_size=10_000), data)
    with store.get("o") as reader:
        first = reader.read(10_000)
        js_client.reconnect()
        assert js_client.wait_connected(5)
        assert first + reader.readall() == data


def test_an_object_that_is_replaced_while_it_is_read(js: JetStream, store: ObjectStore) -> None:
    """A reader asks for 500 chunks at a time: those that are purged after that never come."""
    store.put(ObjectMeta("o", max_chunk_size=100), os.urandom(100_000))
    with store.get("o") as reader:
        assert len(reader.read(100)) == 100
        store.put("o", b"new")
        with pytest.raises(TruncatedObjectError, match="of 1000 chunks"):
            reader.readall()
    assert store.get_bytes("o") == b"new"


def erase(js: JetStream, store: ObjectStore, number: int) -> None:
    """Deletes a chunk."""
    stream = js.stream(f"OBJ_{store.bucket}")
    stream.delete_msg(stream.info().state.first_seq + number)


@pytest.mark.parametrize("number, left", [(0, 11), (5, 11), (10, 11)])
def test_a_missing_chunk_is_reported(
    js: JetStream, filled: ObjectStore, number: int, left: int
) -> None:
    erase(js, filled, number)
    with filled.get("o") as reader, pytest.raises(TruncatedObjectError) as caught:
        reader.readall()
    error = caught.value
    assert (error.chunks, error.all_chunks) == (10, 11)
    assert (error.size, error.full_size) == (10_000 if number == 10 else 9_500, 10_500)


def test_no_chunk_at_all(js: JetStream, filled: ObjectStore) -> None:
    js.stream(f"OBJ_{filled.bucket}").purge(subject=f"$O.{filled.bucket}.C.>")
    with pytest.raises(TruncatedObjectError, match="0 of 11 chunks"):
        filled.get_bytes("o")


def test_a_chunk_that_was_replaced_is_reported(js: JetStream, filled: ObjectStore) -> None:
    """The last chunk is not delivered: who reads to the end has what was put."""
    erase(js, filled, 10)
    js.publish(chunk_subject(filled.bucket, filled.info("o").nuid), b"x" * 500)
    delivered = b""
    with filled.get("o") as reader, pytest.raises(DigestMismatchError):
        for chunk in reader.chunks():
            delivered += chunk
    assert delivered == DATA[:10_000]


def test_a_reader_that_has_failed_is_not_at_the_end(js: JetStream, filled: ObjectStore) -> None:
    """A program that tries again must not take the part that it has for the whole."""
    erase(js, filled, 10)
    with filled.get("o") as reader:
        for read in (reader.readall, reader.readall, lambda: reader.read(1)):
            with pytest.raises(TruncatedObjectError, match="10 of 11 chunks"):
                read()


def describe(js: JetStream, store: ObjectStore, **changes: object) -> None:
    """Changes the stored description of the object."""
    info = store.info("o").to_json()
    subject = meta_subject(store.bucket, "o")
    js.publish(subject, json.dumps({**info, **changes}).encode(), rollup="sub")


@pytest.mark.parametrize(
    "changes, error",
    [
        ({"digest": "SHA-256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="}, DigestMismatchError),
        ({"digest": "MD5=AAAA"}, BadObjectMetaError),
        ({"size": 10_499}, DigestMismatchError),
        ({"size": 10_501}, TruncatedObjectError),
        ({"chunks": 12}, TruncatedObjectError),
        ({"nuid": ""}, BadObjectMetaError),
    ],
)
def test_a_wrong_description_is_reported(
    js: JetStream, filled: ObjectStore, changes: dict[str, object], error: type[natsync.Error]
) -> None:
    describe(js, filled, **changes)
    with pytest.raises(error):
        filled.get_bytes("o")


def test_without_a_digest_the_size_is_checked(js: JetStream, filled: ObjectStore) -> None:
    describe(js, filled, digest="")
    assert filled.get_bytes("o") == DATA


def test_an_empty_chunk_is_not_the_end(js: JetStream, filled: ObjectStore) -> None:
    for chunk in (b"", b"tail"):
        js.publish(chunk_subject(filled.bucket, filled.info("o").nuid), chunk)
    whole = DATA + b"tail"
    digest = digest_of(sha256(whole).digest())
    describe(js, filled, chunks=13, size=len(whole), digest=digest)
    assert filled.get_bytes("o") == whole
    with filled.get("o") as reader:
        assert b"".join(iter(lambda: reader.read(900), b"")) == whole


def test_closing_in_the_middle_leaves_no_consumer(js: JetStream, filled: ObjectStore) -> None:
    filled.get("o").close()
    with filled.get("o") as reader:
        reader.read(1)
    until_no_consumer(js.stream(f"OBJ_{filled.bucket}"))
    assert replace(filled.info("o"), mtime=None).name == "o"
