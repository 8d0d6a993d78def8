"""Buckets that nats.py, the asyncio client, has written are read here, and the other way round."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from natsync.jetstream import JetStream
from natsync.kv import KeyDeletedError, KeyValue, KeyValueConfig, Operation

from tests.support.nats_command import nats as nats_command
from tests.support.servers import NatsServer

nats = pytest.importorskip("nats")
nats_js = pytest.importorskip("nats.js.errors")

pytestmark = pytest.mark.server

Work = Callable[[Any], Coroutine[Any, Any, None]]


def with_nats_py(server: NatsServer, work: Work) -> None:
    """Calls `work` with a JetStream context of nats.py, whose connection is closed whatever happens."""

    async def run() -> None:
        nc = await nats.connect(server.url)
        try:
            await work(nc.jetstream())
        finally:
            await nc.close()

    asyncio.run(run())


async def read_again(call: Callable[..., Coroutine[Any, Any, list[Any]]], *key: str) -> list[Any]:
    """What `keys` or `history` of nats.py return, asked for again where they find nothing. Its watch takes a
    bucket for empty if the server has sent all messages when it asks, and they still wait in its own
    queue (nats/js/kv.py, watch): with nats.py alone, 5 of 2,000 calls (nats-py 2.16, CPython 3.13).
    """
    for _ in range(20):
        try:
            return await call(*key)
        except nats_js.NoKeysError:
            pass
    return []


def check(kv: KeyValue) -> None:
    """Another client wrote `a` twice and `b.c`, deleted `gone` and purged `purged`."""
    assert [entry.value for entry in kv.history("a")] == [b"1", b"2"]
    assert sorted(kv.keys()) == ["a", "b.c"]
    with pytest.raises(KeyDeletedError, match="DEL"):
        kv.get("gone")
    with pytest.raises(KeyDeletedError, match="PURGE"):
        kv.get("purged")
    assert kv.status().history == 5


def test_a_bucket_of_nats_py_is_read_here(
    js_server: NatsServer, js: JetStream, bucket: str
) -> None:
    async def write(theirs_js: Any) -> None:
        kv = await theirs_js.create_key_value(bucket=bucket, history=5)
        await kv.put("a", b"1")
        await kv.put("a", b"2")
        await kv.create("b.c", b"3")
        await kv.update("b.c", b"4", last=3)
        await kv.put("gone", b"5")
        await kv.delete("gone")
        await kv.put("purged", b"6")
        await kv.purge("purged")

    with_nats_py(js_server, write)
    kv = js.key_value(bucket)
    check(kv)
    assert (kv.get("b.c").value, kv.get("b.c").revision) == (b"4", 4)


def test_a_bucket_of_ours_is_read_by_nats_py(
    js_server: NatsServer, js: JetStream, bucket: str
) -> None:
    kv = js.create_key_value(KeyValueConfig(bucket, history=5))
    kv.put("a", b"1")
    kv.put("a", b"2")
    kv.create("b.c", b"3")
    kv.put("gone", b"4")
    kv.delete("gone")
    kv.put("purged", b"5")
    kv.purge("purged")

    async def read(theirs_js: Any) -> None:
        theirs = await theirs_js.key_value(bucket)
        assert (await theirs.get("a")).value == b"2"
        assert (await theirs.get("a", revision=1)).value == b"1"
        assert (await theirs.status()).history == 5
        assert sorted(await read_again(theirs.keys)) == ["a", "b.c"]
        history = await read_again(theirs.history, "a")
        assert [entry.value for entry in history] == [b"1", b"2"]
        for key, operation in (("gone", "DEL"), ("purged", "PURGE")):
            with pytest.raises(nats_js.KeyNotFoundError) as caught:
                await theirs.get(key)
            assert caught.value.op == operation
        with pytest.raises(nats_js.KeyWrongLastSequenceError):
            await theirs.update("a", b"x", last=1)
        await theirs.create("gone", b"6")

    with_nats_py(js_server, read)
    assert kv.get("gone").value == b"6"


def test_each_hears_of_what_the_other_writes(
    js_server: NatsServer, js: JetStream, bucket: str
) -> None:
    kv = js.create_key_value(KeyValueConfig(bucket, history=5))

    def ours(kv: KeyValue) -> list[Any]:
        with kv.watch() as watcher:
            found = [watcher.next(5)]
            kv.put("from.here", b"1")
            found += [watcher.next(5), watcher.next(5)]
        return found

    async def both(theirs_js: Any) -> None:
        theirs = await theirs_js.key_value(bucket)
        watcher = await theirs.watchall()
        assert await watcher.updates() is None
        waiting = asyncio.create_task(asyncio.to_thread(ours, kv))
        entry = await watcher.updates(5)
        assert (entry.key, entry.value, entry.revision) == ("from.here", b"1", 1)
        await theirs.delete("from.there")
        found = await waiting
        assert found[0] is None and found[1].key == "from.here"
        assert (found[2].key, found[2].operation) == ("from.there", Operation.DELETE)
        entry = await watcher.updates(5)
        assert entry.operation == "DEL"
        await watcher.stop()

    with_nats_py(js_server, both)


def test_a_bucket_of_the_nats_command_is_read_here(
    js_server: NatsServer, js: JetStream, bucket: str
) -> None:
    """It stands on nats.go."""
    nats_command(js_server, "kv", "add", bucket, "--history", 5)
    for key, value in (("a", "1"), ("a", "2"), ("b.c", "3"), ("gone", "4"), ("purged", "5")):
        nats_command(js_server, "kv", "put", bucket, key, value)
    nats_command(js_server, "kv", "del", bucket, "gone", "--force")
    nats_command(js_server, "kv", "purge", bucket, "purged", "--force")
    kv = js.key_value(bucket)
    check(kv)


def test_the_nats_command_reads_a_bucket_of_ours(
    js_server: NatsServer, js: JetStream, bucket: str
) -> None:
    kv = js.create_key_value(KeyValueConfig(bucket, history=3))
    for value in (b"1", b"2"):
        kv.put("a", value)
    kv.put("b.c", b"3")
    kv.put("gone", b"4")
    kv.delete("gone")
    assert nats_command(js_server, "kv", "get", bucket, "a", "--raw").strip() == b"2"
    assert sorted(nats_command(js_server, "kv", "ls", bucket).split()) == [b"a", b"b.c"]
    history = nats_command(js_server, "kv", "history", bucket, "a").decode()
    assert history.count("PUT") == 2
    nats_command(js_server, "kv", "create", bucket, "gone", "again")
    assert kv.get("gone").value == b"again"
