"""Captures of incidents that operators report; the rules of `audit` name each of them."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import random
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

from tests.support.servers import NatsServer
from tests.support.stage import Stage, loopback_packets
from tests.support.trouble_scenarios import SEED, SEND_BUFFER, sleeper
from tests.support.wire import Wire

# Longer than the write deadline: the server has closed its end, and its FIN waits behind the closed window.
HUNG = 3.0
PACE = 0.1
# The kernel ends the connections of the route, on the side that opened them.
BREAK = ["ss", "-K", "dport", "=", "6221"]


FLUSHED = 1.0  # after which dumpcap has written what it has seen


@contextlib.contextmanager
def recording(stage: Stage, name: str, *, only: str = "") -> Iterator[None]:
    """Records to a pcap in the folder of incidents, about which no more is known than the scenario says;
    `only` is a filter, as a span port has one."""
    file = f"{name}.pcap"
    options = ["-P", "-q", *(["-f", only] if only else [])]
    counted = (lambda: 0) if only else loopback_packets
    with stage.capturing(file, program="dumpcap", options=options, counted=counted):
        yield
        if only:
            time.sleep(FLUSHED)
    del stage.truth[file]


def worker(stage: Stage, server: NatsServer, name: str, **options: Any) -> Wire:
    """A client that listens to its inbox."""
    client = stage.client(server, name, **options)
    client.sub(f"_INBOX.{name}.*")
    client.flush()
    return client


def incident_stalled(stage: Stage) -> None:
    """A subscriber hangs: it reads nothing more, and is killed seconds after the server has given it up."""
    subprocess.run(SEND_BUFFER, check=True)
    server = stage.server('write_deadline: "1s"')
    with recording(stage, "stalled"):
        publisher = stage.client(server, "ticker")
        hung = sleeper(stage, server.host, server.port)
        hung.sub("prices.>")
        hung.flush()
        chance = random.Random(SEED)
        for number in range(40):
            publisher.pub(f"prices.{number % 7}", chance.randbytes(1100).hex().encode())
        publisher.flush()
        server.wait_log("Slow Consumer")
        time.sleep(HUNG)
        hung.reset()
        publisher.close()


def incident_flapping(stage: Stage) -> None:
    """A route breaks again and again; meanwhile, requests to a service behind it find nobody."""
    cluster = "cluster {{ name: shops, listen: 127.0.0.1:622{}, routes: [{}] }}\n"
    near = stage.server(cluster.format(1, ""), name="near", port=4222)
    with recording(stage, "flapping"):
        route = cluster.format(2, '"nats://127.0.0.1:6221"')
        far = stage.server(route, name="far", port=4223)
        pricing, shop = stage.client(far, "pricing"), stage.client(near, "shop")
        pricing.sub("prices.get")
        pricing.flush()
        shop.sub("_INBOX.shop.*")
        service = threading.Thread(target=answering, args=(pricing,))
        service.start()
        for number in range(80):
            if number % 20 == 10:
                subprocess.run(BREAK, check=True, stdout=subprocess.DEVNULL)
            shop.pub("prices.get", b"tea", reply=f"_INBOX.shop.{number}")
            shop.flush()
            time.sleep(PACE)
        shop.close()
        pricing.connection.shutdown(socket.SHUT_WR)
        service.join()


def answering(service: Wire) -> None:
    """Answers requests until the connection ends."""
    with contextlib.suppress(EOFError):
        while True:
            service.respond(b"4.20", "prices.get")


def incident_poison(stage: Stage) -> None:
    """One message is never acknowledged and reaches max_deliver; another one is acknowledged too late."""
    server = stage.server("jetstream { store_dir: $FOLDER, max_memory_store: 16MB }")
    with recording(stage, "poison"):
        asyncio.run(packing(server.url))


async def packing(url: str) -> None:
    """A worker whose ack_wait is a second: it fails on order 1 each time, and needs 1.5 s for order 2."""
    nats = importlib.import_module("nats")  # only recording needs it
    api = importlib.import_module("nats.js.api")
    shop, worker = [await nats.connect(url, name=name) for name in ("shop", "packer")]
    js = worker.jetstream()
    await js.add_stream(name="ORDERS", subjects=["orders.>"], storage=api.StorageType.MEMORY)
    config = api.ConsumerConfig(ack_wait=1, max_deliver=3)
    pull = await js.pull_subscribe("orders.>", "packer", config=config)
    for number in range(6):
        await shop.publish("orders.new", b'{"id": %d}' % number)
    await shop.flush()
    for _ in range(5):
        with contextlib.suppress(nats.errors.TimeoutError):
            for message in await pull.fetch(6, timeout=1.2):
                sequence = message.metadata.sequence.stream
                if sequence == 2:
                    continue
                if sequence == 3 and message.metadata.num_delivered == 1:
                    asyncio.get_running_loop().call_later(1.5, asyncio.ensure_future, message.ack())
                    continue
                await message.ack()
    for each in (shop, worker):
        await each.close()


def incident_left(stage: Stage) -> None:
    """The only instance of a service is killed: requests before are answered, later ones find nobody.
    A client that did not ask for the answer that nobody listens hears nothing."""
    server = stage.server()
    with recording(stage, "left"):
        pricing, shop = stage.client(server, "pricing"), stage.client(server, "shop")
        pricing.sub("prices.*", queue="pricing")
        pricing.flush()
        shop.sub("_INBOX.shop.*")
        for number in range(5):
            shop.pub("prices.tea", b"?", reply=f"_INBOX.shop.{number}")
            pricing.respond(b"4.20", "prices.tea")
            shop.expect("MSG", f"_INBOX.shop.{number}")
        pricing.reset()
        server.wait_log("Client connection closed")
        for number in range(5, 20):
            shop.pub("prices.tea", b"?", reply=f"_INBOX.shop.{number}")
            shop.expect("HMSG", f"_INBOX.shop.{number}")
        old = stage.client(server, "old-shop", no_responders=False)
        for number in range(12):
            old.pub("prices.tea", b"?", reply=f"_INBOX.old.{number}")
        for client in (shop, old):
            client.flush()
            client.close()


ALL = (incident_stalled, incident_flapping, incident_poison, incident_left)
