"""Routes, gateways and leafnodes inside TLS, decrypted: the same frames as without TLS, and in the trace of
the server."""

from __future__ import annotations

import ssl
from collections import Counter
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import pytest

import natsync
from dissect.nats import FrameRecord, Options
from dissect.nats.capture import CaptureReport, read_packets
from dissect.nats.pipeline import records
from dissect.nats.schema.records import AnomalyRecord, FlowRecord, Record, SessionRecord

from tests.bench.tap import write_connections
from tests.dissector.transport.test_traces import MESSAGES, TIMEOUT, check, publish
from tests.support.certificates import Authority
from tests.support.partitioned import in_one, in_partitions
from tests.support.pcapwriter import Record as Packet
from tests.support.pcapwriter import pcap_file
from tests.support.servers import NatsServer, Which, require_server
from tests.support.tls_relay import TlsRelay

pytestmark = pytest.mark.server

PORT = 7422
SHAKEN = 80  # packets, by when every connection is in the midst of its traffic
TLS_12, TLS_13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
TRACED = {"route": "r", "gateway": "g", "leaf": "l", "leaf first": "l", "leaf wss": "l"}
# When a packet came, where in the file it stands, and which connection that makes of it; how the directions
# alternate, which is not the same on both sides of a relay.
PLACE = {"session", "ts_ns", "packet", "capture", "number"}


class Link(NamedTuple):
    """How two servers are linked."""

    kind: str
    which: Which
    version: ssl.TLSVersion
    layers: str
    mutual: bool = True
    more: str = ""


LINKS = [
    Link("route", "current", TLS_13, "tls 1.3"),
    Link("route", "current", TLS_12, "tls 1.2 s2", more=", compression: s2_better"),
    Link("route", "old", TLS_13, "tls 1.3"),
    Link("gateway", "current", TLS_13, "tls 1.3"),
    Link("gateway", "old", TLS_12, "tls 1.2"),
    Link("leaf", "current", TLS_13, "tls 1.3 s2", mutual=False),
    Link("leaf", "current", TLS_12, "tls 1.2", more=", compression: off"),
    Link("leaf", "old", TLS_13, "tls 1.3"),
    Link("leaf first", "current", TLS_13, "tls 1.3 s2"),
    Link("leaf wss", "current", TLS_13, "websocket+tls 1.3 s2"),
]


class Linked:
    """Two servers with a relay between them: `spoke` connects to `hub`."""

    def __init__(self, stack: ExitStack, link: Link, folder: Path) -> None:
        self._stack = stack
        self._link = link
        authority = Authority(folder)
        self._paths = authority.issue("server", "127.0.0.1")
        self._ca = authority.cert
        self.keys = folder / "keys"
        self.hub, self.relay, self.spoke = getattr(self, "_" + link.kind.split()[0])()

    def _tls(self, more: str = "") -> str:
        verify = ", verify: true" if self._link.mutual else ""
        return f'tls {{ {self._paths.config}, ca_file: "{self._ca}"{verify}, timeout: 10{more} }}'

    def _server(self, name: str, config: str) -> NatsServer:
        server = NatsServer(config, which=self._link.which, name=name, trace=True)
        return self._stack.enter_context(server)

    def _relay(self, port: int, greets: bool = False) -> TlsRelay:
        link = self._link
        return self._stack.enter_context(
            TlsRelay(
                port,
                self._paths,
                self._ca,
                self.keys,
                greets=greets,
                mutual=link.mutual,
                version=link.version,
            )
        )

    def _route(self) -> tuple[NatsServer, TlsRelay, NatsServer]:
        pool = "" if self._link.which == "old" else ", pool_size: -1"
        section = f"name: c, listen: 127.0.0.1:-1, {self._tls()}{pool}{self._link.more}"
        hub = self._server("a", f"cluster {{ {section}, no_advertise: true }}")
        relay = self._relay(hub.route_port)
        routes = f'routes: ["nats://127.0.0.1:{relay.port}"]'
        return hub, relay, self._server("b", f"cluster {{ {section}, {routes} }}")

    def _gateway(self) -> tuple[NatsServer, TlsRelay, NatsServer]:
        section = f"listen: 127.0.0.1:-1, {self._tls()}"
        hub = self._server("west-1", f"gateway {{ name: west, {section} }}")
        relay = self._relay(hub.gateway_port)
        remote = f'{{ name: west, urls: ["nats://127.0.0.1:{relay.port}"] }}'
        spoke = self._server("east-1", f"gateway {{ name: east, {section}, gateways: [{remote}] }}")
        return hub, relay, spoke

    def _leaf(self) -> tuple[NatsServer, TlsRelay, NatsServer]:
        kind, more = self._link.kind, self._link.more
        first = ", handshake_first: true" if kind == "leaf first" else ""
        listen = f"leafnodes {{ listen: 127.0.0.1:-1, {self._tls(first)}{more} }}\n"
        websocket = f"websocket {{ listen: 127.0.0.1:-1, {self._tls()} }}\n"
        hub = self._server("hub", listen + (websocket if kind == "leaf wss" else ""))
        port = hub.websocket_port if kind == "leaf wss" else hub.leaf_port
        relay = self._relay(port, greets=kind == "leaf")
        scheme = "wss" if kind == "leaf wss" else "tls"
        remote = f'url: "{scheme}://127.0.0.1:{relay.port}", {self._tls(first)}{more}'
        return hub, relay, self._server("spoke", f"leafnodes {{ remotes: [ {{ {remote} }} ] }}")


