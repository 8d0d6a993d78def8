"""Captures of JetStream, with a log of what its clients did.

The clients write down what they asked for and what they heard, in the words of the tables that the dissector
makes, but with parsers of their own (`wire.Wire`, nats-py): the log is the witness against which the tables
are checked, row for row. It is in truth.json, under `did`.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
import random
from collections import defaultdict
from typing import Any

from tests.support.servers import NatsServer
from tests.support.stage import Stage
from tests.support.wire import Headers, Received, Wire

SERVER = """
jetstream { store_dir: $FOLDER, max_memory_store: 64MB, max_file_store: 64MB, domain: hub }
feature_flags { js_ack_fc_v2: %s }
"""
SECOND = 10**9
Log = dict[str, list[dict[str, object]]]


def called(
    api: str, stream: str | None, consumer: str | None = None, error: int | None = None
) -> dict[str, object]:
    """The log's line of an API call."""
    return {
        "api": api,
        "domain": None,
        "stream": stream,
        "consumer": consumer,
        "err_code": error,
    }


class Desk:
    """A client of JetStream that logs. Its inboxes are `_INBOX.NAME.N`, all under one subscription."""

    def __init__(self, client: Wire, log: Log) -> None:
        self.wire = client
        self.log = log
        self._inbox = f"_INBOX.{client.name}"
        self._inboxes = 0
        client.sub(f"{self._inbox}.*")
        client.flush()

    def inbox(self) -> str:
        """A new one."""
        self._inboxes += 1
        return f"{self._inbox}.{self._inboxes}"

    def api(self, call: str, names: str = "", body: object = None, prefix: str = "$JS.API") -> Any:
        """Calls the API and returns the answer."""
        subject = f"{prefix}.{call}.{names}".rstrip(".")
        content = b"" if body is None else json.dumps(body).encode()
        inbox = self.inbox()
        self.wire.pub(subject, content, reply=inbox)
        answer = json.loads(self.wire.expect("MSG", inbox).body)
        named = names.split(".")
        error = answer.get("error", {}).get("err_code")
        row = called(call, named[0] or None, named[1] if len(named) > 1 else None, error)
        row["domain"] = prefix.split(".")[1] if prefix.count(".") == 2 else None
        self.log["api"].append(row)
        return answer

    def publish(self, subject: str, payload: bytes, headers: Headers | None = None) -> None:
        """Publishes and waits for the ack."""
        inbox = self.inbox()
        self.wire.pub(subject, payload, reply=inbox, headers=headers)
        self.published(subject, self.answer(inbox), headers)

    def published(self, subject: str, answer: Received | None, headers: Headers | None) -> None:
        """Logs a publication with its ack."""
        ack = json.loads(answer.body) if answer and answer.body[:1] == b"{" else {}
        refused = "error" in ack
        self.log["publishes"].append(
            {
                "subject": subject,
                "msg_id": dict(headers or ()).get("Nats-Msg-Id"),
                "stream": ack.get("stream"),
                "seq": None if refused else ack.get("seq"),
                "duplicate": ack.get("duplicate"),
                "err_code": ack["error"]["err_code"] if refused else None,
            }
        )

    def answer(self, inbox: str) -> Received:
        """The next message on an inbox, with headers or without."""
        while True:
            received = self.wire.expect_any("MSG", "HMSG")
            if received.subject == inbox:
                return received

    def pull(self, names: str, count: int, **body: object) -> list[Received]:
        """Pulls; returns the messages, until there are so many or a status comes."""
        inbox = self.inbox()
        self.wire.pub(f"$JS.API.CONSUMER.MSG.NEXT.{names}", json.dumps(body).encode(), reply=inbox)
        return self.pulled(names, inbox, count, int(str(body.get("batch", 1))))

    def pulled(self, names: str, inbox: str, count: int, batch: int) -> list[Received]:
        """The messages of a pull, which is logged."""
        stream, consumer = names.split(".")
        row: dict[str, object] = {
            "stream": stream,
            "consumer": consumer,
            "batch": batch,
        }
        self.log["pulls"].append(row)
        got: list[Received] = []
        row |= {"delivered": 0, "end": "open"}
        while len(got) < count or count < batch:
            received = self.wire.expect_any("MSG", "HMSG")
            if received.subject == inbox:
                status = received.body.split(b"\r\n", 1)[0].split(b" ")[1].decode()
                if status == "100":
                    continue
                row["end"] = status
                break
            got.append(received)
            self.delivered(received)
        row["delivered"] = len(got)
        if len(got) == batch and row["end"] == "open":
            row["end"] = "filled"
        return got

    def delivered(self, message: Received) -> None:
        """Logs a delivery."""
        tokens = message.reply.split(".")
        tokens = tokens[:2] + tokens[4:] if len(tokens) > 9 else tokens
        self.log["deliveries"].append(
            {
                "stream": tokens[2],
                "consumer": tokens[3],
                "delivered_count": int(tokens[4]),
                "stream_seq": int(tokens[5]),
                "subject": message.subject,
                "ack": None,
            }
        )

    def ack(self, message: Received, said: bytes, ack: str, reply: str = "") -> None:
        """Acknowledges a delivery."""
        self.wire.pub(message.reply, said, reply=reply)
        tokens = message.reply.split(".")
        tokens = tokens[:2] + tokens[4:] if len(tokens) > 9 else tokens
        place = {"delivered_count": int(tokens[4]), "stream_seq": int(tokens[5])}
        place |= {"stream": tokens[2], "consumer": tokens[3]}  # type: ignore[dict-item]  # texts, too
        for row in self.log["deliveries"]:
            if place.items() <= row.items():
                row["ack"] = ack


