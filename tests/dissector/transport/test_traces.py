"""Under load, the frames of connections in TLS, WebSocket and S2 are what the server's own trace lists."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import natsync
from dissect.nats import FrameRecord, Options
from dissect.nats.pipeline import records
from dissect.nats.schema.records import SessionRecord

from tests.bench.tap import Tap
from tests.support.certificates import Authority
from tests.support.servers import NatsServer, require_server
from tests.support.transport_scenarios import prose

pytestmark = pytest.mark.server

TIMEOUT = 20.0
MESSAGES = 600
TRACED = re.compile(r"\b([cglrw]id(?:_ws)?:\d+) .*?<<- \[([^ \]]+)([^\]]*)\]$", re.MULTILINE)
WITH_ACCOUNT = {"RMSG", "HMSG"}
WITH_PAYLOAD = {"PUB", "HPUB", "RMSG", "HMSG", "LMSG"}
Read = tuple[str, str, str]
"""The operation, the subject and the size in bytes; empty where it has none."""


def publish(client: natsync.Client) -> None:
    """Messages of many sizes, now and then flushed, so that they are cut and packed in many ways."""
    for number in range(MESSAGES):
        payload = prose(number, number * 37 % 1_500)
        headers = {"Number": str(number)} if number % 7 == 0 else None
        client.publish(f"load.{number % 50}", payload, headers=headers)
        if number % 25 == 0:
            client.flush(TIMEOUT)
    client.flush(TIMEOUT)


def traced(log: str) -> dict[str, list[Read]]:
    """What the server read on each connection."""
    found: dict[str, list[Read]] = {}
    for connection, op, rest in TRACED.findall(log):
        words = rest.split()
        if op in WITH_PAYLOAD:
            # On a route, the account comes before the subject.
            subject = (
                words[1]
                if op in WITH_ACCOUNT and connection.startswith(("rid", "gid"))
                else words[0]
            )
            found.setdefault(connection, []).append((op, subject, words[-1]))
        else:
            found.setdefault(connection, []).append((op, "", ""))
    return found


def dissected(path: Path, options: Options) -> tuple[list[list[Read]], set[str]]:
    """The frames of each direction of each connection, and what they came through."""
    found: dict[tuple[str, str], list[Read]] = {}
    layers = set()
    for row in records([str(path)], ("frames", "sessions"), options):
        if isinstance(row, FrameRecord):
            size = str((row.header_bytes or 0) + (row.payload_bytes or 0))
            read = (row.op, row.subject or "", size) if row.op in WITH_PAYLOAD else (row.op, "", "")
            if row.op == "INFO":  # no trace lists what servers read of it
                continue
            found.setdefault((row.session, row.sender), []).append(read)
        elif isinstance(row, SessionRecord):
            layers.add(f"{row.transport} {row.tls_version or ''} {row.compression or ''}".strip())
    return list(found.values()), layers


def check(log: str, path: Path, options: Options, layers: set[str]) -> None:
    """Every connection whose load the server's log has is a direction of the capture, frame by frame.

    The log was read before the connections were closed, so a direction may go on.
    """
    directions, found = dissected(path, options)
    assert found == layers
    loaded = [
        reads for reads in traced(log).values() if sum("load." in read[1] for read in reads) > 100
    ]
    assert loaded
    for reads in loaded:
        assert any(reads == frames[: len(reads)] for frames in directions), reads[:10]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize(
    "scheme, version, layers",
    [
        ("tls", ssl.TLSVersion.TLSv1_2, "tls 1.2"),
        ("tls", ssl.TLSVersion.TLSv1_3, "tls 1.3"),
        ("tls in time", ssl.TLSVersion.TLSv1_3, "tls 1.3"),
        ("tls late", ssl.TLSVersion.TLSv1_3, "tls 1.3"),
        ("wss", ssl.TLSVersion.TLSv1_3, "websocket+tls 1.3"),
        ("ws", None, "websocket"),
        ("ws", None, "websocket  deflate"),
    ],
    ids=["TLS 1.2", "TLS 1.3", "TLS before the delay", "TLS after it", "wss", "ws", "deflate"],
)
def test_connections_of_a_client_give_the_frames_of_the_trace(
    scheme: str,
    version: ssl.TLSVersion | None,
    layers: str,
    authority: Authority,
    tmp_path: Path,
) -> None:
    require_server("current")
    keys, path = tmp_path / "keys", tmp_path / "load.pcap"
    paths = authority.issue("server", "localhost", "127.0.0.1")
    secured = f"tls {{ {paths.config} }}"
    config = {
        "tls": secured,
        # The server waits so long for TLS before it sends INFO in the clear.
        "tls in time": f'tls {{ {paths.config}, handshake_first: "20s" }}',
        "tls late": f'tls {{ {paths.config}, handshake_first: "1ms" }}',
        "wss": f"websocket {{ listen: 127.0.0.1:-1, {secured} }}",
        "ws": "websocket { listen: 127.0.0.1:-1, no_tls: true, compression: true }",
    }[scheme]
    tls: natsync.TLS | None = None
    if version:
        context = ssl.create_default_context(cafile=str(authority.cert))
        context.minimum_version = context.maximum_version = version
        context.keylog_filename = str(keys)
        tls = natsync.TLS(context=context, handshake_first=scheme == "tls in time")
    with NatsServer(config, trace=True) as server:
        scheme = scheme.partition(" ")[0]
        port = server.port if scheme == "tls" else server.websocket_port
        with Tap(port) as tap:
            with natsync.connect(
                f"{scheme}://127.0.0.1:{tap.port}",
                tls=tls or False,
                websocket_compression="deflate" in layers,
            ) as client:
                publish(client)
                log = server.log()
        tap.write(path, port)
    if tls and tls.context:
        setattr(tls.context, "keylog_filename", None)  # closes the file
    check(log, path, Options(keylog=[str(keys)] if version else []), {layers})


def route(stack: ExitStack, tap_to: Callable[[int], Tap]) -> tuple[NatsServer, NatsServer]:
    """Two servers of a cluster, each of which has the interest of the other."""
    section = "name: c, listen: 127.0.0.1:-1, compression: s2_better, pool_size: -1"
    alone = f"cluster {{ {section}, no_advertise: true }}"
    first = stack.enter_context(NatsServer(alone, name="a", trace=True))
    routes = f'routes: ["nats://127.0.0.1:{tap_to(first.route_port).port}"]'
    both = f"cluster {{ {section}, {routes} }}"
    return first, stack.enter_context(NatsServer(both, name="b", trace=True))


def leaf(
    stack: ExitStack, tap_to: Callable[[int], Tap], scheme: str
) -> tuple[NatsServer, NatsServer]:
    """A hub, and a server that connects to it."""
    websocket = "websocket { listen: 127.0.0.1:-1, no_tls: true, compression: true }\n"
    listen = "leafnodes { listen: 127.0.0.1:-1, compression: s2_better }\n"
    hub = stack.enter_context(NatsServer(websocket + listen, name="hub", trace=True))
    port = hub.leaf_port if scheme == "nats-leaf" else hub.websocket_port
    deflates = ", ws_compression: true" if scheme == "ws+deflate" else ""
    url = f"{scheme.partition('+')[0]}://127.0.0.1:{tap_to(port).port}"
    remote = f'{{ url: "{url}", compression: s2_better{deflates} }}'
    spoke = NatsServer(f"leafnodes {{ remotes: [ {remote} ] }}", name="spoke", trace=True)
    return hub, stack.enter_context(spoke)


@pytest.mark.parametrize(
    "kind, layers",
    [
        ("route", "tcp  s2"),
        ("nats-leaf", "tcp  s2"),
        ("ws", "websocket  s2"),
        ("ws+deflate", "websocket  deflate"),
    ],
)
def test_links_between_servers_give_the_frames_of_the_trace(
    kind: str, layers: str, tmp_path: Path
) -> None:
    require_server("current")
    path, taps = tmp_path / "load.pcap", []
    with ExitStack() as stack:

        def tap_to(port: int) -> Tap:
            taps.append(stack.enter_context(Tap(port)))
            return taps[0]

        hub, spoke = route(stack, tap_to) if kind == "route" else leaf(stack, tap_to, kind)
        with natsync.connect(hub.url) as here, natsync.connect(spoke.url) as there:
            with here.subscribe("load.>") as sub:
                here.flush(TIMEOUT)
                letter = "r" if kind == "route" else "l"
                spoke.wait_log(rf"{letter}id(?:_ws)?:\d+ .*<<- \[[RL]S\+ .*load\.>")
                publish(there)
                for _ in range(MESSAGES):
                    sub.next_msg(TIMEOUT)
            log = hub.log()
    taps[0].write(path, 7422)
    check(log, path, Options(), {layers})
