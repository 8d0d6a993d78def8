"""Watches: what was there, the None, what changes; across lost connections."""

from __future__ import annotations

import pytest

import natsync
from natsync.jetstream import JetStream, MessagesClosedError
from natsync.kv import (
    BucketNotFoundError,
    Entry,
    InvalidKeyError,
    KeyValue,
    KeyValueConfig,
    Operation,
    Watcher,
)

from tests.jetstream.streams import publish_block
from tests.support.faults import Link
from tests.support.proxy import Proxy
from tests.support.servers import NatsServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.server

PUT, DELETE, PURGE = Operation.PUT, Operation.DELETE, Operation.PURGE


def take(watcher: Watcher, count: int) -> list[tuple[str, bytes, Operation] | None]:
    """So many items, each within five seconds."""
    found: list[Entry | None] = [watcher.next(5) for _ in range(count)]
    return [entry and (entry.key, entry.value, entry.operation) for entry in found]


def filled(kv: KeyValue) -> None:
    kv.put("a", b"1")
    kv.put("b.x", b"2")
    kv.put("a", b"3")
    kv.put("c", b"4")
    kv.delete("c")


def test_the_last_entry_of_each_key_then_none_then_changes(kv: KeyValue) -> None:
    filled(kv)
    with kv.watch() as watcher:
        assert take(watcher, 4) == [("b.x", b"2", PUT), ("a", b"3", PUT), ("c", b"", DELETE), None]
        kv.put("d", b"5")
        kv.purge("a")
        assert take(watcher, 2) == [("d", b"5", PUT), ("a", b"", PURGE)]
        with pytest.raises(natsync.NextMsgTimeoutError):
            watcher.next(0.05)


def test_an_empty_bucket_gives_none_at_once(kv: KeyValue) -> None:
    with kv.watch() as watcher:
        assert watcher.next(5) is None
        kv.put("a", b"1")
        assert take(watcher, 1) == [("a", b"1", PUT)]


def test_keys_to_watch_may_be_several_and_have_wildcards(kv: KeyValue) -> None:
    filled(kv)
    with kv.watch("a", "b.*") as watcher:
        assert take(watcher, 3) == [("b.x", b"2", PUT), ("a", b"3", PUT), None]
        kv.put("c", b"6")
        kv.put("b.y", b"7")
        assert take(watcher, 1) == [("b.y", b"7", PUT)]
    with pytest.raises(InvalidKeyError):
        kv.watch("a", "b.>.c")


def test_a_watch_may_include_the_history(kv: KeyValue) -> None:
    filled(kv)
    with kv.watch(include_history=True) as watcher:
        entries = list(watcher.initial(5))
        assert [(entry.key, entry.revision, entry.delta) for entry in entries] == [
            ("a", 1, 4),
            ("b.x", 2, 3),
            ("a", 3, 2),
            ("c", 4, 1),
            ("c", 5, 0),
        ]
        kv.put("a", b"5")
        kv.put("a", b"6")
        assert take(watcher, 2) == [("a", b"5", PUT), ("a", b"6", PUT)]
    with kv.watch("b.*", include_history=True) as watcher:
        assert take(watcher, 2) == [("b.x", b"2", PUT), None]


def test_a_watch_may_show_updates_only(kv: KeyValue) -> None:
    filled(kv)
    with kv.watch(updates_only=True) as watcher:
        assert watcher.next(5) is None
        kv.put("e", b"8")
        assert take(watcher, 1) == [("e", b"8", PUT)]


def test_a_watch_may_leave_out_deletes(kv: KeyValue) -> None:
    filled(kv)
    with kv.watch(ignore_deletes=True) as watcher:
        assert take(watcher, 3) == [("b.x", b"2", PUT), ("a", b"3", PUT), None]
        kv.delete("a")
        kv.put("a", b"9")
        assert take(watcher, 1) == [("a", b"9", PUT)]


def test_a_bucket_of_deletes_alone_gives_none(kv: KeyValue) -> None:
    kv.put("a", b"1")
    kv.delete("a")
    with kv.watch(ignore_deletes=True) as watcher:
        assert watcher.next(5) is None


def test_a_watch_may_leave_out_values(kv: KeyValue) -> None:
    filled(kv)
    with kv.watch("a", meta_only=True) as watcher:
        entry = watcher.next(5)
        assert entry and (entry.value, entry.size, entry.revision) == (b"", 1, 3)