def jetstream_orders(stage: Stage) -> None:
    """Streams, consumers of all sorts, acks of all sorts, what the server refuses and what it reports.

    Ack subjects have domain and account."""
    server = stage.server(SERVER % "true")
    log: Log = defaultdict(list)
    name = f"orders-{server.version}.pcap"
    with stage.capturing(name):
        desk = Desk(stage.client(server, "desk"), log)
        watcher = stage.client(server, "watcher")
        watcher.sub("$JS.EVENT.>")
        watcher.flush()
        streams(desk)
        publications(desk)
        admin = Desk(stage.client(server, "admin"), log)
        pulls(desk, admin)
        acks(desk)
        groups(desk)
        push(desk, admin)
        asyncio.run(nats_py(server, log))
        for table in ("STREAM.PURGE", "STREAM.DELETE"):
            desk.api(table, "ORDERS")
        desk.wire.close()
        watcher.flush()
        watcher.close()
    stage.truth[name]["did"] = dict(log)


def streams(desk: Desk) -> None:
    """Made, made again in another way, changed, looked for."""
    config: dict[str, object] = {
        "name": "ORDERS",
        "subjects": ["orders.>"],
        "storage": "memory",
    }
    config |= {"allow_direct": True, "allow_atomic": True, "allow_msg_ttl": True}
    desk.api("STREAM.CREATE", "ORDERS", config)
    desk.api("STREAM.CREATE", "ORDERS", {**config, "subjects": ["other"]})  # 10058
    desk.api("STREAM.UPDATE", "ORDERS", {**config, "description": "what customers buy"})
    desk.api("STREAM.INFO", "ORDERS", prefix="$JS.hub.API")
    desk.api("STREAM.INFO", "NOWHERE")  # 10059
    desk.api("STREAM.NAMES")
    desk.api("INFO")


def publications(desk: Desk) -> None:
    """With ids, with expectations that hold and that do not, in a batch, for a while."""
    for number in range(8):
        desk.publish("orders.new", b"order %d" % number, [("Nats-Msg-Id", f"order-{number}")])
    desk.publish("orders.new", b"order 0 again", [("Nats-Msg-Id", "order-0")])
    for headers in (
        [("Nats-Expected-Stream", "ORDERS")],
        [("Nats-Expected-Stream", "BILLS")],
        [("Nats-Expected-Last-Sequence", "9")],
        [("Nats-Expected-Last-Sequence", "3")],
        [("Nats-Expected-Last-Subject-Sequence", "0")],
        [("Nats-Expected-Last-Msg-Id", "order-x")],
        [("Nats-TTL", "1h")],
    ):
        desk.publish("orders.paid", b"paid", headers)
    desk.publish("orders.plain", b"no headers at all")
    inbox = desk.inbox()
    batch = [("Nats-Batch-Id", "basket-1")]
    for number in (1, 2):
        headers = [*batch, ("Nats-Batch-Sequence", str(number))]
        desk.wire.pub("orders.basket", b"part", headers=headers)
        desk.published("orders.basket", None, headers)
    headers = [*batch, ("Nats-Batch-Sequence", "3"), ("Nats-Batch-Commit", "1")]
    desk.wire.pub("orders.basket", b"last part", reply=inbox, headers=headers)
    desk.published("orders.basket", desk.answer(inbox), headers)
    desk.wire.pub(
        "nowhere.stored",
        b"?",
        reply=(inbox := desk.inbox()),
        headers=[("Nats-Msg-Id", "n")],
    )
    desk.published("nowhere.stored", desk.answer(inbox), [("Nats-Msg-Id", "n")])


