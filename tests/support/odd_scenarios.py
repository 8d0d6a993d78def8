"""Captures that are odd in transport, link type or completeness."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import platform
import random
import ssl
import subprocess
import urllib.request
from collections.abc import Callable

from tests.support.damage import harm, pcap_bytes, read_pcap, stream_offsets
from tests.support.mirror import CLIENT_SIDE, DEVICE, FAR, NEAR, Mirror
from tests.support.servers import NatsServer
from tests.support.stage import Stage
from tests.support.wire import WebSocket, Wire

SEED = 17


def tls(stage: Stage) -> None:
    """A clear INFO, then TLS on the same connection."""
    folder = stage.temporary()
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650"
    subprocess.run(
        [*command.split(), "-subj", "/CN=localhost", "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )
    server = stage.server(f'tls {{ cert_file: "{certificate}", key_file: "{key}" }}')
    context = ssl.create_default_context(cafile=str(certificate))
    context.check_hostname = False
    with stage.capturing(f"tls-{server.version}.pcap"):
        client = stage.client(server, "secretive", handshake=False)
        client.upgrade(context)
        client.connect(tls_required=True)
        echo(client)
        client.close()


def echo(client: Wire) -> None:
    """A little of everything, all on one connection."""
    client.sub("greet.*")
    client.pub("greet.world", b"hello")
    client.pub("greet.world", b"hello again", headers=[("Tone", "warm"), ("Tone", "loud")])
    client.pub("greet.all", b"." * 3000)
    client.sub("_INBOX.e.*")
    client.pub("greet.me", b"?", reply="_INBOX.e.1")
    client.respond(b"hello you", "greet.me")
    client.expect("MSG", "_INBOX.e.1")
    client.pub("nobody.home", b"?", reply="_INBOX.e.2")
    client.expect("HMSG", "_INBOX.e.2")


def websocket(stage: Stage) -> None:
    """NATS in masked WebSocket frames, without compression and without TLS."""
    server = stage.server("websocket { listen: 127.0.0.1:8080, no_tls: true }")
    with stage.capturing(f"websocket-{server.version}.pcap"):
        client = stage.client(
            server,
            "browser",
            port=server.websocket_port,
            wrap=lambda connection: WebSocket(connection, "localhost:8080"),
        )
        echo(client)
        client.close()


def jetstream(stage: Stage) -> None:
    """A stream, publishing with acknowledgement, a pull consumer; all in plain messages."""
    server = stage.server("jetstream { store_dir: $FOLDER, max_memory_store: 16MB }")
    with stage.capturing(f"jetstream-{server.version}.pcap"):
        asyncio.run(stored_orders(server.url))


async def stored_orders(url: str) -> None:
    nats = importlib.import_module("nats")  # only recording needs it
    api = importlib.import_module("nats.js.api")
    client = await nats.connect(url, name="archivist")
    js = client.jetstream()
    await js.add_stream(name="ORDERS", subjects=["orders.>"], storage=api.StorageType.MEMORY)
    for number in range(4):
        identity = {"Nats-Msg-Id": f"order-{number % 3}"}  # the last is a duplicate
        await js.publish("orders.new", b'{"id": %d}' % number, headers=identity)
    pull = await js.pull_subscribe("orders.>", "packer", config=api.ConsumerConfig(ack_wait=30))
    first, second = await pull.fetch(2, timeout=10)
    await first.ack_sync()
    await second.nak()
    for message in await pull.fetch(2, timeout=10):
        await message.ack_sync()
    with contextlib.suppress(nats.errors.TimeoutError):
        await pull.fetch(1, timeout=0.2)  # nothing is left
    await js.delete_stream("ORDERS")
    await client.drain()


def bulk(stage: Stage) -> None:
    """Some hundred messages on five connections; then the same capture with harm done to it."""
    server = stage.server()
    file = f"bulk-{server.version}.pcap"
    with stage.capturing(file):
        clients = sensors_and_readers(stage, server)
        sensor_traffic(*clients, messages=340, largest=1200)
        for client in (*clients[0], *clients[1]):
            client.flush()
            client.close()
    pcap = read_pcap((stage.folder / file).read_bytes())
    records, done = harm(pcap.records, SEED, losses=6, swaps=5, duplicates=4, smallest=100)
    damaged = stage.folder / "damaged-loss-reorder.pcap"
    damaged.write_bytes(pcap_bytes(pcap.with_records(records)))
    at = stream_offsets(pcap.records)
    stage.truth[damaged.name] = {
        "from": file,
        "packets": len(records),
        "dropped": [
            {
                "packet": position + 1,
                "stream": at[position][0].stream,
                "offset": at[position][1],
                "bytes": len(at[position][0].payload),
            }
            for position in done.dropped
        ],
        "swapped": [[first + 1, second + 1] for first, second in done.swapped],
        "duplicated": [position + 1 for position in done.duplicated],
    }


def sensors_and_readers(stage: Stage, server: NatsServer) -> tuple[list[Wire], list[Wire]]:
    """Three that publish and two that listen."""
    sensors = [stage.client(server, f"sensor-{number}") for number in (1, 2, 3)]
    readers = [stage.client(server, name) for name in ("archive", "alarm")]
    readers[0].sub("sensor.>")
    readers[1].sub("sensor.*.temperature", queue="alarms")
    for reader in readers:
        reader.flush()
    return sensors, readers


def sensor_traffic(
    sensors: list[Wire], readers: list[Wire], *, messages: int, largest: int
) -> None:
    """Batches of up to eight messages, short ones more often; the readers keep pace."""
    chance = random.Random(SEED)
    sent = 0
    while sent < messages:
        number = chance.randrange(len(sensors))
        with sensors[number].batch():
            for _ in range(chance.randint(1, 8)):
                sent += 1
                what = chance.choice(["temperature", "pressure", "state.door"])
                payload = chance.randbytes(int(largest ** chance.random()))
                headers = [("Seq", str(sent))] if chance.random() < 0.3 else None
                sensors[number].pub(f"sensor.{number + 1}.{what}", payload, headers=headers)
        sensors[number].flush()
        if chance.random() < 0.2:
            for reader in readers:
                reader.flush()


def snap96(stage: Stage) -> None:
    """Only the first 96 bytes of each packet: control lines, and payloads cut short."""
    server = stage.server()
    with stage.capturing("snap96.pcap", options=["-s", "96"]):
        clients = sensors_and_readers(stage, server)
        sensor_traffic(*clients, messages=40, largest=400)
        for client in (*clients[0], *clients[1]):
            client.flush()
            client.close()


def midstream(stage: Stage) -> None:
    """The clients were there before tcpdump; one of them was in the middle of a payload."""
    server = stage.server()
    sensors, readers = sensors_and_readers(stage, server)
    text = b"".join(b"line %d of a report\r\n" % number for number in range(1, 101))
    for client in (*sensors, *readers):
        client.flush()
    frame = b"PUB sensor.1.report %d\r\n%s\r\n" % (len(text), text)
    sensors[0].connection.sendall(frame[:700])
    with stage.capturing("midstream.pcap"):
        sensors[0].connection.sendall(frame[700:])
        readers[0].expect("MSG", "sensor.1.report")
        sensor_traffic(sensors, readers, messages=40, largest=300)
        for client in (sensors[1], readers[0]):
            client.flush()
            client.close()


def every_device(stage: Stage) -> None:
    """`tcpdump -i any`: Linux cooked, version 2 as now usual, and version 1 as it was."""
    server = stage.server()
    version_1 = ["-y", "LINUX_SLL"]
    for file, options in {"any.pcap": [], "any-v1.pcap": version_1}.items():
        with stage.capturing(file, device="any", options=options):
            client = stage.client(server, "anybody")
            echo(client)
            client.close()


def pcapng(stage: Stage) -> None:
    """Wireshark's own recorder and format."""
    server = stage.server()
    with stage.capturing("dumpcap.pcapng", program="dumpcap"):
        client = stage.client(server, "shark")
        echo(client)
        client.close()
    # dumpcap notes the kernel it ran on; that is nobody's business.
    path = stage.folder / "dumpcap.pcapng"
    kernel = platform.release().encode()
    path.write_bytes(path.read_bytes().replace(kernel, b"0" * len(kernel)))


