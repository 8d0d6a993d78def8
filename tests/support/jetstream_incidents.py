"""Captures of incidents of JetStream that operators report, as `incident_scenarios`."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.support.incident_scenarios import PACE, recording, worker
from tests.support.stage import Stage
from tests.support.wire import Wire

STORE = "jetstream { store_dir: $FOLDER, max_memory_store: 16MB }\n"
ORDERS = {"name": "ORDERS", "subjects": ["orders.>"], "storage": "memory"}
SECOND = 10**9
SHARED = """
accounts {
    SHOP {
        jetstream: enabled, users: [ { user: shop, password: s3cret } ]
        exports: [ { stream: deliver.orders } ]
    }
    DEPOT {
        users: [ { user: depot, password: s3cret } ]
        imports: [ { stream: { account: SHOP, subject: deliver.orders } } ]
    }
}
"""


def ask(client: Wire, subject: str, body: object = b"", **headers: str) -> dict[str, Any]:
    """Sends a request, whose body is JSON or bytes, and returns the JSON of its answer; {} without one."""
    inbox = f"_INBOX.{client.name}"
    client.counts.published[inbox] += 1
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = [(name.replace("_", "-"), value) for name, value in headers.items()] or None
    client.pub(subject, data, f"{inbox}.{client.counts.published[inbox]}", headers=named)
    answer = client.expect_any("MSG", "HMSG")
    found: dict[str, Any] = json.loads(answer.body) if answer.op == "MSG" else {}
    return found


def consumer(client: Wire, name: str, **config: object) -> None:
    """Makes a durable consumer of ORDERS."""
    wanted = {"durable_name": name, "ack_policy": "explicit"} | config
    body = {"stream_name": "ORDERS", "config": wanted}
    assert "error" not in ask(client, f"$JS.API.CONSUMER.DURABLE.CREATE.ORDERS.{name}", body)


def pull(client: Wire, name: str, batch: int, expires: float) -> list[str]:
    """Pulls messages; returns the subjects of their acks, once the batch is full or has expired."""
    wanted = {"batch": batch, "expires": round(expires * SECOND)}
    subject = f"$JS.API.CONSUMER.MSG.NEXT.ORDERS.{name}"
    client.pub(subject, json.dumps(wanted).encode(), f"_INBOX.{name}.p")
    acks: list[str] = []
    while len(acks) < batch:
        received = client.expect_any("MSG", "HMSG")
        if received.op == "HMSG":
            break
        acks.append(received.reply)
    return acks


def incident_duplicates(stage: Stage) -> None:
    """A publisher counts its message ids from 1 again after its restart: the stream takes new orders for
    those that it has, and drops them."""
    server = stage.server(STORE)
    with recording(stage, "duplicates"):
        for start, item in enumerate(("tea", "coffee and cake")):
            shop = worker(stage, server, "shop")
            if not start:
                ask(shop, "$JS.API.STREAM.CREATE.ORDERS", ORDERS)
            for number in range(1, 7):
                ask(shop, "orders.new", item.encode(), Nats_Msg_Id=f"order-{number}")
            shop.close()


def incident_filter(stage: Stage) -> None:
    """A consumer filters a subject that nobody publishes, since its name is misspelt: its worker waits, and
    the stream fills."""
    server = stage.server(STORE)
    with recording(stage, "filter"):
        shop = worker(stage, server, "shop")
        ask(shop, "$JS.API.STREAM.CREATE.ORDERS", ORDERS)
        packer = worker(stage, server, "packer")
        consumer(packer, "packer", filter_subject="orders.created.*")
        for number in range(12):
            ask(shop, "orders.create.eu", b'{"id": %d}' % number)
            if number % 3 == 2:
                assert not pull(packer, "packer", 5, 0.3)
        for client in (shop, packer):
            client.close()


def incident_foreign(stage: Stage) -> None:
    """A worker gets messages of a consumer of another account, and acknowledges them in its own, where
    nobody listens: all of them come again after ack_wait."""
    server = stage.server(STORE + SHARED)
    with recording(stage, "foreign"):
        shop = worker(stage, server, "shop", login=("shop", "s3cret"))
        ask(shop, "$JS.API.STREAM.CREATE.ORDERS", ORDERS)
        depot = stage.client(server, "depot", login=("depot", "s3cret"))
        depot.sub("deliver.orders")
        depot.flush()
        consumer(shop, "depot", deliver_subject="deliver.orders", ack_wait=SECOND)
        for number in range(4):
            ask(shop, "orders.new", b'{"id": %d}' % number)
        for _ in range(12):
            depot.pub(depot.expect("MSG").reply, b"+ACK")
        depot.flush()
        for client in (depot, shop):
            client.close()


def incident_stuck(stage: Stage) -> None:
    """A worker forgets to acknowledge: at max_ack_pending its consumer delivers nothing more, although
    messages wait."""
    server = stage.server(STORE)
    with recording(stage, "stuck"):
        shop = worker(stage, server, "shop")
        ask(shop, "$JS.API.STREAM.CREATE.ORDERS", ORDERS)
        packer = worker(stage, server, "packer")
        consumer(packer, "packer", max_ack_pending=5)
        for number in range(12):
            ask(shop, "orders.new", b'{"id": %d}' % number)
        assert len(pull(packer, "packer", 5, 1)) == 5
        for _ in range(3):
            assert not pull(packer, "packer", 5, 0.3)
        for client in (shop, packer):
            client.close()


def incident_quorum(stage: Stage) -> None:
    """Two of the three servers that have a stream fail, and nobody answers its publisher any more."""
    servers = []
    for number in (1, 2, 3):
        routes = ", ".join(f'"nats://127.0.0.1:622{each}"' for each in (1, 2, 3) if each != number)
        section = f"cluster {{ name: shops, listen: 127.0.0.1:622{number}, routes: [{routes}] }}\n"
        servers.append(stage.server(STORE + section, name=f"shop-{number}", port=4221 + number))
    led = "Self is new JetStream cluster metadata leader"
    servers[0].wait_for(lambda: any(led in each.log() for each in servers) or None, 20, led)
    servers[0].wait_log("JetStream cluster new metadata leader|Self is new JetStream")
    with recording(stage, "quorum", only="tcp port 4222"):
        shop = worker(stage, servers[0], "shop")
        ask(shop, "$JS.API.STREAM.CREATE.ORDERS", {**ORDERS, "num_replicas": 3})
        for number in range(5):
            while not ask(shop, "orders.new", b'{"id": %d}' % number):
                time.sleep(PACE)  # the stream has no leader yet
        for server in servers[1:]:
            server.kill()
            stage.servers.remove(server)
        for number in range(30):
            shop.pub("orders.new", b'{"id": %d}' % number, f"_INBOX.shop.late{number}")
            if number % 10 == 9:
                shop.pub("$JS.API.STREAM.INFO.ORDERS", b"", f"_INBOX.shop.info{number}")
            time.sleep(0.5)
        shop.flush()
        shop.close()


ALL = (
    incident_duplicates,
    incident_filter,
    incident_foreign,
    incident_stuck,
    incident_quorum,
)
