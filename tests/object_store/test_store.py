"""A store: objects put, got, described, renamed, linked to and deleted (ADR-20)."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

import natsync
from natsync import RequestTimeoutError
from natsync.jetstream import JetStream, NoStreamResponseError, StreamSealedError
from natsync.object_store import (
    CannotGetBucketLinkError,
    DigestMismatchError,
    InvalidObjectNameError,
    LinkNotAllowedError,
    ObjectExistsError,
    ObjectInfo,
    ObjectMeta,
    ObjectNotFoundError,
    ObjectStore,
    StoreNotFoundError,
    UpdateMetaDeletedError,
)
from natsync.object_store.info import digest_of
from natsync.object_store.naming import chunk_subject, meta_subject

from tests.support.jetstream import JETSTREAM
from tests.support.proxy import Proxy
from tests.support.servers import NatsServer, StartServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.server


def messages(js: JetStream, store: ObjectStore) -> int:
    return js.stream(f"OBJ_{store.bucket}").info().state.messages


@pytest.mark.parametrize("size", [0, 1, 131_072, 131_073, 1_000_000])
def test_contents_of_any_size(store: ObjectStore, size: int) -> None:
    data = os.urandom(size)
    info = store.put("größe / a.b*", data)
    assert (info.size, info.chunks) == (size, -(-size // 131_072))
    assert info.digest == digest_of(hashlib.sha256(data).digest())
    assert info.mtime and abs(info.mtime - datetime.now(timezone.utc)) < timedelta(minutes=1)
    assert store.get_bytes("größe / a.b*") == data
    found = store.info("größe / a.b*")
    assert (found.size, found.chunks, found.digest, found.nuid, found.revision) == (
        info.size,
        info.chunks,
        info.digest,
        info.nuid,
        info.revision,
    )


def test_what_a_user_says_about_an_object_is_kept(store: ObjectStore) -> None:
    meta = ObjectMeta(
        "o",
        description="text",
        headers={"A": ["1", "2"]},
        metadata={"k": "v"},
        max_chunk_size=10,
    )
    store.put(meta, io.BytesIO(b"x" * 25))
    info = store.info("o")
    assert (info.description, info.headers, info.metadata) == (
        "text",
        {"A": ("1", "2")},
        {"k": "v"},
    )
    assert (info.max_chunk_size, info.chunks) == (10, 3)


def test_files_are_stored_and_replaced_whole(store: ObjectStore, tmp_path: Path) -> None:
    source, target = tmp_path / "source.bin", tmp_path / "target.bin"
    source.write_bytes(os.urandom(300_000))
    assert store.put_file(source).name == "source.bin"
    assert store.put_file(str(source), ObjectMeta("other", description="d")).description == "d"
    target.write_bytes(b"old")
    assert store.get_file("other", target).size == 300_000
    assert target.read_bytes() == source.read_bytes()
    with pytest.raises(FileNotFoundError):
        store.put_file(tmp_path / "missing")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source.bin", "target.bin"]


def test_a_file_that_would_be_wrong_does_not_appear(
    js: JetStream, store: ObjectStore, tmp_path: Path
) -> None:
    info = store.put(ObjectMeta("o", max_chunk_size=10), b"x" * 20)
    stream = js.stream(f"OBJ_{store.bucket}")
    stream.delete_msg(1)
    js.publish(chunk_subject(store.bucket, info.nuid), b"y" * 10)
    with pytest.raises(DigestMismatchError):
        store.get_file("o", tmp_path / "o")
    assert list(tmp_path.iterdir()) == []


def test_an_object_that_is_put_again_is_replaced(js: JetStream, store: ObjectStore) -> None:
    first = store.put("o", bytes(300_000))
    reader = store.get("o")
    second = store.put("o", b"new")
    assert first.nuid != second.nuid and store.get_bytes("o") == b"new"
    assert messages(js, store) == 2  # one chunk, one description
    reader.close()


def test_uploads_at_the_same_time_leave_one_object_and_no_chunk_too_many(
    js: JetStream, store: ObjectStore
) -> None:
    with ThreadPoolExecutor(4) as pool:
        infos = list(pool.map(lambda number: store.put("o", b"%d" % number * 10), range(8)))
    assert store.info("o").nuid in {info.nuid for info in infos}
    assert len(store.get_bytes("o")) == 10 and messages(js, store) == 2


def test_a_deleted_object_is_gone_but_its_info(js: JetStream, store: ObjectStore) -> None:
    store.put("o", bytes(300_000))
    gone = store.delete("o")
    assert (gone.deleted, gone.size, gone.chunks, gone.digest) == (True, 0, 0, "")
    assert messages(js, store) == 1
    for call in (store.get, store.get_bytes, store.info):
        with pytest.raises(ObjectNotFoundError, match="object 'o' in store"):
            call("o")
    assert store.info("o", show_deleted=True).deleted
    assert store.delete("o").deleted  # again is not an error
    with pytest.raises(ObjectNotFoundError):
        store.delete("never")
    store.put("o", b"back")
    assert store.get_bytes("o") == b"back"


def test_a_list_has_deleted_objects_if_asked(store: ObjectStore) -> None:
    assert list(store.list()) == []
    for name in "abc":
        store.put(name, name.encode())
    store.delete("b")
    assert [info.name for info in store.list()] == ["a", "c"]
    assert [info.name for info in store.list(show_deleted=True)] == ["a", "c", "b"]


def test_update_meta_keeps_the_content(js: JetStream, store: ObjectStore) -> None:
    before = store.put("o", b"content")
    info = store.update_meta("o", ObjectMeta("o", description="d", headers={"A": ["1"]}))
    assert (info.description, info.nuid, info.size) == ("d", before.nuid, 7)
    renamed = store.update_meta("o", ObjectMeta("new", metadata={"k": "v"}))
    assert (renamed.name, renamed.description, renamed.metadata) == ("new", "", {"k": "v"})
    assert store.get_bytes("new") == b"content"
    with pytest.raises(ObjectNotFoundError):
        store.info("o", show_deleted=True)
    assert messages(js, store) == 2
    store.put("taken", b"")
    with pytest.raises(ObjectExistsError, match="object 'taken'"):
        store.update_meta("new", ObjectMeta("taken"))
    store.delete("taken")
    assert store.update_meta("new", ObjectMeta("taken")).name == "taken"
    store.delete("taken")
    with pytest.raises(UpdateMetaDeletedError):
        store.update_meta("taken", ObjectMeta("other"))
    with pytest.raises(ObjectNotFoundError):
        store.update_meta("never", ObjectMeta("other"))


def test_links_lead_to_objects_and_stores(js: JetStream, store: ObjectStore, name: str) -> None:
    other = js.create_object_store(name + "-other")
    target = other.put("o", b"content")
    link = store.add_link("link", target)
    assert link.link and (link.link.bucket, link.link.name) == (other.bucket, "o")
    assert store.get_bytes("link") == b"content"
    assert store.info("link").link == link.link and store.info("link").size == 0
    with store.get("link") as reader:
        assert reader.info.name == "o"
    own = store.put("own", b"1")
    store.add_link("link", own)  # over another link
    assert store.get_bytes("link") == b"1"
    with pytest.raises(ObjectExistsError):
        store.add_link("own", target)
    with pytest.raises(LinkNotAllowedError, match="it is a link itself"):
        store.add_link("second", store.info("link"))
    store.delete("own")
    with pytest.raises(LinkNotAllowedError, match="it was deleted"):
        store.add_link("second", store.info("own", show_deleted=True))
    store.add_link("own", target)  # over a deleted object
    with pytest.raises(LinkNotAllowedError, match="object 'own' .* it is a link itself"):
        store.get("link")  # since it was made
    store.update_meta("link", ObjectMeta("renamed", description="d"))
    assert store.info("renamed").link
    assert store.delete("renamed").deleted


def test_links_to_whole_stores(js: JetStream, store: ObjectStore, name: str) -> None:
    other = js.create_object_store(name + "-other")
    link = store.add_bucket_link("all", other)
    assert link.link and (link.link.bucket, link.link.name) == (other.bucket, "")
    with pytest.raises(CannotGetBucketLinkError, match=f"link to the store {other.bucket}"):
        store.get("all")
    gone = store.add_link("gone", other.put("o", b""))
    js.delete_object_store(other.bucket)
    with pytest.raises(StoreNotFoundError):
        store.get(gone.name)


def test_a_sealed_store_takes_nothing(store: ObjectStore) -> None:
    store.put("o", b"1")
    store.seal()
    assert store.status().sealed
    for call in (lambda: store.put("p", b"2"), lambda: store.delete("o")):
        with pytest.raises(StreamSealedError):
            call()
    assert store.get_bytes("o") == b"1"


def test_names_are_refused_at_the_call(store: ObjectStore) -> None:
    for call in (
        lambda: store.put("", b""),
        lambda: store.get(""),
        lambda: store.info(""),
        lambda: store.add_bucket_link("", store),
    ):
        with pytest.raises(InvalidObjectNameError):
            call()
    assert repr(store) == f"ObjectStore({store.bucket!r})"


def test_a_server_of_2_9(old_js: JetStream, name: str) -> None:
    store = old_js.create_object_store(name)
    data = os.urandom(300_000)
    store.put("o", data)
    store.add_link("link", store.info("o"))
    assert store.get_bytes("link") == data
    store.put("o", b"new")
    assert store.get_bytes("o") == b"new" and [info.name for info in store.list()] == ["link", "o"]
    old_js.delete_object_store(name)
    with pytest.raises(StoreNotFoundError):
        store.status()


def test_a_user_who_may_not_write_is_refused_at_once(start_server: StartServer) -> None:
    user = '{ user: u, password: p, permissions: { publish: { deny: "$O.>" } } }'
    server = start_server(JETSTREAM + f"authorization {{ users: [ {user} ] }}\n")
    with natsync.connect(server.url, user="u", password="p") as nc:
        store = nc.jetstream(timeout=30).create_object_store("s")
        for data in (b"", b"content", bytes(1_000_000)):
            with pytest.raises(natsync.PermissionsViolationError, match=r"\$O\.s\."):
                store.put("o", data)
        assert list(store.list()) == []


@pytest.fixture
def lossy(
    js: JetStream, js_server: NatsServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Proxy, ObjectStore]]:
    """A store behind a proxy that swallows the acknowledgement of a description, and all that follows."""
    js.create_object_store(name).put("o", b"old")
    write = ObjectStore._write

    def write_and_hear_nothing(store: ObjectStore, info: ObjectInfo, before: int) -> ObjectInfo:
        proxy.link().to_client.swallow()
        return write(store, info, before)

    with Proxy(js_server.host, js_server.port) as proxy:
        with natsync.connect(proxy.url, reconnect_wait=0.01) as nc:
            store = nc.jetstream(timeout=1.0).object_store(name)
            monkeypatch.setattr(ObjectStore, "_write", write_and_hear_nothing)
            yield proxy, store
            proxy.cut()


def test_a_description_whose_acknowledgement_is_lost_with_the_connection(
    js_client: natsync.Client, js: JetStream, name: str, lossy: tuple[Proxy, ObjectStore]
) -> None:
    proxy, store = lossy
    cuts = [proxy.cut]  # only the first one: it is published again
    subject = meta_subject(name, "o")
    with js_client.subscribe(subject, handler=lambda msg: cuts and cuts.pop()()):
        js_client.flush()
        info = store.put("o", b"new")
    stored = js.object_store(name)
    assert stored.info("o") == replace(info, mtime=stored.info("o").mtime)
    assert stored.get_bytes("o") == b"new" and messages(js, stored) == 2


def test_a_description_that_is_never_acknowledged(
    js: JetStream, name: str, lossy: tuple[Proxy, ObjectStore]
) -> None:
    """It is stored, so that the chunks of the object must stay."""
    _, store = lossy
    with pytest.raises(RequestTimeoutError):
        store.put("o", b"new")
    assert js.object_store(name).get_bytes("o") == b"new"


def test_an_upload_that_a_stream_without_a_leader_interrupts(
    js: JetStream, store: ObjectStore
) -> None:
    """Nobody takes chunks for a moment, but the store is there: so says the error; nothing is left."""

    def pieces() -> Iterator[bytes]:
        yield bytes(131_072)
        eventually(lambda: messages(js, store) == 1)
        stream = f"OBJ_{store.bucket}"
        config = js.stream(stream).info().config
        js.update_stream(replace(config, subjects=[f"$O.{store.bucket}.M.>"]))
        yield bytes(131_072)
        yield bytes(131_072)

    with pytest.raises(NoStreamResponseError, match="no stream takes messages"):
        store.put("o", pieces())
    assert messages(js, store) == 0


def test_changes_are_made_to_the_latest_description(
    js_client: natsync.Client, js: JetStream, store: ObjectStore
) -> None:
    """The servers that answer direct gets may be behind the leader of the stream."""
    target = store.put("o", b"1")
    with js_client.subscribe(f"$JS.API.DIRECT.GET.OBJ_{store.bucket}.>") as asked:
        store.update_meta("o", ObjectMeta("o", description="d"))
        store.update_meta("o", ObjectMeta("new"))
        store.add_link("link", target)
        store.delete("new")
        js_client.flush()
        assert asked.pending_msgs == 0


@pytest.mark.parametrize("is_deleted", [False, True], ids=["replaced", "deleted"])
def test_an_object_that_a_server_behind_the_leader_describes(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, is_deleted: bool
) -> None:
    stale = store.put("o", b"1")
    if is_deleted:
        store.delete("o")
    else:
        store.put("o", b"2")
    last = ObjectStore._last

    def behind(self: ObjectStore, name: str, *, latest: bool = False) -> ObjectInfo | None:
        return last(self, name, latest=True) if latest else stale

    monkeypatch.setattr(ObjectStore, "_last", behind)
    if is_deleted:
        with pytest.raises(ObjectNotFoundError):
            store.get("o")
    else:
        assert store.get_bytes("o") == b"2"


def test_a_rename_keeps_what_is_put_under_the_old_name_meanwhile(
    js: JetStream, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("o", b"1")
    write = ObjectStore._write

    def write_and_put(self: ObjectStore, info: ObjectInfo, before: int) -> ObjectInfo:
        monkeypatch.undo()
        stored = write(self, info, before)
        js.object_store(store.bucket).put("o", b"2")
        return stored

    monkeypatch.setattr(ObjectStore, "_write", write_and_put)
    store.update_meta("o", ObjectMeta("new"))
    assert store.get_bytes("o") == b"2"


def test_an_argument_of_another_type_is_named(store: ObjectStore) -> None:
    store.put("o", b"1")
    with pytest.raises(TypeError, match="meta must be ObjectMeta, not int"):
        store.put(3, b"1")  # type: ignore[arg-type]  # a wrong call
    with pytest.raises(TypeError, match="meta must be ObjectMeta, not str"):
        store.update_meta("o", "p")  # type: ignore[arg-type]  # a wrong call
    with pytest.raises(TypeError, match="target must be ObjectInfo, not str"):
        store.add_link("link", "o")  # type: ignore[arg-type]  # a wrong call
    with pytest.raises(TypeError, match="target must be ObjectStore, not str"):
        store.add_bucket_link("link", "s")  # type: ignore[arg-type]  # a wrong call
    assert [info.name for info in store.list()] == ["o"]


def test_a_number_is_no_path(store: ObjectStore) -> None:
    store.put("o", b"1")
    reading, writing = os.pipe()
    os.close(writing)
    with pytest.raises(TypeError, match="PathLike"):
        store.put_file(reading)  # type: ignore[arg-type]  # a wrong call
    with pytest.raises(TypeError, match="PathLike"):
        store.get_file("o", reading)  # type: ignore[arg-type]  # a wrong call
    os.close(reading)  # no call has closed it
