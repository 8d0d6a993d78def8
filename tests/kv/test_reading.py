"""Entries read one by one, directly and from the leader."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from natsync.jetstream import JetStream, NoDirectGetError
from natsync.kv import (
    BucketNotFoundError,
    Entry,
    KeyDeletedError,
    KeyNotFoundError,
    KeyValue,
    Operation,
)

pytestmark = pytest.mark.server


@pytest.mark.parametrize("direct", [True, False])
def test_both_ways_give_the_same_entry(js: JetStream, kv: KeyValue, direct: bool) -> None:
    stream = f"KV_{kv.bucket}"
    config = replace(js.stream(stream).cached_info.config, allow_direct=direct)
    js.update_stream(config)
    bucket = js.key_value(kv.bucket)
    with pytest.raises(KeyNotFoundError):
        bucket.get("a")
    kv.put("a", b"1")
    kv.put("b", b"x")
    kv.delete("b")
    first = bucket.get("a")
    assert first == Entry(kv.bucket, "a", b"1", 1, 0, Operation.PUT, 1, 0)
    assert abs((first.created - datetime.now(timezone.utc)).total_seconds()) < 60
    assert bucket.get("a", revision=1) == first
    for missing in (2, 9):
        with pytest.raises(KeyNotFoundError, match=f"key a has no revision {missing}"):
            bucket.get("a", revision=missing)
    with pytest.raises(KeyDeletedError, match="DEL at revision 3"):
        bucket.get("b")


def test_a_bucket_that_is_not_read_directly_any_more_is_read_from_the_leader(
    js: JetStream, kv: KeyValue
) -> None:
    kv.put("a", b"1")
    stream = f"KV_{kv.bucket}"
    js.update_stream(replace(js.stream(stream).cached_info.config, allow_direct=False))
    assert kv.get("a").value == b"1"
    assert kv.get("a", revision=1).value == b"1"


def test_a_bucket_that_is_gone(js: JetStream, kv: KeyValue) -> None:
    js.delete_key_value(kv.bucket)
    for read in (lambda: kv.get("a"), lambda: kv.get("a", revision=1)):
        with pytest.raises(BucketNotFoundError, match=f"bucket {kv.bucket} not found"):
            read()


def test_a_bucket_of_an_old_server_that_is_gone_or_not_read_directly_any_more(
    old_js: JetStream,
) -> None:
    """It does not answer direct reads of such a bucket."""
    kv = JetStream(old_js.api.core, timeout=0.5).create_key_value("old")
    kv.put("a", b"1")
    other = JetStream(old_js.api.core, timeout=0.5).key_value("old")
    stream = old_js.stream("KV_old")
    old_js.update_stream(replace(stream.cached_info.config, allow_direct=False))
    with pytest.raises(NoDirectGetError):
        JetStream(old_js.api.core, timeout=0.5).stream("KV_old").get_msg(1, direct=True)
    assert kv.get("a").value == b"1"
    old_js.delete_key_value("old")
    for read in (lambda: kv.get("a"), lambda: other.get("a", revision=1)):
        with pytest.raises(BucketNotFoundError, match="bucket old not found"):
            read()
