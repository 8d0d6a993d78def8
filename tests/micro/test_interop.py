"""Services of nats.py, the asyncio client, found and called by this one; and the other way round."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import natsync
from natsync.micro import Request, ServiceClient, ServiceError, add_service, raise_for_error

from tests.support.nats_command import nats as nats_command
from tests.support.servers import NatsServer

nats = pytest.importorskip("nats")
nats_micro = pytest.importorskip("nats.micro")
nats_service = pytest.importorskip("nats.micro.service")

pytestmark = [
    pytest.mark.server,
    pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning"),
]


def test_a_service_of_nats_py_is_found_and_called(server: NatsServer, nc: natsync.Client) -> None:
    def call(id: str) -> None:
        client = ServiceClient(nc)
        (ping,) = client.ping("Theirs", id)
        assert (ping.version, ping.metadata) == ("1.2.3", {})
        assert raise_for_error(nc.request("math.double", b"21", timeout=5)).data == b"42"
        with pytest.raises(ServiceError) as caught:
            raise_for_error(nc.request("math.double", b"x", timeout=5))
        assert caught.value.code == 500
        (info,) = client.info("Theirs", id)
        assert [(one.name, one.subject, one.queue_group) for one in info.endpoints] == [
            ("double", "math.double", "q")
        ]
        (stats,) = client.stats("Theirs", id)
        assert (stats.endpoints[0].num_requests, stats.endpoints[0].num_errors) == (2, 1)
        assert "ValueError" in stats.endpoints[0].last_error

    async def serve() -> None:
        async def double(request: Any) -> None:
            await request.respond(b"%d" % (2 * int(request.data)))

        theirs = await nats.connect(server.url)
        service = await nats_micro.add_service(theirs, name="Theirs", version="1.2.3")
        await service.add_group(name="math").add_endpoint(name="double", handler=double)
        await theirs.flush()
        await asyncio.to_thread(call, service.id)
        await service.stop()
        await theirs.close()

    asyncio.run(serve())


def test_nats_py_finds_and_calls_a_service(server: NatsServer, nc: natsync.Client) -> None:
    def double(request: Request) -> None:
        if not request.data.isdigit():
            raise ServiceError(400, "no number")
        request.respond(b"%d" % (2 * int(request.data)))

    service = add_service(nc, "Ours", "1.2.3", description="doubles", metadata={"a": "b"})
    service.add_group("math").add_endpoint("double", double, metadata={"unit": "none"})
    nc.flush()

    async def call() -> None:
        theirs = await nats.connect(server.url)
        assert (await theirs.request("math.double", b"21")).data == b"42"
        refused = await theirs.request("math.double", b"x")
        assert refused.headers == {
            "Nats-Service-Error": "no number",
            "Nats-Service-Error-Code": "400",
        }

        async def ask(verb: str) -> Any:
            return json.loads((await theirs.request(f"$SRV.{verb}.Ours.{service.id}")).data)

        ping = nats_service.ServicePing.from_dict(await ask("PING"))
        assert (ping.name, ping.version, ping.metadata) == ("Ours", "1.2.3", {"a": "b"})
        info = nats_service.ServiceInfo.from_dict(await ask("INFO"))
        assert (info.description, info.endpoints[0].subject) == ("doubles", "math.double")
        assert info.endpoints[0].metadata == {"unit": "none"}
        stats = nats_service.ServiceStats.from_dict(await ask("STATS"))
        assert stats.endpoints[0].num_requests == 2
        assert stats.endpoints[0].last_error == "400:no number"
        assert stats.started.replace(tzinfo=None) == service.stats().started.replace(tzinfo=None)
        await theirs.close()

    asyncio.run(call())


def test_the_nats_command_finds_a_service_of_ours(server: NatsServer, nc: natsync.Client) -> None:
    """It stands on nats.go."""
    with add_service(nc, name="Ours", version="1.0.0", description="doubles") as service:
        service.add_endpoint("double", lambda request: request.respond(b"42"))
        assert nats_command(server, "request", "double", "21", "--raw").strip() == b"42"
        (ping,) = json.loads(nats_command(server, "service", "ls", "Ours", "--json"))
        assert (ping["id"], ping["version"]) == (service.id, "1.0.0")
        info = json.loads(nats_command(server, "service", "info", "Ours", service.id, "--json"))
        info = info[0] if isinstance(info, list) else info
        assert info.get("info", info)["description"] == "doubles"
        assert b"1" in nats_command(server, "service", "stats", "Ours", service.id)
