"""Captures of what lies between TCP and NATS: S2, WebSocket in its forms, TLS with its secrets."""

from __future__ import annotations

import random
import ssl
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.support.certificates import Authority
from tests.support.damage import read_pcap
from tests.support.link_scenarios import ACCOUNTS, SHOP, across_leaf, wait_parsed
from tests.support.odd_scenarios import echo
from tests.support.packets import place_of
from tests.support.pcapwriter import Interface, Record, pcapng_file, with_secrets
from tests.support.servers import NatsServer
from tests.support.stage import Stage
from tests.support.tls_relay import TlsRelay
from tests.support.wire import DeflatedWebSocket, WebSocket, Wire

WORDS = "order shipped cancelled paid invoice tea coffee crate pallet north south pending".split()


def prose(seed: int, size: int) -> bytes:
    """Text that compresses about as well as JSON does."""
    rng = random.Random(seed)
    text = " ".join(f"{rng.choice(WORDS)}={rng.randrange(1000)}" for _ in range(size // 8 + 1))
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
        wait_parsed(servers[0], "r", r"RS\+ SHOP news\.\*")
        wait_parsed(servers[0], "l", r"LS\+ news\.\*")
        for number, size in enumerate((0, 40, 400, 4_000, 12_000)):
            one.pub("news.text", prose(number, size), headers=[("Number", str(number))])
        one.pub("news.noise", random.Random(7).randbytes(3_000))
        one.pub("news.zero", bytes(20_000))
        for client in (two, branch):
            client.expect("MSG", "news.zero")
        one.sub("_INBOX.one")
        one.flush()
        wait_parsed(servers[1], "r", r"RS\+ SHOP _INBOX\.one")
        one.pub("news.who", b"?", reply="_INBOX.one")
        two.respond(b"two", "news.who")
        one.expect("MSG", "_INBOX.one")
        for client in (one, two, branch):
            client.flush()
            client.close()
        wait_parsed(servers[0], "r", r"RS- SHOP news\.\*")


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
                _exchange(client, number == 1)
                assert isinstance(client.connection, ssl.SSLSocket)
                session = client.connection.session
                client.close()
        context = _context(authority, keys, *SUITES["tls13"])
        client = stage.client(first, "tls-first", handshake=False, tls=context)
        _exchange(client, True)
        client.close()
        client = stage.client(
            server,
            "wss",
            handshake=False,
            tls=context,
            port=server.websocket_port,
            wrap=lambda connection: WebSocket(connection, "localhost:8443"),
        )
        _exchange(client, True)
        client.abandon()  # the server would answer close_notify with a WebSocket close frame


def _exchange(client: Wire, is_first: bool) -> None:
    client.connect(tls_required=True)
    if is_first:
        echo(client)
    else:
        client.pub("greet.again", b"hello")
    client.flush()


def tls_links(stage: Stage) -> None:
    """A route, gateways and a leafnode in TLS. Servers write no key log, but a relay between two of them
    does; the capture has its connections to the accepting servers."""
    authority = Authority(stage.temporary())
    paths = authority.issue("server", "127.0.0.1")
    keys = stage.folder / "tls-links.keylog"
    tls = f'tls {{ {paths.config}, ca_file: "{authority.cert}", timeout: 10 }}'

    def relay(port: int, greets: bool = False, version: str = "TLSv1_3") -> str:
        return stage.relay(
            TlsRelay(
                port, paths, authority.cert, keys, greets=greets, version=ssl.TLSVersion[version]
            )
        )

    with stage.capturing("tls-links.pcapng"):
        for first, second, letter in (
            _route(stage, tls, relay),
            _gateways(stage, tls, relay),
            _leafnode(stage, tls, relay),
        ):
            _cross(stage, first, second, letter)
    _keep_links(stage, stage.folder / "tls-links.pcapng", keys)


LINK_PORTS = {6221, 7221, 7222, 7422}
Pair = tuple[NatsServer, NatsServer, str]
Relay = Callable[..., str]


def _route(stage: Stage, tls: str, relay: Relay) -> Pair:
    section = f"name: shops, {tls}, pool_size: -1, compression: s2_better"
    alone = f"cluster {{ {section}, listen: 127.0.0.1:6221, no_advertise: true }}\n"
    first = stage.server(alone + ACCOUNTS, name="shop-1", port=4221)
    routes = f'listen: 127.0.0.1:6222, routes: ["nats://{relay(6221)}"]'
    second = stage.server(
        f"cluster {{ {section}, {routes} }}\n" + ACCOUNTS, name="shop-2", port=4222
    )
    second.wait_log(r"rid:\d+ [^\n]*->> \[PING\]")
    return first, second, "r"


def _gateways(stage: Stage, tls: str, relay: Relay) -> Pair:
    east, west = (relay(port, version="TLSv1_2") for port in (7221, 7222))
    servers = []
    for number, (name, own) in enumerate((("east", east), ("west", west)), 1):
        remotes = (
            f'{{ name: east, urls: ["nats://{east}"] }}, {{ name: west, urls: ["nats://{west}"] }}'
        )
        section = f'name: {name}, listen: 127.0.0.1:722{number}, advertise: "{own}", {tls}'
        config = (
            f"gateway {{ {section}, gateways: [ {remotes} ] }}\nsystem_account: SYS\n{ACCOUNTS}"
        )
        servers.append(stage.server(config, name=f"{name}-1", port=4222 + number))
    for server in servers:
        server.wait_log(r"Inbound gateway connection [^\n]*registered")
        server.wait_log(r"Outbound gateway connection [^\n]*registered")
        server.wait_log(r"(?s)(?:gid:\d+ [^\n]*->> \[PING\].*?){2}")
    return servers[0], servers[1], "g"


def _leafnode(stage: Stage, tls: str, relay: Relay) -> Pair:
    listen = f"leafnodes {{ listen: 127.0.0.1:7422, {tls}, compression: off }}\n"
    hub = stage.server(listen + ACCOUNTS, name="hub", port=4225)
    remote = f'url: "tls://shop:s3cret@{relay(7422, greets=True)}", {tls}, compression: off'
    spoke = stage.server(f"leafnodes {{ remotes: [ {{ {remote} }} ] }}\n", name="spoke", port=4226)
    spoke.wait_log(r"lid:\d+ [^\n]*Leafnode connection created")
    return hub, spoke, "l"


def _cross(stage: Stage, first: NatsServer, second: NatsServer, letter: str) -> None:
    """Messages from the first server to the second, and a request."""
    one = stage.client(first, first.name, login=SHOP)
    two = stage.client(second, second.name, login=None if letter == "l" else SHOP)
    two.sub("news.*")
    two.flush()
    wait_parsed(first, letter, r"[RL]S\+ (?:SHOP )?news\.\*")
    one.pub("news.text", prose(1, 700), headers=[("Number", "1")])
    one.pub("news.noise", random.Random(7).randbytes(3_000))
    two.expect("MSG", "news.noise")
    one.sub("_INBOX.one")
    one.flush()
    if letter != "g":  # a gateway maps the reply instead
        wait_parsed(second, letter, r"[RL]S\+ (?:SHOP )?_INBOX\.one")
    one.pub("news.who", b"?", reply="_INBOX.one")
    two.respond(b"two", "news.who")
    one.expect("MSG", "_INBOX.one")
    for client in (two, one):
        client.flush()
        client.close()
    wait_parsed(first, letter, r"[RL]S- (?:SHOP )?news\.\*")


def _keep_links(stage: Stage, path: Path, keys: Path) -> None:
    """Leaves out the connections of clients and to relays, and puts the secrets into the capture."""
    whole = read_pcap(path.read_bytes())
    kept = [
        Record(each.ts_ns, each.data, each.length)
        for each in whole.records
        if (place := place_of(each, whole.linktype))
        and not LINK_PORTS.isdisjoint(struct.unpack("!HH", place.key[-4:]))
    ]
    plain = pcapng_file(kept, [Interface(whole.linktype, tsresol=9)])
    path.write_bytes(with_secrets(plain, keys.read_bytes()))
    truth = stage.truth[path.name]
    connections = truth["connections"]
    assert isinstance(connections, dict)
    truth["packets"] = len(kept)
    truth["connections"] = {
        place: each for place, each in connections.items() if each["kind"] != "client"
    }


ALL = [s2, websocket_deflate, leafnode_websocket, tls_keys, tls_links]
