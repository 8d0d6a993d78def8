"""Captures of incidents of connections and subjects that operators report, as `incident_scenarios`."""

from __future__ import annotations

import contextlib
import socket
import time
from base64 import urlsafe_b64encode

from tests.support.incident_scenarios import recording, worker
from tests.support.logins import ALICE, operator_config, user_jwt
from tests.support.servers import NatsServer
from tests.support.stage import Stage
from tests.support.wire import Wire

HUB = "leafnodes { listen: 127.0.0.1:7422 }\n"
LIMITED = """
accounts { SHOP { users: [
    { user: spoke, password: s3cret, permissions: { publish: ">", subscribe: "orders.>" } }
    { user: shop, password: s3cret }
] } }
"""
CROWD = 50
TTL = 3  # seconds that credentials last


def incident_loop(stage: Stage) -> None:
    """A third leafnode connection closes a ring: south is a leafnode of hub, as east is, and of east."""
    listen = "leafnodes {{ {} remotes: [ {} ] }}\n"
    stage.server(HUB, name="hub", port=4222)
    remote = '{{ url: "nats-leaf://127.0.0.1:{}" }}'
    to_hub, to_east = remote.format(7422), remote.format(7423)
    with recording(stage, "loop"):
        east = stage.server(
            listen.format("listen: 127.0.0.1:7423,", to_hub), name="east", port=4223
        )
        east.wait_log("Leafnode connection created")
        south = stage.server(listen.format("", f"{to_hub}, {to_east}"), name="south", port=4224)
        south.wait_log("Loop detected")


def incident_interest(stage: Stage) -> None:
    """A service on a leafnode is not found from the hub: the leafnode's user may not hear of its subject."""
    hub = stage.server(HUB + LIMITED, name="hub", port=4222)
    remote = '{ url: "nats-leaf://spoke:s3cret@127.0.0.1:7422" }'
    with recording(stage, "interest"):
        spoke = stage.server(f"leafnodes {{ remotes: [ {remote} ] }}\n", name="spoke", port=4223)
        hub.wait_log("Leafnode connection created")
        pricing = stage.client(spoke, "pricing")
        pricing.sub("prices.get", queue="pricing")
        pricing.flush()
        time.sleep(0.5)
        shop = worker(stage, hub, "shop", login=("shop", "s3cret"))
        for number in range(12):
            shop.pub("prices.get", b"tea", f"_INBOX.shop.{number}")
            shop.expect("HMSG", f"_INBOX.shop.{number}")
        shop.close()


def incident_twice(stage: Stage) -> None:
    """Each instance of a service has a queue group of its own, named after its host: all of them answer."""
    server = stage.server()
    with recording(stage, "twice"):
        pods = [stage.client(server, f"billing-{letter}") for letter in "abc"]
        for pod in pods:
            pod.sub("invoices.create", queue=pod.name)
            pod.flush()
        shop = worker(stage, server, "shop")
        for number in range(6):
            shop.pub("invoices.create", b'{"order": %d}' % number, f"_INBOX.shop.{number}")
            for pod in pods:
                pod.respond(pod.name.encode(), "invoices.create")
                shop.expect("MSG", f"_INBOX.shop.{number}")
        for client in (shop, *pods):
            client.close()


def incident_oversized(stage: Stage) -> None:
    """Headers make a message larger than max_payload: the server closes the connection, and the client
    sends the message again with each new one."""
    server = stage.server("max_payload: 2KB")
    baggage = [("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
    baggage += [("baggage", f"step-{step}={'x' * 100}") for step in range(18)]
    with recording(stage, "oversized"):
        for _ in range(4):
            shop = stage.client(server, "shop")
            shop.pub("orders.new", b'{"id": 1001}', headers=baggage)
            with contextlib.suppress(ConnectionError):
                shop.until_closed()
            time.sleep(0.3)


def incident_expired(stage: Stage) -> None:
    """The credentials of a client expire while it is connected; it connects again and again with them."""
    server = stage.server(operator_config())
    with recording(stage, "expired"):
        jwt = user_jwt(expires=int(time.time()) + TTL)
        shop = login(stage, server, jwt)
        shop.flush()
        shop.pub("orders.new", b"tea")
        shop.until_closed()
        for _ in range(5):
            time.sleep(0.5)
            again = login(stage, server, jwt)
            with contextlib.suppress(ConnectionError):
                again.until_closed()


def login(stage: Stage, server: NatsServer, jwt: str) -> Wire:
    """A client that proves itself with a JWT."""
    client = stage.client(server, "shop", handshake=False)
    signature = ALICE.sign(str(client.info["nonce"]).encode())
    client.send_connect(jwt=jwt, sig=urlsafe_b64encode(signature).decode().rstrip("="))
    return client


def incident_storm(stage: Stage) -> None:
    """A server restarts, and its clients come back all at once, with no delay of their own."""
    server = stage.server()
    tills = [till(stage, server, number) for number in range(CROWD)]
    with recording(stage, "storm"):
        server.kill()
        server.start()
        for number, client in enumerate(tills):
            with contextlib.suppress(ConnectionError):
                client.until_closed()
            till(stage, server, number)


def till(stage: Stage, server: NatsServer, number: int) -> Wire:
    """A client with an address of its own."""
    source = (f"127.0.1.{number + 1}", 0)
    connection = socket.create_connection((server.host, server.port), source_address=source)
    client = Wire(connection, None, f"till-{number}")
    stage.clients.append(client)
    client.send_connect()
    return client


ALL = (
    incident_loop,
    incident_interest,
    incident_twice,
    incident_oversized,
    incident_expired,
    incident_storm,
)
