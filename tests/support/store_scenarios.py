"""Captures of key-value buckets and object stores, with a log of what their clients did."""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
import random
from collections import defaultdict
from typing import Any

from tests.support.jetstream_desk import SERVER, Desk, Log
from tests.support.servers import NatsServer
from tests.support.stage import Stage


def jetstream_stores(stage: Stage) -> None:
    """Key-value buckets and object stores, as nats-py uses them."""
    server = stage.server(SERVER % "false")
    log: Log = defaultdict(list)
    name = f"stores-{server.version}.pcap"
    with stage.capturing(name):
        asyncio.run(stores(server, log))
        others(Desk(stage.client(server, "visitor"), defaultdict(list)), log)
    stage.truth[name]["did"] = dict(log)


def others(desk: Desk, log: Log) -> None:
    """What nats-py does not do: a write through a domain, one that expires, a link, a watch of a store."""
    for subject, ttl in (("$JS.hub.API.$KV.prices.eggs", None), ("$KV.prices.ice", "60s")):
        inbox = desk.inbox()
        desk.wire.pub(subject, b"2.50", reply=inbox, headers=[("Nats-TTL", ttl)] if ttl else None)
        ack = json.loads(desk.answer(inbox).body)
        row: dict[str, object] = {"bucket": "prices", "op": "put", "key": subject.split(".")[-1]}
        row |= {"revision": ack.get("seq"), "found": None, "entries": None}
        log["kv"].append({**row, "err_code": ack["error"]["err_code"] if "error" in ack else None})
    meta: dict[str, object] = {"name": "shortcut", "bucket": "plans", "nuid": "L1nk", "size": 0}
    meta |= {"chunks": 0, "options": {"link": {"bucket": "plans", "name": "note"}}}
    inbox = desk.inbox()
    subject = f"$O.plans.M.{base64.urlsafe_b64encode(b'shortcut').decode()}"
    body = json.dumps(meta).encode()
    desk.wire.pub(subject, body, reply=inbox, headers=[("Nats-Rollup", "sub")])
    desk.answer(inbox)
    config: dict[str, object] = {"deliver_subject": "watch.plans", "ack_policy": "none"}
    config |= {"filter_subject": "$O.plans.M.>", "deliver_policy": "last_per_subject"}
    sid = desk.wire.sub("watch.plans")
    made = desk.api("CONSUMER.CREATE", "OBJ_plans", {"stream_name": "OBJ_plans", "config": config})
    desk.wire.flush()
    desk.wire.unsub(sid)
    desk.api("CONSUMER.DELETE", f"OBJ_plans.{made['name']}")
    row = {"bucket": "plans", "complete": None, "digest_ok": None, "bytes": None}
    log["objects"] += [
        {**row, "op": "link", "name": "shortcut", "chunks": None, "link": "plans/note"},
        {**row, "op": "watch", "name": None, "chunks": 3, "link": None},
    ]
    desk.wire.close()


async def stores(server: NatsServer, log: Log) -> None:
    """One client with a bucket and a store."""
    nats = importlib.import_module("nats")  # only recording needs it
    client = await nats.connect(server.url, name="keeper")
    await bucket(client.jetstream(), log["kv"])
    await store(client.jetstream(), log["objects"])
    await client.drain()


async def bucket(js: Any, log: list[dict[str, object]]) -> None:
    """Every operation on a bucket, and those that fail."""
    api = importlib.import_module("nats.js.api")
    errors = importlib.import_module("nats.js.errors")

    def did(op: str, key: str | None = None, revision: int | None = None, **more: object) -> None:
        row = {"bucket": "prices", "op": op, "key": key, "revision": revision}
        log.append({**row, "found": None, "err_code": None, "entries": None, **more})

    config = api.KeyValueConfig(bucket="prices", history=5, storage="memory", direct=True)
    kv = await js.create_key_value(config)
    for number in range(4):
        did("put", f"tea.{number}", await kv.put(f"tea.{number}", b"%d" % number))
    did("create", "milk", await kv.create("milk", b"1.20"))
    try:
        await kv.create("milk", b"1.30")
    except errors.KeyWrongLastSequenceError:
        did("create", "milk", err_code=10071)
        did("get", "milk", 5, found=True)  # nats-py looks whether it was deleted
    did("update", "milk", await kv.update("milk", b"1.25", last=5))
    try:
        await kv.update("milk", b"9", last=3)
    except errors.KeyWrongLastSequenceError:
        did("update", "milk", err_code=10071)
    did("get", "milk", (await kv.get("milk")).revision, found=True)
    await kv.delete("tea.1")
    did("delete", "tea.1", 7)
    await kv.purge("tea.2")
    did("purge", "tea.2", 8)
    for key, revision in (("tea.1", 7), ("coffee", None)):
        try:
            await kv.get(key)
        except errors.KeyNotFoundError:
            did("get", key, revision, found=False)
    did("keys", ">", entries=len(await kv.keys()) + 2)  # those that were removed come, too
    did("history", "milk", entries=len(await kv.history("milk")))
    watcher = await kv.watch("tea.*")
    seen = 0
    while await watcher.updates(timeout=5) is not None:
        seen += 1
    await kv.put("tea.9", b"new")
    did("put", "tea.9", 9)
    await watcher.updates(timeout=5)
    await watcher.stop()
    did("watch", "tea.*", entries=seen + 1)
    await kv.status()
    did("status")


async def store(js: Any, log: list[dict[str, object]]) -> None:
    """Objects large, small and empty, put, fetched, replaced, looked for and deleted."""
    errors = importlib.import_module("nats.js.errors")
    api = importlib.import_module("nats.js.api")

    def did(op: str, name: str, **more: object) -> None:
        row = {"bucket": "plans", "op": op, "name": name, "complete": None, "digest_ok": None}
        log.append({**row, "bytes": None, "chunks": None, "link": None, **more})

    async def put(name: str, data: bytes, chunks: int) -> None:
        meta = api.ObjectMeta(name=name, options=api.ObjectMetaOptions(max_chunk_size=4000))
        await found.put(name, data, meta=meta)
        whole = {"complete": True, "digest_ok": True, "bytes": len(data), "chunks": chunks}
        did("put", name, **whole)

    found = await js.create_object_store("plans", api.ObjectStoreConfig(storage="memory"))
    large = random.Random(4).randbytes(9000)
    for name, data, chunks in (("house/großer plan.pdf", large, 3), ("note", b"small", 1)):
        did("info", name)  # is it there already?
        await put(name, data, chunks)
        did("info", name, bytes=len(data), chunks=chunks)
        got = await found.get(name)
        assert got.data == data
        whole = {"complete": True, "digest_ok": True, "bytes": len(data), "chunks": chunks}
        did("get", name, **whole)
    try:
        await found.get("nothing")
    except errors.ObjectNotFoundError:
        did("info", "nothing")
    did("info", "note", bytes=5, chunks=1)
    await found.delete("note")
    did("delete", "note")


ALL = (jetstream_stores,)