def ipv6(stage: Stage) -> None:
    """IPv6, with times in nanoseconds, on a port of no meaning."""
    server = stage.server(host="::1", port=54222)
    with stage.capturing("ipv6.pcap", options=["--time-stamp-precision=nano"]):
        client = stage.client(server, "six")
        echo(client)
        client.close()


def rawip(stage: Stage) -> None:
    """IP without a link layer: a tun device, where a mirror makes two hosts of one."""
    with Mirror() as mirror:
        client_side(stage, "rawip.pcap", mirror, echo)


def lossy(stage: Stage) -> None:
    """A bad network: retransmissions, and gaps filled late; nothing is missing in the end."""
    with Mirror(loss=0.08, overtaking=0.1, seed=SEED) as mirror:
        client_side(stage, "lossy.pcap", mirror, long_conversation)


def client_side(stage: Stage, file: str, mirror: Mirror, script: Callable[[Wire], None]) -> None:
    server = stage.server(host=NEAR)
    with stage.capturing(file, DEVICE, [CLIENT_SIDE], counted=mirror.carried):
        client = stage.client(server, "nobody's neighbour", host=FAR)
        script(client)
        client.close()
    # The server sees the client at the far address; the capture shows the near side.
    connections = stage.truth[file]["connections"]
    assert isinstance(connections, dict)
    for far in [peer for peer in connections if peer.startswith(FAR)]:
        del connections[far]


def long_conversation(client: Wire) -> None:
    """Messages of several segments, to oneself."""
    chance = random.Random(SEED)
    client.sub("report.*")
    for number in range(12):
        client.pub(f"report.{number}", chance.randbytes(chance.randrange(100, 8000)))
    client.flush()


def http(stage: Stage) -> None:
    """No NATS at all: questions to the monitoring port."""
    stage.server("http: 127.0.0.1:8222")
    with stage.capturing("http.pcap"):
        for path in ("healthz", "connz", "subsz"):
            with urllib.request.urlopen(f"http://127.0.0.1:8222/{path}", timeout=10) as answer:
                answer.read()


ALL: list[Callable[[Stage], None]] = [
    tls,
    websocket,
    jetstream,
    bulk,
    snap96,
    midstream,
    every_device,
    pcapng,
    ipv6,
    rawip,
    lossy,
    http,
]
