"""Key-value buckets and object stores, beside nats-py 2.16: every figure in one run, on one real server,
in alternating rounds."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import natsync
from natsync.jetstream import JetStream
from natsync.kv import KeyValueConfig
from natsync.object_store import ObjectStoreConfig

from tests.bench.beside_nats_py import Ours, Theirs, beside
from tests.bench.rounds import machine
from tests.support.jetstream import JETSTREAM
from tests.support.servers import NatsServer, require_server

pytestmark = [pytest.mark.bench, pytest.mark.server, pytest.mark.timeout(600)]

ROUNDS = 3
GETS = 3000
KEYS = 100_000
MIB = 1 << 20
OBJECT = 256 * MIB
THEIR_OBJECT = 16 * MIB  # `get` of nats-py joins chunks in quadratic time
FLAT = 64 * MIB
BLOCK = os.urandom(MIB)


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    require_server("current")
    with NatsServer(JETSTREAM) as running, natsync.connect(running.url) as nc:
        js = nc.jetstream()
        js.create_key_value(KeyValueConfig("b", storage="memory"))
        window = nc.open_window(1000, lambda subject, payload: payload)
        for number in range(KEYS):
            window.request(f"$KV.b.k{number}", b"x" * 100)
        assert window.wait(60)
        for name, size in (("o", OBJECT), ("theirs", THEIR_OBJECT)):
            store = js.create_object_store(ObjectStoreConfig(name, storage="memory"))
            store.put("big", (BLOCK for _ in range(size // MIB)))
        print(f"\n\nStores, nats-server {running.version}, {machine()}")
        yield running


def get(js: JetStream) -> int:
    bucket = js.key_value("b")
    for number in range(GETS):
        bucket.get(f"k{number}")
    return GETS


async def py_get(js: Any) -> int:
    bucket = await js.key_value("b")
    for number in range(GETS):
        await bucket.get(f"k{number}")
    return GETS


def watch(js: JetStream) -> int:
    with js.key_value("b").watch() as watcher:
        return sum(1 for _ in watcher.initial())


async def py_watch(js: Any) -> int:
    watcher = await (await js.key_value("b")).watchall()
    seen = 0
    while await watcher.updates(30) is not None:
        seen += 1
    await watcher.stop()
    return seen


def keys(js: JetStream) -> int:
    return sum(1 for _ in js.key_value("b").keys())


async def py_keys(js: Any) -> int:
    return len(await (await js.key_value("b")).keys())


def put_object(js: JetStream) -> int:
    js.object_store("o").put("big", (BLOCK for _ in range(OBJECT // MIB)))
    return OBJECT // MIB


async def py_put_object(js: Any) -> int:
    await (await js.object_store("theirs")).put("big", BLOCK * (THEIR_OBJECT // MIB))
    return THEIR_OBJECT // MIB


def get_object(js: JetStream) -> int:
    with js.object_store("o").get("big") as reader:
        return sum(map(len, reader.chunks())) // MIB


async def py_get_object(js: Any) -> int:
    found = await (await js.object_store("theirs")).get("big")
    return len(found.data) // MIB


@pytest.mark.parametrize(
    ("ours", "theirs", "wanted"),
    [
        (get, py_get, 1.5),
        (watch, py_watch, 2.0),
        (keys, py_keys, 1.2),
        (put_object, py_put_object, None),
        (get_object, py_get_object, None),
    ],
)
def test_speed(server: NatsServer, ours: Ours, theirs: Theirs, wanted: float | None) -> None:
    beside(server, ours, theirs, wanted, ROUNDS)


@pytest.mark.parametrize("work", [put_object, get_object])
def test_an_object_takes_little_memory(server: NatsServer, work: Ours) -> None:
    with natsync.connect(server.url) as nc:
        js = nc.jetstream(timeout=30)
        before = peak(reset=True)
        assert work(js) == OBJECT // MIB
        grown = peak() - before
    print(f"\n{work.__name__}: memory + {grown / MIB:.0f} MiB")
    assert grown < FLAT


def peak(reset: bool = False) -> int:
    """The most bytes of memory that this process had, since the last reset (Linux: proc(5))."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024
