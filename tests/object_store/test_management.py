"""Stores created, changed, deleted and listed."""

from __future__ import annotations

import pytest

from natsync.jetstream import JetStream, StreamConfig, StreamSource, SubjectTransform
from natsync.object_store import (
    InvalidStoreNameError,
    ObjectStoreConfig,
    StoreExistsError,
    StoreNotFoundError,
)

from tests.support.waiting import eventually

pytestmark = pytest.mark.server


def test_a_store_from_creation_to_deletion(js: JetStream, name: str) -> None:
    with pytest.raises(StoreNotFoundError, match=f"object store {name} not found"):
        js.object_store(name)
    with pytest.raises(StoreNotFoundError):
        js.update_object_store(ObjectStoreConfig(name))
    with pytest.raises(StoreNotFoundError):
        js.delete_object_store(name)
    store = js.create_object_store(name)
    store.put("o", b"1")
    assert js.create_object_store(name).get_bytes("o") == b"1"
    with pytest.raises(StoreExistsError):
        js.create_object_store(ObjectStoreConfig(name, ttl=60))
    assert js.update_object_store(ObjectStoreConfig(name, ttl=60)).status().config.ttl == 60
    more = ObjectStoreConfig(name, description="more")
    assert js.create_or_update_object_store(more).status().config == more
    assert js.object_store(name).get_bytes("o") == b"1"
    js.delete_object_store(name)
    assert js.create_or_update_object_store(name).bucket == name
    with pytest.raises(InvalidStoreNameError):
        js.create_object_store("a.b")


def test_stores_are_listed(js: JetStream, name: str) -> None:
    js.create_object_store(name)
    js.create_key_value(name)
    others = [
        StreamConfig(f"OBJ_{name}-named", subjects=[f"{name}.>"]),
        StreamConfig(f"{name}-bare", subjects=[f"$O.{name}-bare.C.>"]),
    ]
    for config in others:
        js.create_stream(config)
    assert [found for found in js.object_store_names() if name in found] == [name]
    found = {status.bucket: status for status in js.object_stores()}
    assert found[name].size == 0 and found[name].backing_store == "JetStream"
    js.delete_key_value(name)
    for config in others:
        js.delete_stream(config.name)


def test_a_mirror_of_a_store(js: JetStream, name: str) -> None:
    """As others make one: a stream that renames the subjects (nats.go: TestObjectStoreMirror)."""
    store = js.create_object_store(name)
    moved = SubjectTransform(f"$O.{name}.>", f"$O.{name}-m.>")
    source = StreamSource(f"OBJ_{name}", subject_transforms=[moved])
    js.create_stream(StreamConfig(f"OBJ_{name}-m", mirror=source, allow_rollup_hdrs=True))
    store.put("a", b"abc")
    mirror = js.object_store(f"{name}-m")
    eventually(lambda: [found.name for found in mirror.list()] == ["a"])
    assert mirror.get_bytes("a") == b"abc"
    with mirror.watch() as watch:
        assert [info.name for info in watch.initial(10)] == ["a"]