def pulls(desk: Desk, admin: Desk) -> None:
    """Filled, empty, over, too large, of a consumer that is no more."""
    config = {"durable_name": "audit", "ack_policy": "none", "deliver_policy": "all"}
    desk.api("CONSUMER.INFO", "ORDERS.audit")  # 10014
    desk.api(
        "CONSUMER.DURABLE.CREATE",
        "ORDERS.audit",
        {"stream_name": "ORDERS", "config": config},
    )
    desk.pull("ORDERS.audit", 5, batch=5, expires=5 * SECOND)
    desk.pull("ORDERS.audit", 0, batch=2, max_bytes=40, expires=SECOND)  # nothing fits
    desk.pull("ORDERS.audit", 0, batch=40, no_wait=True)  # what is left, then 404
    desk.pull("ORDERS.audit", 0, batch=1, expires=SECOND // 4, idle_heartbeat=SECOND // 10)  # 408
    inbox = desk.inbox()
    desk.wire.pub("$JS.API.CONSUMER.MSG.NEXT.ORDERS.audit", b"", reply=inbox)
    desk.wire.flush()
    admin.api("CONSUMER.DELETE", "ORDERS.audit")
    desk.pulled("ORDERS.audit", inbox, 0, 1)  # 409
    desk.pull("ORDERS.audit", 0, batch=1, expires=SECOND)  # 503


def acks(desk: Desk) -> None:
    """Every ack there is."""
    worker: dict[str, object] = {"durable_name": "worker", "ack_policy": "explicit"}
    worker |= {
        "filter_subject": "orders.new",
        "max_deliver": 3,
        "ack_wait": 30 * SECOND,
    }
    body = {"stream_name": "ORDERS", "config": worker, "action": "create"}
    desk.api("CONSUMER.CREATE", "ORDERS.worker.orders.new", body)
    one, two, three, four, five = desk.pull("ORDERS.worker", 5, batch=5, expires=5 * SECOND)
    desk.ack(one, b"", "ack")
    desk.ack(two, b"-NAK", "nak")
    desk.ack(three, b"+WPI", "progress")
    desk.ack(three, b"+ACK", "ack")
    desk.ack(four, b"+TERM no such customer", "term")
    desk.ack(five, b'-NAK {"delay": 50000000}', "nak")
    inbox = desk.inbox()
    desk.wire.flush()
    again, six, seven = desk.pull("ORDERS.worker", 3, batch=3, expires=5 * SECOND)
    desk.ack(again, b"+ACK", "ack", reply=inbox)
    desk.answer(inbox)
    inbox = desk.inbox()
    desk.ack(six, b'+NXT {"batch": 2, "expires": 5000000000}', "next", reply=inbox)
    eight, late = desk.pulled("ORDERS.worker", inbox, 2, 2)
    for message in (seven, eight):
        desk.ack(message, b"", "ack")
    desk.ack(late, b"-NAK 1ms", "nak")
    desk.wire.flush()
    (last,) = desk.pull("ORDERS.worker", 1, batch=1, expires=5 * SECOND)
    desk.ack(last, b"-NAK", "nak")  # the third attempt was the last one: an advisory says so
    desk.pull("ORDERS.worker", 0, batch=1, expires=SECOND // 5)
    desk.api("CONSUMER.INFO", "ORDERS.worker")


def groups(desk: Desk) -> None:
    """A consumer with a priority group: pulls that are served only if enough waits."""
    config: dict[str, object] = {"durable_name": "overflow", "ack_policy": "explicit"}
    config |= {"priority_groups": ["jobs"], "priority_policy": "overflow"}
    desk.api(
        "CONSUMER.CREATE",
        "ORDERS.overflow",
        {"stream_name": "ORDERS", "config": config},
    )
    first = desk.pull("ORDERS.overflow", 2, batch=2, group="jobs", min_pending=5, expires=SECOND)
    desk.pull(
        "ORDERS.overflow",
        0,
        batch=1,
        group="jobs",
        min_pending=900,
        expires=SECOND // 5,
    )
    desk.pull("ORDERS.overflow", 1, batch=1, group="jobs", min_ack_pending=1, expires=SECOND)
    for message in first:
        desk.ack(message, b"", "ack")
    desk.pull("ORDERS.overflow", 0, batch=1, expires=SECOND)  # 400: no group


def push(desk: Desk, listener: Desk) -> None:
    """A push consumer with heartbeats and flow control, and direct gets."""
    listener.wire.sub("push.here")
    listener.wire.flush()
    config: dict[str, object] = {"deliver_subject": "push.here", "ack_policy": "none"}
    config |= {
        "idle_heartbeat": SECOND // 5,
        "flow_control": True,
        "filter_subject": "orders.paid",
    }
    made = desk.api("CONSUMER.CREATE", "ORDERS", {"stream_name": "ORDERS", "config": config})
    while (received := listener.wire.expect_any("MSG", "HMSG")).subject != "push.here":
        listener.delivered(received)  # up to the first heartbeat
    desk.api("CONSUMER.DELETE", f"ORDERS.{made['name']}")
    direct(desk, "ORDERS", b'{"seq": 2}', None)
    direct(desk, "ORDERS.orders.new", b"", None)
    direct(desk, "ORDERS", b'{"seq": 4000}', 404)
    inbox = desk.inbox()
    body = b'{"batch": 3, "seq": 1}'
    desk.wire.pub("$JS.API.DIRECT.GET.ORDERS", body, reply=inbox)
    while b"204" not in desk.answer(inbox).body.split(b"\r\n", 1)[0]:
        pass
    desk.log["api"].append(called("DIRECT.GET", "ORDERS"))
    desk.api("STREAM.MSG.GET", "ORDERS", {"seq": 1})


def direct(desk: Desk, names: str, body: bytes, code: int | None) -> None:
    """A direct get, whose answer is the message."""
    inbox = desk.inbox()
    desk.wire.pub(f"$JS.API.DIRECT.GET.{names}", body, reply=inbox)
    answer = desk.answer(inbox)
    assert (b" 404" in answer.body[:20]) == (code == 404)
    desk.log["api"].append(called("DIRECT.GET", "ORDERS"))


async def nats_py(server: NatsServer, log: Log) -> None:
    """What nats-py does with a stream of its own: its own inboxes, its own pulls."""
    nats = importlib.import_module("nats")  # only recording needs it
    client = await nats.connect(server.url, name="billing")
    js = client.jetstream()
    await js.add_stream(name="BILLS", subjects=["bills.*"], storage="memory")
    log["api"].append(called("STREAM.CREATE", "BILLS"))
    for number in range(6):
        ack = await js.publish("bills.new", b"bill %d" % number)
        log["publishes"].append({"subject": "bills.new", "stream": ack.stream, "seq": ack.seq})
    sub = await js.pull_subscribe("bills.*", durable="clerk", stream="BILLS")
    log["api"].append(called("CONSUMER.INFO", "BILLS", "clerk", 10014))
    log["api"].append(called("CONSUMER.CREATE", "BILLS", "clerk"))
    log["pulls"].append(
        {
            "stream": "BILLS",
            "consumer": "clerk",
            "batch": 4,
            "delivered": 4,
            "end": "filled",
        }
    )
    for message in await sub.fetch(4, timeout=5):
        facts = message.metadata
        log["deliveries"].append(
            {
                "stream": facts.stream,
                "consumer": facts.consumer,
                "delivered_count": facts.num_delivered,
                "stream_seq": facts.sequence.stream,
                "subject": message.subject,
                "ack": "ack" if facts.sequence.stream % 2 else None,
            }
        )
        if facts.sequence.stream % 2:
            await message.ack_sync()
    await client.drain()


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


ALL = (jetstream_orders, jetstream_stores)
