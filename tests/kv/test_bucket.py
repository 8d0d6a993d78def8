"""A bucket: values written, read, conditionally replaced and removed (ADR-8)."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import natsync
from natsync.jetstream import (
    JetStream,
    MessageTTLError,
    NoStreamResponseError,
    RePublish,
    StoreFailedError,
)
from natsync.jetstream.api import API
from natsync.jetstream.stream import purge_stream
from natsync.kv import (
    BucketNotFoundError,
    InvalidKeyError,
    KeyDeletedError,
    KeyExistsError,
    KeyNotFoundError,
    KeyValue,
    KeyValueConfig,
    Operation,
    WrongLastRevisionError,
)
from natsync.kv import bucket as bucket_module

from tests.support.jetstream import JETSTREAM
from tests.support.servers import StartServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.server


def test_values_are_put_and_got_with_their_revisions(kv: KeyValue) -> None:
    assert kv.put("a.b", b"1") == 1
    assert kv.put("a.b", bytearray(b"2")) == 2
    entry = kv.get("a.b")
    assert (entry.bucket, entry.key, entry.value) == (kv.bucket, "a.b", b"2")
    assert (entry.revision, entry.delta, entry.operation) == (2, 0, Operation.PUT)
    assert kv.get("a.b", revision=1).value == b"1"
    assert kv.put("empty", b"") == 3 and kv.get("empty").value == b""
    with pytest.raises(KeyNotFoundError, match="key a.c not found"):
        kv.get("a.c")
    with pytest.raises(KeyNotFoundError, match="key empty has no revision 1 in bucket"):
        kv.get("empty", revision=1)  # another key's
    for revision in (0, 99):
        with pytest.raises(KeyNotFoundError):
            kv.get("empty", revision=revision)


def test_create_is_for_keys_without_a_value(kv: KeyValue) -> None:
    assert kv.create("a", b"1") == 1
    with pytest.raises(KeyExistsError, match="key a exists"):
        kv.create("a", b"2")
    kv.delete("a")
    assert kv.create("a", b"3") == 3
    kv.purge("a")
    assert kv.create("a", b"4") == 5
    assert kv.get("a").value == b"4"


def test_update_is_for_the_last_revision(kv: KeyValue) -> None:
    assert kv.update("a", b"1", 0) == 1
    assert kv.update("a", b"2", 1) == 2
    with pytest.raises(WrongLastRevisionError) as caught:
        kv.update("a", b"3", 1)
    assert (caught.value.expected, caught.value.actual, caught.value.key) == (1, 2, "a")
    with pytest.raises(WrongLastRevisionError):
        kv.update("a", b"3", 0)
    with pytest.raises(natsync.OptionError, match="revision: must be from 0 to"):
        kv.get("a", revision=2**64)
    with pytest.raises(TypeError, match="revision must be int"):
        kv.update("a", b"3", "2")  # type: ignore[arg-type]  # a wrong call
    assert kv.get("a").value == b"2"


def test_delete_keeps_the_history_and_purge_removes_it(kv: KeyValue) -> None:
    kv.put("a", b"1")
    kv.put("a", b"2")
    with pytest.raises(WrongLastRevisionError):
        kv.delete("a", revision=1)
    kv.delete("a", revision=2)
    with pytest.raises(KeyDeletedError) as caught:
        kv.get("a")
    assert (caught.value.operation, caught.value.revision) == ("DEL", 3)
    with pytest.raises(KeyDeletedError):
        kv.get("a", revision=3)
    assert kv.get("a", revision=1).value == b"1"
    with pytest.raises(WrongLastRevisionError):
        kv.purge("a", revision=2)
    kv.purge("a", revision=3)
    with pytest.raises(KeyDeletedError, match="PURGE at revision 4"):
        kv.get("a")
    assert [entry.operation for entry in kv.history("a")] == [Operation.PURGE]
    kv.delete("nothing")  # whether it was there is not asked


def test_history_is_kept_as_long_as_configured(js: JetStream, bucket: str) -> None:
    kv = js.create_key_value(KeyValueConfig(bucket, history=3))
    for number in range(5):
        kv.put("a", b"%d" % number)
    kv.put("b", b"x")
    found = kv.history("a")
    assert [(entry.value, entry.revision, entry.delta) for entry in found] == [
        (b"2", 3, 2),
        (b"3", 4, 1),
        (b"4", 5, 0),
    ]
    with pytest.raises(KeyNotFoundError):
        kv.history("c")


def test_keys_are_those_with_a_value(kv: KeyValue) -> None:
    assert list(kv.keys()) == []
    for key in ("a", "b.x", "b.y", "c.x.z", "gone", "purged"):
        kv.put(key, b"1")
    kv.put("a", b"2")
    kv.delete("gone")
    kv.purge("purged")
    assert sorted(kv.keys()) == ["a", "b.x", "b.y", "c.x.z"]
    assert sorted(kv.keys("b.*")) == ["b.x", "b.y"]
    assert sorted(kv.keys("b.*", "c.>", "c.>")) == ["b.x", "b.y", "c.x.z"]
    assert list(kv.keys("nothing.>")) == []
    with pytest.raises(InvalidKeyError):
        kv.keys("a..b")
    first = kv.keys()
    assert next(first)
    del first  # whoever stops in the middle leaves nothing open


def test_purge_deletes_removes_what_is_left_of_deleted_keys(js: JetStream, kv: KeyValue) -> None:
    for key in ("a", "b", "c"):
        kv.put(key, b"1")
        kv.put(key, b"2")
    kv.delete("a")
    kv.purge("b")
    assert kv.purge_deletes() == 2  # just deleted: what tells of it stays, its history goes
    assert [entry.operation for entry in kv.history("a")] == [Operation.DELETE]
    assert kv.purge_deletes(older_than=-1) == 2
    for key in ("a", "b"):
        with pytest.raises(KeyNotFoundError):
            kv.history(key)
    assert len(kv.history("c")) == 2
    assert kv.purge_deletes(older_than=0) == 0
    with pytest.raises(natsync.OptionError, match="older_than"):
        kv.purge_deletes(older_than=float("inf"))


@pytest.mark.parametrize("older_than", [-1, 60])
def test_purge_deletes_keeps_values_that_are_put_meanwhile(
    js: JetStream, kv: KeyValue, older_than: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    kv.put("a", b"1")
    kv.delete("a")

    def put_first(api: API, stream: str, **options: Any) -> int:
        kv.put("a", b"2")
        return purge_stream(api, stream, **options)

    monkeypatch.setattr(bucket_module, "purge_stream", put_first)
    assert kv.purge_deletes(older_than=older_than) == 1
    assert kv.get("a").value == b"2"
    assert kv.history("a")[0].revision == (3 if older_than < 0 else 2)


def test_purge_deletes_keeps_what_tells_of_the_latest_deletes(js: JetStream, kv: KeyValue) -> None:
    for key in ("old", "new"):
        kv.put(key, b"1")
    kv.delete("old")
    deleted = kv.history("old")[-1].created
    kv.delete("new")
    eventually(lambda: datetime.now(timezone.utc) - deleted > timedelta(seconds=4))
    kv.put("new", b"2")
    kv.delete("new")
    assert kv.purge_deletes(older_than=3.5) == 2
    with pytest.raises(KeyNotFoundError):
        kv.history("old")
    assert [entry.operation for entry in kv.history("new")] == [Operation.DELETE]


def test_keys_come_once_each_while_they_are_written(js: JetStream, kv: KeyValue) -> None:
    keys = sorted(f"k{number}" for number in range(10))
    for key in keys:
        kv.put(key, b"")
    over = threading.Event()

    def write() -> None:
        while not over.is_set():
            for key in keys[:5]:
                kv.put(key, b"again")

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            assert all(sorted(kv.keys()) == keys for _ in range(10))
        finally:
            over.set()
        writing.result()


def test_values_are_republished(js: JetStream, js_client: natsync.Client, bucket: str) -> None:
    republish = RePublish(">", f"{bucket}.copy.>", headers_only=True)
    kv = js.create_key_value(KeyValueConfig(bucket, republish=republish))
    with js_client.subscribe(f"{bucket}.copy.>") as copies:
        kv.put("a", b"1234")
        copy = copies.next_msg(5)
    assert (copy.subject, copy.data) == (f"{bucket}.copy.$KV.{bucket}.a", b"")
    expected = {"Nats-Stream": f"KV_{bucket}", "Nats-Sequence": "1", "Nats-Msg-Size": "4"}
    assert expected.items() <= dict(copy.headers.items()).items()


def test_status_tells_configuration_and_size(js: JetStream, bucket: str) -> None:
    config = KeyValueConfig(
        bucket, history=3, ttl=60, limit_marker_ttl=5, compression=True, metadata={"owner": "me"}
    )
    kv = js.create_key_value(config)
    kv.put("a", b"1")
    kv.put("a", b"2")
    status = kv.status()
    assert (status.bucket, status.values, status.history) == (bucket, 2, 3)
    assert (status.ttl, status.limit_marker_ttl, status.compressed) == (60, 5, True)
    assert status.bytes > 0 and status.backing_store == "JetStream"
    assert status.info.config.name == f"KV_{bucket}" and status.config == config
    assert js.update_key_value(replace(status.config, history=5)).status().history == 5
    js.delete_key_value(bucket)
    with pytest.raises(BucketNotFoundError):
        kv.status()


@pytest.mark.parametrize("key", ["", ".a", "a.", "a..b", "a b", "a.*", ">", "_kv", "ä"])
def test_illegal_keys_are_refused_by_every_call(kv: KeyValue, key: str) -> None:
    for call in (
        lambda: kv.get(key),
        lambda: kv.put(key, b""),
        lambda: kv.create(key, b""),
        lambda: kv.update(key, b"", 1),
        lambda: kv.delete(key),
        lambda: kv.purge(key),
        lambda: kv.history(key),
    ):
        with pytest.raises(InvalidKeyError):
            call()
    assert kv.status().values == 0


def test_a_time_to_live_needs_limit_markers(js: JetStream, bucket: str) -> None:
    kv = js.create_key_value(bucket)
    with pytest.raises(MessageTTLError):
        kv.create("a", b"1", ttl=5)
    with pytest.raises(natsync.OptionError, match="ttl"):
        kv.create("a", b"1", ttl=0.5)


def test_a_key_expires_and_a_marker_tells_of_it(js: JetStream, bucket: str) -> None:
    kv = js.create_key_value(KeyValueConfig(bucket, limit_marker_ttl=1, history=2))
    kv.put("forever", b"1")
    with kv.watch("short") as watcher:
        assert watcher.next(5) is None
        kv.create("short", b"1", ttl=1)
        put, gone = watcher.next(5), watcher.next(10)
        assert put and (put.operation, put.value) == (Operation.PUT, b"1")
        assert gone and (gone.operation, gone.value) == (Operation.PURGE, b"")
    with pytest.raises(KeyNotFoundError):  # deleted; or the marker has expired, too
        kv.get("short")
    assert list(kv.keys()) == ["forever"]
    assert kv.create("short", b"2", ttl=60) > gone.revision
    kv.purge("short", ttl=60)
    assert kv.history("short")[0].operation is Operation.PURGE


def test_every_value_of_a_bucket_expires(js: JetStream, bucket: str) -> None:
    kv = js.create_key_value(KeyValueConfig(bucket, ttl=0.5, limit_marker_ttl=60))
    with kv.watch(updates_only=True) as watcher:
        assert watcher.next(5) is None
        kv.put("a", b"1")
        gone = next(entry for entry in watcher.updates(20) if not entry.value)
        assert (gone.key, gone.operation) == ("a", Operation.PURGE)
    with pytest.raises(KeyDeletedError, match="PURGE"):
        kv.get("a")
    assert list(kv.keys()) == []


def test_a_bucket_that_is_full_refuses_new_values(js: JetStream, bucket: str) -> None:
    kv = js.create_key_value(KeyValueConfig(bucket, max_bytes=1000, max_value_size=600))
    kv.put("a", b"x" * 500)
    with pytest.raises(StoreFailedError, match="maximum bytes exceeded"):
        kv.put("b", b"x" * 500)
    with pytest.raises(natsync.jetstream.APIError, match="message size exceeds maximum allowed"):
        kv.put("b", b"x" * 700)
    assert kv.get("a").size == 500


def test_a_bucket_that_is_gone(js: JetStream, kv: KeyValue) -> None:
    js.delete_key_value(kv.bucket)
    for call in (
        lambda: kv.put("a", b""),
        lambda: kv.watch(),
        lambda: kv.history("a"),
        lambda: js.key_value(kv.bucket),
    ):
        with pytest.raises(BucketNotFoundError):
            call()


def test_a_bucket_whose_stream_has_no_leader(js: JetStream, kv: KeyValue) -> None:
    """Nobody takes values for a while, but the bucket is there: that is not BucketNotFoundError."""
    config = js.stream(f"KV_{kv.bucket}").info().config
    js.update_stream(replace(config, subjects=["other." + kv.bucket]))
    for call in (lambda: kv.put("a", b""), lambda: kv.create("a", b""), lambda: kv.delete("a")):
        with pytest.raises(NoStreamResponseError):
            call()


def test_a_user_who_may_not_write_is_refused_at_once(start_server: StartServer) -> None:
    user = '{ user: u, password: p, permissions: { publish: { deny: "$KV.>" } } }'
    server = start_server(JETSTREAM + f"authorization {{ users: [ {user} ] }}\n")
    with natsync.connect(server.url, user="u", password="p") as nc:
        kv = nc.jetstream(timeout=30).create_key_value("b")
        for write in (lambda: kv.put("a", b"1"), lambda: kv.delete("a"), lambda: kv.purge("a")):
            with pytest.raises(natsync.PermissionsViolationError, match=r"\$KV\.b\.a"):
                write()
        with pytest.raises(KeyNotFoundError):
            kv.get("a")


def test_any_number_of_threads_update_one_key_and_none_is_lost(kv: KeyValue) -> None:
    kv.put("count", b"0")

    def add(times: int) -> int:
        lost = 0
        for _ in range(times):
            while True:
                entry = kv.get("count")
                try:
                    kv.update("count", b"%d" % (int(entry.value) + 1), entry.revision)
                    break
                except WrongLastRevisionError:
                    lost += 1
        return lost

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, [10] * 4))
    assert kv.get("count").value == b"40"


def test_writes_with_a_domain_go_by_the_api_prefix(js_client: natsync.Client, bucket: str) -> None:
    """nats.go useJSPfx: across a leaf connection, `$KV.` is not mapped, the API prefix is."""
    js = js_client.jetstream()
    kv = js.create_key_value(bucket)
    elsewhere = KeyValue(js_client.jetstream(domain="hub", timeout=0.1).api, kv.status().info)
    with js_client.subscribe(f"$JS.hub.API.$KV.{bucket}.>") as seen:
        with pytest.raises(natsync.RequestTimeoutError):  # the subscription does not answer
            elsewhere.put("a", b"1")
        assert seen.next_msg(5).subject == f"$JS.hub.API.$KV.{bucket}.a"


def test_a_mirror_of_another_domain_writes_to_its_api(
    js_client: natsync.Client, bucket: str
) -> None:
    js = js_client.jetstream(timeout=0.1)
    kv = js_client.jetstream().create_key_value(bucket)
    info = kv.status().info
    external = natsync.jetstream.ExternalStream.in_domain("hub")
    source = natsync.jetstream.StreamSource("KV_origin", external=external)
    mirror = KeyValue(js.api, replace(info, config=replace(info.config, mirror=source)))
    with js_client.subscribe("$JS.hub.API.$KV.origin.>") as seen:
        with pytest.raises(natsync.RequestTimeoutError):
            mirror.put("a", b"1")
        assert seen.next_msg(5).subject == "$JS.hub.API.$KV.origin.a"
    assert repr(kv) == f"KeyValue({bucket!r})"


def test_a_server_of_2_9(old_js: JetStream, bucket: str) -> None:
    kv = old_js.create_key_value(KeyValueConfig(bucket, history=3))
    kv.put("a", b"1")
    kv.update("a", b"2", 1)
    with pytest.raises(WrongLastRevisionError) as caught:
        kv.update("a", b"3", 1)
    assert caught.value.actual == 2
    kv.create("b", b"4")
    kv.purge("b")
    assert kv.create("b", b"5") == 5
    assert [entry.value for entry in kv.history("a")] == [b"1", b"2"]
    assert sorted(kv.keys()) == ["a", "b"] and list(kv.keys("b")) == ["b"]
    with pytest.raises(natsync.jetstream.UnsupportedError, match="filter_subjects"):
        kv.keys("a", "b")  # the server would ignore them
    with pytest.raises(natsync.jetstream.UnsupportedError, match="ttl"):
        kv.create("c", b"6", ttl=5)
    with pytest.raises(natsync.jetstream.UnsupportedError, match="compression"):
        old_js.update_key_value(KeyValueConfig(bucket, compression=True))
    old_js.delete_key_value(bucket)
