"""What happens in the captures with clients on one server: the stories that are recorded."""

from __future__ import annotations

import asyncio
import base64
import binascii
import functools
import importlib
import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.support import (
    incident_scenarios,
    jetstream_incidents,
    jetstream_scenarios,
    link_incidents,
    link_scenarios,
    odd_scenarios,
    store_scenarios,
    streaming_scenarios,
    transport_scenarios,
    trouble_scenarios,
)
from tests.support.servers import NatsServer, Which
from tests.support.stage import Stage
from tests.support.wire import Wire

Scenario = Callable[[Stage], None]

ORDER = {"id": 1001, "item": "Grüner Tee", "quantity": 3}


def core(stage: Stage, which: Which) -> None:
    """Everything a client can say on a server without authorization."""
    server = stage.server(which=which)
    with stage.capturing(f"core-{server.version}.pcap"):
        warehouse = stage.client(server, "warehouse")
        billing = [stage.client(server, f"billing-{number}") for number in (1, 2)]
        shop = stage.client(server, "shop")
        publish_and_subscribe(warehouse, billing, shop)
        headers_and_sizes(warehouse, shop)
        requests(warehouse, shop)
        auto_unsubscribe(warehouse, shop)
        verbose_without_headers(stage, server, shop)
        pieces_and_batches(warehouse, shop)
        asyncio.run(nats_py(server.url))
        # The server's own early PING, about two seconds after the CONNECT, answered like any other.
        warehouse.expect("PING")
        for client in (*billing, warehouse):
            client.close()
        crashed = stage.client(server, "crashed")
        crashed.sub("orders.>")
        crashed.flush()
        crashed.reset()
        shop.flush()  # and stays connected


def publish_and_subscribe(warehouse: Wire, billing: list[Wire], shop: Wire) -> None:
    """A wildcard, a full wildcard, and a queue group of two."""
    warehouse.sub("orders.*")
    warehouse.sub("orders.>")
    warehouse.flush()
    for member in billing:
        member.sub("orders.created", queue="billing")
        member.flush()
    order = json.dumps(ORDER, ensure_ascii=False).encode()
    for _ in range(4):
        shop.pub("orders.created", order)
    shop.pub("orders.cancelled.late", b"1001")
    shop.pub("orders.größe", "Maßband".encode())
    shop.pub("orders.paid")
    shop.flush()
    for _ in range(2 * 4):
        warehouse.expect("MSG", "orders.created")
    warehouse.expect("MSG", "orders.cancelled.late")
    for subject in ("orders.größe", "orders.paid"):
        warehouse.expect("MSG", subject)
        warehouse.expect("MSG", subject)
    for member in billing:
        member.flush()  # who got how many of the four is the server's choice


def headers_and_sizes(warehouse: Wire, shop: Wire) -> None:
    """Headers with several values, without payload, without names; payloads above one segment."""
    warehouse.sub("stock.*")
    warehouse.flush()
    trail = [("Trace-Id", "7f3a"), ("Via", "till-1"), ("Via", "till-2"), ("X-Empty", "")]
    shop.pub("stock.changed", b'{"item": 17, "left": 4}', headers=trail)
    shop.pub("stock.changed", headers=[("Nats-Msg-Id", "stock-2")])
    shop.pub("stock.changed", b"no header in the block", headers=[])
    shop.pub("stock.catalog", random.Random(1).randbytes(20_000))
    # A payload that looks like the protocol must not fool anybody.
    shop.pub("stock.quoted", b"as seen on the wire:\r\nMSG stock.changed 9 2\r\nhi\r\nPING\r\n")
    shop.flush()
    for _ in range(3):
        warehouse.expect("HMSG", "stock.changed")
    warehouse.expect("MSG", "stock.catalog")
    warehouse.expect("MSG", "stock.quoted")


