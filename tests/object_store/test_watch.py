"""Watching a store: the objects that are there, the None, and what changes."""

from __future__ import annotations

import pytest

import natsync
from natsync.jetstream import JetStream
from natsync.object_store import (
    BadObjectMetaError,
    ObjectExistsError,
    ObjectMeta,
    ObjectStore,
    StoreNotFoundError,
)
from natsync.object_store.naming import meta_subject

from tests.jetstream.streams import publish_block
from tests.support.servers import NatsServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.server


def test_objects_then_none_then_changes(store: ObjectStore) -> None:
    store.put("a", b"1")
    store.put("b", b"2")
    store.delete("a")
    with store.watch() as watcher:
        assert repr(watcher) == f"ObjectWatcher(store {store.bucket!r})"
        found = [watcher.next(5) for _ in range(3)]
        assert [info and (info.name, info.deleted) for info in found] == [
            ("b", False),
            ("a", True),
            None,
        ]
        stored = store.put("c", b"345")
        info = watcher.next(5)
        assert info and (info.name, info.size, info.digest) == ("c", 3, stored.digest)
        assert info.mtime and info.revision == stored.revision
        store.delete("b")
        gone = watcher.next(5)
        assert gone and gone.deleted and gone.size == 0


def test_an_empty_store_gives_none_at_once(store: ObjectStore) -> None:
    with store.watch() as watcher:
        assert watcher.next(5) is None


def test_updates_only_and_ignored_deletes(store: ObjectStore) -> None:
    store.put("a", b"1")
    with store.watch(updates_only=True, ignore_deletes=True) as watcher:
        assert watcher.next(5) is None
        store.delete("a")
        store.put("b", b"2")
        info = watcher.next(5)
        assert info and info.name == "b"
    with store.watch(include_history=True) as watcher:
        assert [info.name for info in watcher.initial(5)] == ["a", "b"]
    with pytest.raises(natsync.OptionError, match="exclude"):
        store.watch(include_history=True, updates_only=True)


def test_what_describes_no_object_is_an_error_and_the_watch_goes_on(
    js: JetStream, store: ObjectStore
) -> None:
    store.put("a", b"1")
    js.publish(meta_subject(store.bucket, "bad"), b"no JSON")
    store.put("b", b"2")
    with store.watch() as watcher:
        first = watcher.next(5)
        with pytest.raises(BadObjectMetaError, match="object 'bad'"):
            watcher.next(5)
        assert first and [info.name for info in watcher.initial(5)] == ["b"]


def test_a_store_that_is_gone(js: JetStream, store: ObjectStore) -> None:
    js.delete_object_store(store.bucket)
    with pytest.raises(StoreNotFoundError):
        store.watch()


def test_a_store_that_is_deleted_meanwhile(js: JetStream, store: ObjectStore) -> None:
    store.put("a", b"1")
    with store.watch() as watcher:
        assert [info.name for info in watcher.initial(5)] == ["a"]  # the server has its request
        js.delete_object_store(store.bucket)
        with pytest.raises(StoreNotFoundError):
            watcher.next(5)


def test_a_list_leaves_out_what_describes_no_object_and_a_store_is_repaired(
    js: JetStream, js_server: NatsServer, store: ObjectStore, caplog: pytest.LogCaptureFixture
) -> None:
    stored = store.put("a", b"1")
    for name in ("b", "c", "d", "e"):
        js.publish(meta_subject(store.bucket, name), b"no JSON")
    assert [info.name for info in store.list()] == ["a"]
    assert "object 'b'" in eventually(lambda: caplog.records)[0].getMessage()
    with pytest.raises(BadObjectMetaError, match="object 'b'"):
        store.get("b")
    with pytest.raises(BadObjectMetaError, match="object 'b'"):
        store.update_meta("b", ObjectMeta("b"))
    assert store.delete("b").deleted
    bad = b"NATS/1.0\r\nno colon\r\n\r\n"
    publish_block(js_server, meta_subject(store.bucket, "c"), bad)
    store.put("c", b"2")
    assert store.get_bytes("c") == b"2"
    store.delete("d")
    store.add_link("d", stored)
    assert store.get_bytes("d") == b"1"
    with pytest.raises(ObjectExistsError):
        store.add_link("e", stored)
    store.delete("e")
    assert [info.name for info in store.list()] == ["a", "c", "d"]