def test_resume_from_a_revision(kv: KeyValue) -> None:
    filled(kv)
    with kv.watch(resume_from_revision=4) as watcher:
        assert take(watcher, 3) == [("c", b"4", PUT), ("c", b"", DELETE), None]
    with kv.watch(resume_from_revision=0) as watcher:
        assert len(list(watcher.initial(5))) == 5
    with kv.watch(resume_from_revision=6) as watcher:
        assert watcher.next(5) is None


def test_beginnings_exclude_each_other(kv: KeyValue) -> None:
    with pytest.raises(natsync.OptionError, match="exclude each other"):
        kv.watch(include_history=True, updates_only=True)
    with pytest.raises(natsync.OptionError, match="exclude each other"):
        kv.watch(resume_from_revision=1, updates_only=True)


def test_stop_ends_it(kv: KeyValue) -> None:
    kv.put("a", b"1")
    watcher = kv.watch()
    assert repr(watcher) == f"Watcher(bucket {kv.bucket!r})"
    for entry in watcher:
        if entry is None:
            watcher.stop()
    with pytest.raises(MessagesClosedError):
        watcher.next(5)
    assert list(watcher.updates(5)) == []


def test_stop_waits_for_nobody_to_take_what_has_come(js: JetStream, kv: KeyValue) -> None:
    for number in range(600):
        js.publish_async(f"$KV.{kv.bucket}.k{number}", b"x")
    assert js.wait_all(10)
    watcher = kv.watch()
    assert watcher.next(5)
    watcher.stop()
    stream = js.stream(f"KV_{kv.bucket}")
    eventually(lambda: stream.info().state.consumer_count == 0)


def test_updates_end_when_nothing_comes(kv: KeyValue) -> None:
    kv.put("a", b"1")
    with kv.watch() as watcher:
        assert [entry.key for entry in watcher.updates(0.2)] == ["a"]


def test_entries_that_are_replaced_while_it_reads(js: JetStream, kv: KeyValue) -> None:
    """The None comes though the last of the initial entries is gone, and comes once."""
    small = js.create_key_value(KeyValueConfig(kv.bucket + "-1", storage="memory"))
    for number in range(2000):
        small.put(f"k{number}", b"x" * 1000)
    with small.watch() as watcher:
        assert watcher.next(5)
        for number in range(1990, 2000):
            small.put(f"k{number}", b"y")
        small.purge("k1989")
        keys = {entry.key for entry in watcher.initial(5)}
        assert len(keys) >= 1988
        small.put("after", b"z")
        last = [entry.key for entry in watcher.updates(0.5)]
        assert last[-1] == "after"


def test_a_lost_connection_loses_and_doubles_nothing(
    js_client: natsync.Client, kv: KeyValue
) -> None:
    for number in range(50):
        kv.put(f"k{number}", b"%d" % number)
    with kv.watch() as watcher:
        revisions = [entry.revision for entry in (watcher.next(5) for _ in range(20)) if entry]
        js_client.reconnect()
        assert js_client.wait_connected(5)
        revisions += [entry.revision for entry in watcher.initial(10)]
        assert revisions == list(range(1, 51))
        js_client.reconnect()
        assert js_client.wait_connected(5)
        kv.put("k50", b"50")
        entry = watcher.next(10)
        assert entry and entry.revision == 51


def test_a_consumer_that_is_deleted_is_replaced(js: JetStream, kv: KeyValue) -> None:
    kv.put("a", b"1")
    with kv.watch() as watcher:
        assert take(watcher, 2) == [("a", b"1", PUT), None]
        stream = js.stream(f"KV_{kv.bucket}")
        (name,) = stream.consumer_names()
        stream.delete_consumer(name)
        kv.put("b", b"2")
        assert take(watcher, 1) == [("b", b"2", PUT)]


def test_what_vanishes_before_it_is_read_does_not_keep_the_none_back(
    js: JetStream, kv: KeyValue
) -> None:
    """A reader asks for 500 messages at a time: what is purged after that never comes."""
    for number in range(600):
        kv.put(f"k{number:03}", b"")
    with kv.watch() as watcher:
        assert watcher.next(5)
        stream = js.stream(f"KV_{kv.bucket}")
        for number in range(520, 540):
            stream.purge(subject=f"$KV.{kv.bucket}.k{number}")
        found = {entry.key for entry in watcher.initial(10)}
        assert {f"k{number:03}" for number in [*range(1, 520), *range(540, 600)]} <= found
        stream.purge()
        kv.put("after", b"")
        entry = watcher.next(5)
        assert entry and entry.key == "after"