def requests(warehouse: Wire, shop: Wire) -> None:
    """A request with one answer, one with three, one that nobody serves, one without an answer."""
    warehouse.sub("price.*")
    warehouse.flush()
    inbox = "_INBOX.Qx7Y2mZkP1aB3cD4eF5gH6"
    sid = shop.sub(f"{inbox}.*")
    shop.pub("price.get", b"17", reply=f"{inbox}.1")
    warehouse.respond(b"2.40", "price.get")
    shop.expect("MSG", f"{inbox}.1")
    shop.pub("price.get", b"18", reply=f"{inbox}.2", headers=[("Currency", "EUR")])
    request = warehouse.expect("HMSG", "price.get")
    warehouse.pub(request.reply, b"3.10", headers=[("Currency", "EUR")])
    shop.expect("HMSG", f"{inbox}.2")
    shop.pub("nobody.home", b"?", reply=f"{inbox}.3")
    shop.expect("HMSG", f"{inbox}.3")
    shop.pub("price.slow", b"19", reply=f"{inbox}.4")
    warehouse.expect("MSG", "price.slow")  # and does not answer
    shop.unsub(sid)
    old_style = shop.sub(f"{inbox}X")
    shop.unsub(old_style, 3)
    shop.pub("price.list", b"", reply=f"{inbox}X")
    asked = warehouse.expect("MSG", "price.list")
    for answer in (b"17 2.40", b"18 3.10", b""):
        warehouse.pub(asked.reply, answer)
    for _ in range(3):
        shop.expect("MSG", f"{inbox}X")


def auto_unsubscribe(warehouse: Wire, shop: Wire) -> None:
    """UNSUB with a maximum of 2: the third message is not delivered."""
    sid = warehouse.sub("alarm")
    warehouse.unsub(sid, 2)
    warehouse.flush()
    for number in range(3):
        shop.pub("alarm", b"%d" % number)
    shop.flush()
    warehouse.flush()


def verbose_without_headers(stage: Stage, server: NatsServer, shop: Wire) -> None:
    """A client that wants +OK for all and knows no headers: it gets MSG where others get HMSG."""
    old = stage.client(
        server, "old-till", verbose=True, pedantic=True, headers=None, no_responders=None
    )
    old.sub("till.*")
    old.expect("+OK")
    old.pub("till.opened", b"08:00")
    old.expect("MSG", "till.opened")
    shop.pub("till.message", b"sale!", headers=[("Priority", "high")])
    old.expect("MSG", "till.message")
    old.sub("till..broken")
    old.expect("-ERR")
    old.unsub(1)
    old.expect("+OK")
    old.close()


def pieces_and_batches(warehouse: Wire, shop: Wire) -> None:
    """One message in many segments, and many messages in one."""
    shop.piece = 7
    shop.pub("stock.trickle", b"a frame in many segments", headers=[("Part", "1")])
    shop.piece = 0
    warehouse.expect("HMSG", "stock.trickle")
    with shop.batch():
        for number in range(20):
            shop.pub(f"stock.{number}", b"x" * number)
    for number in range(20):
        warehouse.expect("MSG", f"stock.{number}")


async def nats_py(url: str) -> None:
    """The public Python client at its usual work."""
    nats = importlib.import_module("nats")  # only recording needs it
    client = await nats.connect(url, name="nats-py")
    answers = await client.subscribe("weather.*")

    questions = await client.subscribe("forecast")
    await client.publish("weather.today", b"rain", headers={"Station": "north"})
    await answers.next_msg(timeout=10)
    asked = asyncio.create_task(client.request("forecast", b"tomorrow", timeout=10))
    await (await questions.next_msg(timeout=10)).respond(b"sunny")
    await asked
    await answers.unsubscribe()
    await client.drain()


AUTH = """
authorization {
    users: [
        { user: alice, password: s3cret }
        { user: bob, password: "hunter2", permissions: {
            publish: { allow: ["public.>", "_INBOX.>"] }
            subscribe: { deny: "private.>" } } }
        { nkey: UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK }
    ]
}
"""
NKEY_SEED = bytes(range(32))
NKEY_USER = 20 << 3  # makes the text start with U
ED25519_PKCS8 = bytes.fromhex(
    "302e020100300506032b657004220420"
)  # RFC 8410: what precedes the seed


