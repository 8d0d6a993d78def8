"""Buckets created, changed, deleted and listed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from natsync.jetstream import JetStream, StreamConfig, StreamSource, SubjectTransform
from natsync.kv import (
    BadBucketError,
    BucketExistsError,
    BucketNotFoundError,
    InvalidBucketNameError,
    KeyNotFoundError,
    KeyValueConfig,
)

from tests.support.waiting import eventually

pytestmark = pytest.mark.server


def test_a_bucket_from_creation_to_deletion(js: JetStream, bucket: str) -> None:
    with pytest.raises(BucketNotFoundError):
        js.key_value(bucket)
    with pytest.raises(BucketNotFoundError):
        js.update_key_value(KeyValueConfig(bucket))
    with pytest.raises(BucketNotFoundError):
        js.delete_key_value(bucket)
    kv = js.create_key_value(bucket)
    kv.put("a", b"1")
    assert js.create_key_value(bucket).get("a").value == b"1"
    with pytest.raises(BucketExistsError):
        js.create_key_value(KeyValueConfig(bucket, history=5))
    assert js.update_key_value(KeyValueConfig(bucket, history=5)).status().history == 5
    wider = KeyValueConfig(bucket, history=6, description="more")
    assert js.create_or_update_key_value(wider).status().history == 6
    assert js.key_value(bucket).get("a").value == b"1"
    js.delete_key_value(bucket)
    with pytest.raises(BucketNotFoundError):
        js.key_value(bucket)
    assert js.create_or_update_key_value(bucket).bucket == bucket


def test_an_update_keeps_how_it_is_read(js: JetStream, bucket: str) -> None:
    js.create_key_value(bucket)
    stream = js.stream(f"KV_{bucket}")
    js.update_stream(replace(stream.cached_info.config, allow_direct=False))
    js.update_key_value(KeyValueConfig(bucket, history=2))
    assert not stream.info().config.allow_direct


def test_buckets_of_nats_py_are_updated(js: JetStream, bucket: str) -> None:
    """nats.py allows times to live in each bucket, also without limit markers; that cannot be undone."""
    subjects = [f"$KV.{bucket}.>"]
    js.create_stream(
        StreamConfig(
            f"KV_{bucket}",
            subjects=subjects,
            max_msgs_per_subject=1,
            discard="new",
            allow_rollup_hdrs=True,
            deny_delete=True,
            allow_msg_ttl=True,
        )
    )
    config = js.key_value(bucket).status().config
    kv = js.update_key_value(replace(config, history=5))
    assert kv.status().history == 5
    assert js.create_or_update_key_value(KeyValueConfig(bucket)).status().history == 1


def test_limit_markers_are_switched_off(js: JetStream, bucket: str) -> None:
    js.create_key_value(KeyValueConfig(bucket, limit_marker_ttl=5))
    assert js.update_key_value(KeyValueConfig(bucket)).status().limit_marker_ttl == 0


def test_buckets_are_listed_mirrors_included(js: JetStream, bucket: str) -> None:
    names = [bucket, bucket + "-copy"]
    js.create_key_value(bucket)
    js.create_key_value(KeyValueConfig(names[1], mirror=StreamSource(bucket)))
    assert sorted(name for name in js.key_value_names() if name.startswith(bucket)) == names
    found = {status.bucket: status for status in js.key_values()}
    assert set(names) <= set(found)
    assert (found[bucket].values, found[bucket].history, found[bucket].ttl) == (0, 1, 0)
    assert (found[bucket].compressed, found[bucket].backing_store) == (False, "JetStream")


def test_streams_that_are_no_buckets_are_not_listed(js: JetStream, bucket: str) -> None:
    others = [
        StreamConfig(f"KV_{bucket}-named", subjects=[f"{bucket}.>"], max_msgs_per_subject=1),
        StreamConfig(f"KV_{bucket}-endless", subjects=[f"$KV.{bucket}-endless.>"]),
        StreamConfig(f"{bucket}-bare", subjects=[f"$KV.{bucket}-bare.>"], max_msgs_per_subject=1),
    ]
    for config in others:
        js.create_stream(config)
    js.create_key_value(bucket)
    try:
        assert [name for name in js.key_value_names() if bucket in name] == [bucket]
        assert [found.bucket for found in js.key_values() if bucket in found.bucket] == [bucket]
    finally:
        for config in others:
            js.delete_stream(config.name)


def test_wrong_names_are_refused_at_the_call(js: JetStream) -> None:
    for call in (js.key_value, js.create_key_value, js.delete_key_value):
        with pytest.raises(InvalidBucketNameError):
            call("a.b")


def test_a_stream_that_is_no_bucket(js: JetStream, bucket: str) -> None:
    js.create_stream(StreamConfig(f"KV_{bucket}"))
    with pytest.raises(BadBucketError, match="no limit of messages per subject"):
        js.key_value(bucket)


def test_a_mirror_reads_its_origin_and_writes_there(js: JetStream, bucket: str) -> None:
    origin = js.create_key_value(bucket)
    origin.put("a", b"1")
    mirror = js.create_key_value(KeyValueConfig(bucket + "-copy", mirror=StreamSource(bucket)))
    with mirror.watch() as watcher:
        entries = []
        while len(entries) < 2:
            entry = watcher.next(5)
            if entry:
                entries.append((entry.key, entry.value))
                if len(entries) == 1:
                    assert mirror.put("b", b"2") == 2
    assert entries == [("a", b"1"), ("b", b"2")]
    assert mirror.get("a").value == b"1" and origin.get("b").value == b"2"
    assert sorted(mirror.keys()) == ["a", "b"]
    with pytest.raises(KeyNotFoundError):
        mirror.get("c")


def test_sources_bring_the_keys_of_other_buckets(js: JetStream, bucket: str) -> None:
    for letter in "xy":
        js.create_key_value(f"{bucket}-{letter}").put(letter, letter.encode())
    sources = [StreamSource(f"{bucket}-{letter}") for letter in "xy"]
    merged = js.create_key_value(KeyValueConfig(bucket, sources=sources))
    with merged.watch() as watcher:
        keys = set()
        while keys != {"x", "y"}:
            entry = watcher.next(5)
            keys |= {entry.key} if entry else set()
    assert merged.get("x").value == b"x"
    merged.put("z", b"own")
    assert sorted(merged.keys()) == ["x", "y", "z"]


def test_sources_may_be_streams_with_transforms(js: JetStream, bucket: str) -> None:
    names = [f"{bucket}-x", f"{bucket}-y"]
    sources = []
    for name in names:
        js.create_stream(StreamConfig(name, subjects=[f"{name}.>"]))
        js.publish(f"{name}.from.{name[-1]}", name[-1].encode())
        transform = SubjectTransform(f"{name}.>", f"$KV.{bucket}.>")
        sources.append(StreamSource(name, subject_transforms=[transform]))
    merged = js.create_key_value(KeyValueConfig(bucket, sources=sources))
    eventually(lambda: sorted(merged.keys()) == ["from.x", "from.y"])
    assert merged.get("from.y").value == b"y"
    for name in names:
        js.delete_stream(name)


def test_a_stream_that_mirrors_a_bucket_answers_for_it(js: JetStream, bucket: str) -> None:
    """Whichever of the two answers a direct get, it is the same entry."""
    kv = js.create_key_value(bucket)
    mirror = StreamConfig(
        f"{bucket}-mirror", mirror=StreamSource(f"KV_{bucket}"), mirror_direct=True
    )
    copy = js.create_stream(mirror)
    kv.put("a", b"1")
    eventually(lambda: copy.info().state.messages == 1)
    assert {(kv.get("a").value, kv.get("a").revision) for _ in range(20)} == {(b"1", 1)}
    js.delete_stream(mirror.name)
