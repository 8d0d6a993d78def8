"""A replicated bucket and object store: their leader is killed under a writer and a watcher."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import natsync
from natsync.jetstream import APIError
from natsync.kv import KeyValue, KeyValueConfig, WrongLastRevisionError
from natsync.object_store import ObjectStoreConfig

from tests.support.jetstream import JETSTREAM
from tests.support.meshes import mesh
from tests.support.servers import NatsServer, require_server
from tests.support.waiting import eventually

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def servers() -> Iterator[list[NatsServer]]:
    require_server("current")
    with mesh(3, JETSTREAM) as running:
        yield running


@pytest.fixture
def nc(servers: list[NatsServer]) -> Iterator[natsync.Client]:
    with natsync.connect([server.url for server in servers], reconnect_wait=0.05) as client:
        yield client


def done(call: Callable[[], object]) -> bool:
    """Whether the cluster does it now: without a leader, nobody answers, or with an error."""
    try:
        call()
    except (APIError, natsync.RequestTimeoutError, natsync.NoRespondersError):
        return False
    return True


def ready(nc: natsync.Client, config: KeyValueConfig) -> KeyValue:
    """The bucket, once the cluster has a leader that makes it."""
    js = nc.jetstream(timeout=0.5)
    eventually(lambda: done(lambda: js.create_key_value(config)))
    return nc.jetstream(timeout=20).key_value(config.bucket)


def test_conflicts_are_reported_and_no_update_is_lost(nc: natsync.Client) -> None:
    kv = ready(nc, KeyValueConfig("conflicts", replicas=3))
    kv.put("count", b"0")

    def add(times: int) -> None:
        for _ in range(times):
            while True:
                entry = kv.get("count")
                try:
                    kv.update("count", b"%d" % (int(entry.value) + 1), entry.revision)
                    break
                except WrongLastRevisionError:  # err_code 10071, or 10164 from the replicated path
                    pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, [10] * 4))
    stream = nc.jetstream(timeout=20).stream("KV_conflicts")
    assert stream.get_last_msg("$KV.conflicts.count").data == b"40"


def test_a_watch_survives_the_death_of_its_leader(
    nc: natsync.Client, servers: list[NatsServer]
) -> None:
    js = nc.jetstream(timeout=20)
    kv = ready(nc, KeyValueConfig("killed", history=5, replicas=3))
    objects = ObjectStoreConfig("killed", replicas=3)
    eventually(lambda: done(lambda: js.create_object_store(objects)))
    store = js.object_store("killed")
    content = os.urandom(2_000_000)
    store.put("o", content)
    written = [kv.put(f"k{number}", b"%d" % number) for number in range(100)]
    with kv.watch() as watcher:
        seen = [entry.revision for entry in (watcher.next(20) for _ in range(50)) if entry]
        info = js.stream("KV_killed").info()
        leader = next(one for one in servers if info.cluster and one.name == info.cluster.leader)
        leader.kill()
        try:
            for number in range(100, 150):
                while True:
                    try:
                        written.append(kv.update(f"k{number}", b"%d" % number, 0))
                        break
                    except WrongLastRevisionError:  # it was stored, and its answer lost
                        written.append(kv.get(f"k{number}").revision)
                        break
                    except (natsync.Error, TimeoutError):
                        pass
            while not seen or seen[-1] < written[-1]:
                entry = watcher.next(60)
                seen += [entry.revision] if entry else []
            assert store.get_bytes("o") == content
        finally:
            leader.start()
    assert seen == sorted(set(seen)) and set(written) <= set(seen)
