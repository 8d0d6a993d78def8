"""Captures of trouble: a subscriber that does not read, and services that answer with errors."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import random
import socket
import subprocess
from collections.abc import Callable
from typing import Any

from tests.support.stage import Stage
from tests.support.wire import Wire

SEED = 18
# A small send buffer, so that the server has to wait after some ten kilobytes, not megabytes.
SEND_BUFFER = ["sysctl", "-q", "-w", "net.ipv4.tcp_wmem=4096 8192 8192"]


def slow(stage: Stage) -> None:
    """A subscriber stops reading: its window closes, and the server gives it up after `write_deadline`."""
    subprocess.run(SEND_BUFFER, check=True)
    server = stage.server('write_deadline: "2s"')
    with stage.capturing(f"slow-{server.version}.pcap"):
        publisher, reader = (stage.client(server, name) for name in ("ticker", "dashboard"))
        stalled = sleeper(stage, server.host, server.port)
        for client in (reader, stalled):
            client.sub("prices.>")
            client.flush()
        chance = random.Random(SEED)
        for number in range(40):
            publisher.pub(f"prices.{number % 7}", chance.randbytes(1100).hex().encode())
            reader.expect("MSG", f"prices.{number % 7}")
        publisher.flush()
        server.wait_log("Slow Consumer")
        with contextlib.suppress(ConnectionError):
            stalled.until_closed()
        for client in (publisher, reader):
            client.close()


def sleeper(stage: Stage, host: str, port: int) -> Wire:
    """A client whose receive window is some ten kilobytes and that reads nothing after its handshake."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    connection.settimeout(20)
    connection.connect((host, port))
    client = Wire(connection, None, "report")
    stage.clients.append(client)
    client.connect()
    return client


def services(stage: Stage) -> None:
    """A service with two endpoints, one of which fails; a request to a stream that does not exist."""
    server = stage.server("jetstream { store_dir: $FOLDER, max_memory_store: 16MB }")
    with stage.capturing(f"services-{server.version}.pcap"):
        asyncio.run(calculations(server.url))


async def calculations(url: str) -> None:
    """A calculator is asked by another client; nats-py speaks on both sides."""
    nats = importlib.import_module("nats")  # only recording needs it
    micro = importlib.import_module("nats.micro")
    server, client = [await nats.connect(url, name=name) for name in ("calculator", "pupil")]
    service = await micro.add_service(server, name="calculator", version="1.2.0")

    async def divide(request: Any) -> None:
        one, other = map(int, request.data.split(b"/"))
        if other:
            await request.respond(b"%d" % (one // other))
        else:
            await request.respond_error("400", "division by zero", data=b"no result")

    async def add(request: Any) -> None:
        await asyncio.sleep(0.02)
        await request.respond(b"%d" % sum(map(int, request.data.split(b"+"))))

    handlers: dict[str, Callable[[Any], Any]] = {"divide": divide, "add": add}
    for name, handler in handlers.items():
        await service.add_endpoint(name=name, handler=handler)
    await server.flush()  # the server knows the subscriptions from here on
    for task in (b"8/2", b"1/0", b"9/3"):
        await client.request("divide", task, timeout=10)
    await client.request("add", b"2+3", timeout=10)
    await client.request("$SRV.INFO.calculator", b"", timeout=10)
    await client.request("$SRV.STATS.calculator", b"", timeout=10)
    await client.request("$JS.API.STREAM.INFO.NOWHERE", b"", timeout=10)
    await service.stop()
    for each in (client, server):
        await each.drain()


ALL = (slow, services)