def conversation(linked: Linked, letter: str) -> str:
    """A load from the spoke to the hub; returns the hub's log."""
    hub, spoke = linked.hub, linked.spoke
    with natsync.connect(hub.url) as here, natsync.connect(spoke.url) as there:
        with here.subscribe("load.>") as sub:
            here.flush(TIMEOUT)
            spoke.wait_log(rf"{letter}id(?:_ws)?:\d+ .*<<- \[[RL]S\+ .*load\.>")
            publish(there)
            for _ in range(MESSAGES):
                sub.next_msg(TIMEOUT)
        return hub.log()


def rows(path: Path, options: Options) -> list[Record]:
    return list(records([str(path)], ("frames", "sessions", "flows", "anomalies"), options))


def frames(found: list[Record]) -> list[tuple[object, ...]]:
    """The values of all columns of each frame, direction by direction, without its time and place."""
    names = [field.name for field in fields(FrameRecord) if field.name not in PLACE]
    kept = [row for row in found if isinstance(row, FrameRecord)]
    order = {row.session: row.originator for row in found if isinstance(row, SessionRecord)}
    kept.sort(key=lambda row: (order[row.session], row.sender, row.number))
    return [tuple(getattr(row, name) for name in names) for row in kept]


Content = tuple[object, ...]


def contents(found: list[Record]) -> Counter[Content]:
    """The whole messages."""
    return Counter(
        (row.sender, row.op, row.subject, row.reply, row.payload_sha256)
        for row in found
        if isinstance(row, FrameRecord) and row.captured_bytes is None and row.payload_sha256
    )


def with_losses(path: Path, lossy: Path) -> None:
    """A copy of a capture that lacks a few large packets, but none of a handshake."""
    packets = list(read_packets([str(path)], CaptureReport()))
    large = [at for at, each in enumerate(packets) if at >= SHAKEN and len(each.data) > 1_000]
    lost = set(large[10::80])
    kept = [each for at, each in enumerate(packets) if at not in lost]
    lossy.write_bytes(pcap_file([Packet(each.ts_ns, each.data) for each in kept]))


@pytest.mark.parametrize(
    "link", LINKS, ids=lambda link: f"{link.kind}, {link.which}, {link.layers}"
)
def test_servers_in_tls(link: Link, tmp_path: Path) -> None:
    require_server(link.which)
    with ExitStack() as stack:
        linked = Linked(stack, link, tmp_path)
        log = conversation(linked, TRACED[link.kind])
        keys, relay = linked.keys, linked.relay
    options = Options(payload="sha256", keylog=[str(keys)])
    near, far, clear = (tmp_path / f"{name}.pcap" for name in ("near", "far", "clear"))
    write_connections(clear, relay.clear, PORT)
    wanted = frames(rows(clear, Options(payload="sha256")))
    assert len(wanted) > MESSAGES
    for path, connections in ((near, relay.near), (far, relay.far)):
        write_connections(path, connections, PORT)
        found = rows(path, options)
        assert frames(found) == wanted
        odd = {row.anomaly for row in found if isinstance(row, AnomalyRecord)}
        assert odd == {"tls_certificate"}  # the times of these captures are older than certificates
        kinds = {row.kind for row in found if isinstance(row, SessionRecord)}
        assert kinds == {{"leaf": "leafnode"}.get(link.kind.split()[0], link.kind)}
        clients = {row.tls_client_subject for row in found if isinstance(row, FlowRecord)}
        assert clients == ({"CN=server"} if link.mutual else {None})
        check(log, path, options, {link.layers})
    whole = contents(rows(near, options))
    with_losses(near, tmp_path / "lossy.pcap")
    left = contents(rows(tmp_path / "lossy.pcap", options))
    assert not left - whole
    assert whole.total() // 3 < left.total() < whole.total()
    assert in_partitions([str(near)], 100_000, options=options) == in_one(
        [str(near)], options=options
    )
