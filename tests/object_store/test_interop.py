"""Objects that nats.py, the asyncio client, has put are got here, and the other way round."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from natsync.jetstream import JetStream
from natsync.object_store import ObjectMeta, ObjectNotFoundError

from tests.support.nats_command import nats as nats_command
from tests.support.servers import NatsServer

nats = pytest.importorskip("nats")
nats_api = pytest.importorskip("nats.js.api")
nats_errors = pytest.importorskip("nats.js.errors")

pytestmark = pytest.mark.server

DATA = os.urandom(700_001)
NAME = "Berichte/2026 §1?.txt"


def with_nats_py(server: NatsServer, work: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    """Calls `work` with a JetStream context of nats.py, whose connection is closed whatever happens."""

    async def run() -> None:
        nc = await nats.connect(server.url)
        try:
            await work(nc.jetstream())
        finally:
            await nc.close()

    asyncio.run(run())


def test_objects_of_nats_py_are_got_here(js_server: NatsServer, js: JetStream, name: str) -> None:
    digests: dict[str, str] = {}

    async def write(theirs: Any) -> None:
        store = await theirs.create_object_store(bucket=name)
        meta = nats_api.ObjectMeta(name=NAME, description="text", headers={"A": "1"})
        digests["big"] = (await store.put(NAME, io.BytesIO(DATA), meta)).digest
        await store.put("empty", b"")
        await store.put("gone", b"x")
        await store.delete("gone")

    with_nats_py(js_server, write)
    store = js.object_store(name)
    assert store.get_bytes(NAME) == DATA and store.get_bytes("empty") == b""
    info = store.info(NAME)
    assert (info.digest, info.size, info.description) == (digests["big"], 700_001, "text")
    assert info.headers == {"A": ("1",)}
    with pytest.raises(ObjectNotFoundError):
        store.get("gone")
    assert sorted(found.name for found in store.list()) == [NAME, "empty"]
    assert store.delete(NAME).deleted


def test_objects_put_here_are_got_by_nats_py(
    js_server: NatsServer, js: JetStream, name: str
) -> None:
    store = js.create_object_store(name)
    meta = ObjectMeta(NAME, description="text", max_chunk_size=50_000, metadata={"k": "v"})
    ours = store.put(meta, DATA)
    store.add_link("link", ours)
    store.put("gone", b"x")
    store.delete("gone")

    async def read(js: Any) -> None:
        theirs = await js.object_store(name)
        for found in (await theirs.get(NAME), await theirs.get("link")):
            assert found.data == DATA
            assert (found.info.digest, found.info.chunks) == (ours.digest, 15)
            assert found.info.description == "text"
        with pytest.raises(nats_errors.ObjectNotFoundError):
            await theirs.get("gone")
        listed = await theirs.list(ignore_deletes=True)
        assert sorted(info.name for info in listed) == [NAME, "link"]
        await theirs.put(NAME, b"theirs")

    with_nats_py(js_server, read)
    assert store.get_bytes(NAME) == store.get_bytes("link") == b"theirs"


def test_objects_of_the_nats_command_are_got_here(
    js_server: NatsServer, js: JetStream, name: str, tmp_path: Path
) -> None:
    """It stands on nats.go."""
    path = tmp_path / "file"
    path.write_bytes(DATA)
    nats_command(js_server, "object", "add", name)
    nats_command(js_server, "object", "put", name, path, "--name", NAME, "--force")
    nats_command(js_server, "object", "put", name, "--name", "piped", "--force", data=b"x" * 1000)
    nats_command(js_server, "object", "put", name, path, "--name", "gone", "--force")
    nats_command(js_server, "object", "del", name, "gone", "--force")
    store = js.object_store(name)
    assert store.get_bytes(NAME) == DATA and store.get_bytes("piped") == b"x" * 1000
    with pytest.raises(ObjectNotFoundError):
        store.get("gone")
    assert sorted(found.name for found in store.list()) == [NAME, "piped"]


def test_the_nats_command_gets_objects_put_here(
    js_server: NatsServer, js: JetStream, name: str, tmp_path: Path
) -> None:
    store = js.create_object_store(name)
    store.add_link("link", store.put(ObjectMeta(NAME, max_chunk_size=50_000), DATA))
    for wanted in (NAME, "link"):
        path = tmp_path / "got"
        nats_command(js_server, "object", "get", name, wanted, "--output", path, "--force")
        assert path.read_bytes() == DATA
    listed = nats_command(js_server, "object", "ls", name, "--names").decode().split("\n")
    assert sorted(filter(None, listed)) == [NAME, "link"]
    nats_command(js_server, "object", "seal", name, "--force")
    assert store.status().sealed
