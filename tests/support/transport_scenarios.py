"""Captures of what lies between TCP and NATS: S2, WebSocket in its forms, TLS with its secrets."""

from __future__ import annotations

import random
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.support.certificates import Authority
from tests.support.link_scenarios import ACCOUNTS, SHOP, across_leaf, heard
from tests.support.odd_scenarios import echo
from tests.support.servers import NatsServer
from tests.support.stage import Stage
from tests.support.wire import DeflatedWebSocket, WebSocket, Wire

WORDS = "order shipped cancelled paid invoice tea coffee crate pallet north south pending".split()


def prose(seed: int, size: int) -> bytes:
    """Text that compresses about as well as JSON does."""
    dice = random.Random(seed)
    text = " ".join(f"{dice.choice(WORDS)}={dice.randrange(1000)}" for _ in range(size // 8 + 1))
    return text.encode()[:size]


def s2(stage: Stage) -> None:
    """Two clustered servers with one mode of S2, and a leafnode with another."""
    servers: list[NatsServer] = []
    with stage.capturing("s2-2.15.1.pcap"):
        for number in (1, 2):
            routes = "" if number == 1 else '"nats://127.0.0.1:6221"'
            section = f"cluster {{ name: shops, listen: 127.0.0.1:622{number}, pool_size: 1,"
            section += f" compression: s2_better, routes: [{routes}] }}\n"
            if number == 1:
                section += "leafnodes { listen: 127.0.0.1:7422, compression: s2_best }\n"
            servers.append(
                stage.server(section + ACCOUNTS, name=f"shop-{number}", port=4220 + number)
            )
        servers[1].wait_log(r"rid:\d+ [^\n]*->> \[PING\]")
        url = "nats-leaf://shop:s3cret@127.0.0.1:7422"
        remote = f'leafnodes {{ remotes: [ {{ url: "{url}", compression: s2_best }} ] }}\n'
        spoke = stage.server(remote, name="spoke", port=4223)
        spoke.wait_log(r"lid:\d+ [^\n]*Leafnode connection created")
        one, two = (stage.client(server, server.name, login=SHOP) for server in servers)
        branch = stage.client(spoke, "branch")
        two.sub("news.*")
        branch.sub("news.*")
        two.flush()
        branch.flush()
        heard(servers[0], "r", r"RS\+ SHOP news\.\*")
        heard(servers[0], "l", r"LS\+ news\.\*")
        for number, size in enumerate((0, 40, 400, 4_000, 12_000)):
            one.pub("news.text", prose(number, size), headers=[("Number", str(number))])
        one.pub("news.noise", random.Random(7).randbytes(3_000))
        one.pub("news.zero", bytes(20_000))
        for client in (two, branch):
            client.expect("MSG", "news.zero")
        one.sub("_INBOX.one")
        one.flush()
        heard(servers[1], "r", r"RS\+ SHOP _INBOX\.one")
        one.pub("news.who", b"?", reply="_INBOX.one")
        two.respond(b"two", "news.who")
        one.expect("MSG", "_INBOX.one")
        for client in (one, two, branch):
            client.flush()
            client.close()
        heard(servers[0], "r", r"RS- SHOP news\.\*")


def websocket_deflate(stage: Stage) -> None:
    """A client that agreed on permessage-deflate, and one that wanted no compression, on one server."""
    server = stage.server("websocket { listen: 127.0.0.1:8080, no_tls: true, compression: true }")
    wraps: list[Callable[..., WebSocket]] = [DeflatedWebSocket, WebSocket]
    with stage.capturing(f"websocket-deflate-{server.version}.pcap"):
        for name, wrap in zip(("deflated", "plain"), wraps):
            client = stage.client(
                server,
                name,
                port=server.websocket_port,
                wrap=partial(wrap, host="localhost:8080"),
            )
            echo(client)
            client.pub("greet.text", prose(1, 5_000))
            client.expect("MSG", "greet.text")
            client.close()


def leafnode_websocket(stage: Stage) -> None:
    """Leafnodes over WebSocket: S2 below the frames, and permessage-deflate in them."""
    for name, compression in (("s2", "false"), ("deflate", "true")):
        with stage.capturing(f"leafnode-websocket-{name}-2.15.1.pcap"):
            section = f"websocket {{ listen: 127.0.0.1:8080, no_tls: true, compression: {compression} }}\n"
            section += "leafnodes { listen: 127.0.0.1:7422 }\n"
            hub = stage.server(section + ACCOUNTS, name="hub", port=4222)
            remote = f'url: "ws://shop:s3cret@127.0.0.1:8080", ws_compression: {compression}'
            spoke = stage.server(
                f"leafnodes {{ remotes: [ {{ {remote} }} ] }}\n", name="spoke", port=4223
            )
            for server in (hub, spoke):
                server.wait_log(r"lid_ws:\d+ ")
            across_leaf(stage, hub, spoke)
        for server in (hub, spoke):
            stage.servers.remove(server)
            server.__exit__(None, None, None)


def _context(
    authority: Authority, keys: Path, version: ssl.TLSVersion, ciphers: str
) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.cert))
    context.minimum_version = context.maximum_version = version
    if ciphers:
        context.set_ciphers(ciphers)
    context.keylog_filename = str(keys)
    return context


SUITES = {
    "tls13": (ssl.TLSVersion.TLSv1_3, ""),
    "tls12-aes128gcm": (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-GCM-SHA256"),
    "tls12-aes256gcm": (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES256-GCM-SHA384"),
    "tls12-chacha20": (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-CHACHA20-POLY1305"),
    "tls12-cbc": (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-SHA"),
}
GO_SUITES = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
]


def tls_keys(stage: Stage) -> None:
    """A client a cipher suite, each after the clear INFO; a resumed session each; one with TLS first; wss."""
    authority = Authority(stage.temporary())
    paths = authority.issue("server", "localhost", "127.0.0.1")
    keys = stage.folder / "tls-keys-2.15.1.keylog"
    suites = ", ".join(f'"{suite}"' for suite in GO_SUITES)
    tls = f"tls {{ {paths.config}, cipher_suites: [{suites}] }}\n"
    server = stage.server(f"{tls} websocket {{ listen: 127.0.0.1:8443, {tls} }}", port=4222)
    first = stage.server(tls.replace("}", ", handshake_first: true }", 1), name="first", port=4223)
    with stage.capturing("tls-keys-2.15.1.pcap"):
        for name, (version, ciphers) in SUITES.items():
            context = _context(authority, keys, version, ciphers)
            session: ssl.SSLSession | None = None
            for number in (1, 2):
                client = stage.client(server, f"{name}-{number}", handshake=False)
                client.upgrade(context, session)
                _talk(client, number == 1)
                assert isinstance(client.connection, ssl.SSLSocket)
                session = client.connection.session
                client.close()
        context = _context(authority, keys, *SUITES["tls13"])
        client = stage.client(first, "tls-first", handshake=False, tls=context)
        _talk(client, True)
        client.close()
        client = stage.client(
            server,
            "wss",
            handshake=False,
            tls=context,
            port=server.websocket_port,
            wrap=lambda connection: WebSocket(connection, "localhost:8443"),
        )
        _talk(client, True)
        client.abandon()  # the server would answer close_notify with a WebSocket close frame


def _talk(client: Wire, is_first: bool) -> None:
    client.connect(tls_required=True)
    if is_first:
        echo(client)
    else:
        client.pub("greet.again", b"hello")
    client.flush()


ALL = [s2, websocket_deflate, leafnode_websocket, tls_keys]
