"""Captures of JetStream, with a log of what its clients did."""

from __future__ import annotations

import asyncio
import importlib
from collections import defaultdict

from tests.support.jetstream_desk import SERVER, Desk, Log, called
from tests.support.servers import NatsServer
from tests.support.stage import Stage

SECOND = 10**9


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


ALL = (jetstream_orders,)