def test_all_that_is_left_vanishes_before_it_is_read(js: JetStream, kv: KeyValue) -> None:
    for number in range(600):
        kv.put(f"k{number:03}", b"")
    with kv.watch() as watcher:
        assert watcher.next(5)
        js.stream(f"KV_{kv.bucket}").purge()
        for entry in watcher.initial(10):  # those that were on their way
            assert entry.revision <= 600
        kv.put("after", b"")
        last = watcher.next(5)
        assert last and last.key == "after"


def test_changes_during_an_outage_all_come_after_an_empty_beginning(
    js_server: NatsServer, js_client: natsync.Client, kv: KeyValue
) -> None:
    with kv.watch() as watcher:
        assert watcher.next(5) is None
        js_client.reconnect()
        with natsync.connect(js_server.url) as other:
            writer = other.jetstream().key_value(kv.bucket)
            for value in (b"1", b"2", b"3"):
                writer.put("a", value)
        assert js_client.wait_connected(5)
        found = []
        while len(found) < 3:
            entry = watcher.next(10)
            assert entry
            found.append(entry.value)
        assert found == [b"1", b"2", b"3"]


def test_keys_over_a_slow_network_that_is_cut(
    js: JetStream, js_server: NatsServer, kv: KeyValue
) -> None:
    """The next consumer gets the time of the call, not that of a poll within it."""
    for number in range(600):
        js.api.core.publish(f"$KV.{kv.bucket}.k{number}", b"")
    js.api.core.flush()

    def slow(link: Link) -> None:
        link.to_client.delay(0.5)

    with Proxy(js_server.host, js_server.port, slow) as proxy, natsync.connect(proxy.url) as nc:
        keys = nc.jetstream(timeout=7).key_value(kv.bucket).keys()
        found = [next(keys)]
        proxy.cut()
        found += keys
    assert sorted(found) == sorted(f"k{number}" for number in range(600))


def test_a_bucket_that_is_created_again(js: JetStream, kv: KeyValue) -> None:
    for number in range(5):
        kv.put("a", b"%d" % number)
    with kv.watch() as watcher:
        assert [entry.revision for entry in watcher.initial(5)] == [5]
        js.delete_key_value(kv.bucket)
        kv = js.create_key_value(kv.bucket)
        kv.put("a", b"new")
        entry = watcher.next(5)
        assert entry and (entry.value, entry.revision) == (b"new", 1)
        kv.put("b", b"newer")
        entry = watcher.next(5)
        assert entry and (entry.key, entry.revision) == ("b", 2)


def test_a_bucket_that_is_missing_for_a_while(js: JetStream, kv: KeyValue) -> None:
    kv.put("a", b"old")
    with kv.watch() as watcher:
        assert [entry.value for entry in watcher.initial(5)] == [b"old"]
        js.delete_key_value(kv.bucket)
        for _ in range(2):
            with pytest.raises(BucketNotFoundError, match=kv.bucket):
                watcher.next(5)
        kv = js.create_key_value(kv.bucket)
        kv.put("a", b"new")
        entry = watcher.next(5)
        assert entry and (entry.value, entry.revision) == (b"new", 1)


def test_headers_that_cannot_be_read(
    kv: KeyValue, js_server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Such an entry is a value, as for nats.go, and the bucket stays readable."""
    kv.put("a", b"1")
    kv.put("c", b"3")
    kv.delete("c")
    publish_block(js_server, f"$KV.{kv.bucket}.b", b"NATS/1.0\r\nno colon\r\n\r\n")
    with kv.watch() as watcher:
        assert take(watcher, 4) == [("a", b"1", PUT), ("c", b"", DELETE), ("b", b"", PUT), None]
    assert [*kv.keys()] == ["a", "b"]
    assert kv.get("b").revision == 4
    assert kv.purge_deletes(older_than=-1) == 1
    first = caplog.records[0].getMessage()
    assert f"entry 'b' of bucket {kv.bucket}, revision 4" in first and "without a colon" in first