def auth(stage: Stage, which: Which) -> None:
    """Allowed, half allowed and refused, on ports that are nobody's default."""
    users = stage.server(AUTH, which=which, name="users", port=14222)
    token = stage.server(
        'authorization { token: "t0ken-for-all" }', which=which, name="token", port=24222
    )
    with stage.capturing(f"auth-{users.version}.pcap"):
        alice = stage.client(users, "alice's desk", login=("alice", "s3cret"))
        alice.sub(">")
        bob = stage.client(users, "bob's desk", login=("bob", "hunter2"))
        bob.pub("public.news", b"hello")
        alice.expect("MSG", "public.news")
        bob.pub("private.diary", b"dear diary")
        bob.expect("-ERR")
        bob.sub("private.diary")
        bob.expect("-ERR")
        bob.sub("private.diary", queue="readers")
        bob.expect("-ERR")
        bob.close()
        alice.flush()
        alice.close()
        intruder = stage.client(users, "intruder", handshake=False)
        intruder.send_connect(user="alice", **{"pass": "guess"})
        intruder.expect("-ERR")
        intruder.until_closed()
        early = stage.client(users, "early", handshake=False)
        early.pub("public.news", b"no CONNECT before")
        early.expect("-ERR")
        early.until_closed()
        key = stage.client(users, "key holder", handshake=False)
        key.connect(**nkey_credentials(stage.temporary(), str(key.info["nonce"])))
        key.pub("public.signed", b"yes")
        key.flush()
        key.close()
        guest = stage.client(token, "guest", auth_token="t0ken-for-all")
        guest.pub("public.token")
        guest.flush()
        guest.close()
        stranger = stage.client(token, "stranger", handshake=False)
        stranger.send_connect(auth_token="wr0ng")
        stranger.expect("-ERR")
        stranger.until_closed()


def nkey_credentials(folder: Path, nonce: str) -> dict[str, object]:
    """What an nkey user sends: the public key (base32, with a checksum) and the signed nonce."""
    key, text = folder / "key.der", folder / "nonce"
    key.write_bytes(ED25519_PKCS8 + NKEY_SEED)
    text.write_text(nonce)
    openssl = f"openssl pkey -in {key} -inform DER -pubout -outform DER"
    public = subprocess.run(openssl.split(), check=True, capture_output=True).stdout[-32:]
    openssl = f"openssl pkeyutl -sign -rawin -in {text} -inkey {key} -keyform DER"
    signature = subprocess.run(openssl.split(), check=True, capture_output=True).stdout
    user = bytes([NKEY_USER]) + public
    user += binascii.crc_hqx(user, 0).to_bytes(2, "little")
    return {
        "nkey": base64.b32encode(user).decode().rstrip("="),
        "sig": base64.urlsafe_b64encode(signature).decode().rstrip("="),
    }


def both(scenario: Callable[[Stage, Which], None]) -> dict[str, Scenario]:
    """The scenario with the current and with the old server."""
    versions: tuple[Which, Which] = ("current", "old")
    return {
        f"{scenario.__name__}-{which}": functools.partial(_with, scenario, which)
        for which in versions
    }


def _with(scenario: Callable[[Stage, Which], None], which: Which, stage: Stage) -> None:
    scenario(stage, which)


SCENARIOS: dict[str, Scenario] = {
    **both(core),
    **both(auth),
    **both(link_scenarios.cluster),
    **both(link_scenarios.gateway),
    **both(link_scenarios.leafnode),
    **both(link_scenarios.leafcluster),
    "leafnode_s2": link_scenarios.leafnode_s2,
    **{scenario.__name__: scenario for scenario in odd_scenarios.ALL},
    **{scenario.__name__: scenario for scenario in trouble_scenarios.ALL},
    **{scenario.__name__: scenario for scenario in jetstream_scenarios.ALL},
    **{scenario.__name__: scenario for scenario in incident_scenarios.ALL},
    **{scenario.__name__: scenario for scenario in jetstream_incidents.ALL},
    **{scenario.__name__: scenario for scenario in link_incidents.ALL},
    **{scenario.__name__: scenario for scenario in store_scenarios.ALL},
    **{scenario.__name__: scenario for scenario in streaming_scenarios.ALL},
    **{scenario.__name__: scenario for scenario in transport_scenarios.ALL},
}
