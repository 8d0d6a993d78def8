"""The ways of 10,000 messages through a cluster of three, a gateway and a leafnode, half of them equal.

Every payload has a number, so the capture shows which frame carries which message: the truth. Then the
numbers of half of the messages are overwritten in the capture, so that many are equal, as if they had been
published like that. Whatever `paths` says of this capture must be true in the other one.
"""

from __future__ import annotations

import random
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

import pytest

import natsync
from dissect.nats import Options, frames
from dissect.nats.application.paths.rows import PathRecord
from dissect.nats.options import Payload
from dissect.nats.pipeline import records

from tests.support.damage import pcap_bytes, read_pcap
from tests.support.meshes import lasting_ports
from tests.support.requirements import missing
from tests.support.servers import NatsServer, require_server
from tests.support.stage import Sniffer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

EACH = 2500
PUBLISHERS = ("east-0", "east-1", "west-0", "leaf-0")
NUMBER = re.compile(rb"id=(\d)-(\d{5})")
SUBJECTS = 2
# Ethernet without tags, IPv4 without options, and the ports of a packet.
PORTS = struct.Struct("!34x2H")
# Each message: its publication, four links, five listeners and one member of the queue group.
FRAMES = EACH * len(PUBLISHERS) * 11
ACCOUNTS = """
accounts { APP: { users: [ { user: app, password: pw } ] }, SYS: { users: [ { user: sys, password: pw } ] } }
no_auth_user: app
system_account: SYS
"""


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What tcpdump saw of all connections."""
    require_server("current")
    path = tmp_path_factory.mktemp("cluster") / "true.pcap"
    with ExitStack() as stack:
        ports = lasting_ports(14)
        try:
            stack.enter_context(Sniffer(path, command(ports), lambda: 0))
        except (OSError, RuntimeError):
            missing("the right to capture", "run as root, with tcpdump installed")
        running = list(servers(stack, ports))
        connected = [stack.enter_context(natsync.connect(each.url)) for each in running]
        publish_all([Listener(nc) for nc in connected])
        until(lambda: len(NUMBER.findall(path.read_bytes())) > FRAMES - 100)
    return path


def command(ports: list[int]) -> list[str]:
    condition = " or ".join(f"port {port}" for port in ports)
    return ["tcpdump", "-i", "lo", "-B", "65536", f"tcp and ({condition})"]


def servers(stack: ExitStack, ports: list[int]) -> Iterator[NatsServer]:
    """Three in the east, one in the west, one that is a leafnode of the east."""
    clients, routes, gateways, leafs = ports[:5], ports[5:8], ports[8:12], ports[12]
    others = ", ".join(f'"nats://127.0.0.1:{port}"' for port in routes)
    remotes = ", ".join(
        f'{{ name: {name}, urls: ["nats://127.0.0.1:{port}"] }}'
        for name, port in (("east", gateways[0]), ("west", gateways[3]))
    )

    def gateway(name: str, port: int) -> str:
        return f"gateway {{ name: {name}, listen: 127.0.0.1:{port}, gateways: [{remotes}] }}\n{ACCOUNTS}"

    for number in range(3):
        section = f"cluster {{ name: east, host: 127.0.0.1, port: {routes[number]}, routes: [{others}] }}\n"
        section += gateway("east", gateways[number])
        if number == 2:
            section += f"leafnodes {{ listen: 127.0.0.1:{leafs}, compression: off }}\n"
        yield stack.enter_context(NatsServer(section, name=f"east-{number}", port=clients[number]))
    west = gateway("west", gateways[3])
    yield stack.enter_context(NatsServer(west, name="west-0", port=clients[3]))
    leaf = f'leafnodes {{ remotes: [{{ url: "nats-leaf://app:pw@127.0.0.1:{leafs}", compression: off }}] }}'
    yield stack.enter_context(NatsServer(leaf, name="leaf-0", port=clients[4]))


class Listener:
    """A client of a server, which gets everything and counts it; a member of the queue group, too."""

    def __init__(self, nc: natsync.Client) -> None:
        self.nc = nc
        self.got: Counter[bytes] = Counter()
        nc.subscribe("orders.>", handler=self._take)
        nc.subscribe("orders.>", queue="packers", handler=lambda msg: None)
        nc.flush()

    def _take(self, msg: natsync.Msg) -> None:
        self.got[msg.data[:3] if msg.subject == "orders.probe" else b"all"] += 1


def publish_all(listeners: list[Listener]) -> None:
    """Publishes once all servers know of all subscriptions; ends when everybody has got everything."""
    publishers = [listeners[at].nc for at in (0, 1, 3, 4)]
    probes = [b"p-%d" % at for at in range(len(publishers))]

    def probe() -> bool:
        for nc, each in zip(publishers, probes):
            nc.publish("orders.probe", each)
            nc.flush()
        return all(set(probes) <= listener.got.keys() for listener in listeners)

    until(probe)
    for number in range(EACH):
        for at, nc in enumerate(publishers):
            body = b"id=%d-%05d, one tea and two coffees" % (at, number)
            nc.publish(f"orders.{number % SUBJECTS}", body)
        if not number % 50:
            for nc in publishers:
                nc.flush()
    until(lambda: all(listener.got[b"all"] == EACH * len(publishers) for listener in listeners))


def until(is_done: Callable[[], bool]) -> None:
    deadline = monotonic() + 60
    while not is_done():
        assert monotonic() < deadline
        sleep(0.05)


def overwritten(found: re.Match[bytes]) -> bytes:
    """Every second message loses its number: one half of these is equal to some of its publisher's, the
    other half to some of all publishers."""
    publisher, number = found[1], int(found[2])
    if number % 4 == 1:
        return b"id=%b-%05d" % (publisher, number // 100)
    return b"id=X-%05d" % (number // 400) if number % 4 == 3 else found[0]


@pytest.mark.parametrize("lost", [0.0, 0.02])
def test_no_way_is_wrong(capture: Path, tmp_path: Path, lost: float) -> None:
    folder = tmp_path / "seen"
    folder.mkdir()
    (folder / "all.pcap").write_bytes(without(capture.read_bytes(), lost))
    published, matched, kept = checked(folder)
    assert matched[None] == published
    # Of messages that kept their numbers, every hop; of the others as many as order and time prove.
    assert matched["unique"] >= kept
    # A gap puts in doubt only the equal messages around it.
    assert matched["ordered"] > 0.75 * FRAMES * 2.5 / 11
    assert lost or published > 0.99 * FRAMES / 11


def test_no_way_is_wrong_where_clocks_differ(capture: Path, tmp_path: Path) -> None:
    """The connections of every second port are on a clock of their own."""
    pcap = read_pcap(capture.read_bytes())
    folder = tmp_path / "seen"
    folder.mkdir()
    for name, shift_ns in (("here", 0), ("there", -300_000_000)):
        some = [
            replace(record, ts_ns=record.ts_ns + shift_ns)
            for record in pcap.records
            if (min(PORTS.unpack_from(record.data)) % 2 == 1) == bool(shift_ns)
        ]
        (folder / f"{name}.pcap").write_bytes(pcap_bytes(pcap.with_records(some)))
    published, matched, kept = checked(folder)
    assert matched[None] == published and matched["unique"] >= kept


def checked(folder: Path) -> tuple[int, Counter[str | None], int]:
    """Checks every path in the captures; how many were published, how many hops were matched by what, and
    how many messages kept their numbers."""
    equal = folder.parent / "equal"
    equal.mkdir()
    for path in folder.iterdir():
        (equal / path.name).write_bytes(NUMBER.sub(overwritten, path.read_bytes()))
    truth: dict[tuple[str, int], bytes] = {}
    published: set[bytes] = set()
    for frame in frames([str(folder)], options=Options(payload=Payload.TEXT)):
        match = NUMBER.match((frame.payload or "").encode())
        if match:
            truth[frame.session, frame.number] = match[0]
            if frame.op == "PUB":
                published.add(match[0])
    matched: Counter[str | None] = Counter()
    groups = Counter(NUMBER.sub(overwritten, number) for number in published)
    for row in records([str(equal)], ["paths"]):
        assert isinstance(row, PathRecord)
        session, _, number = row.message.partition(":")
        if row.matched_by == "group":
            carried, one = truth[row.session, row.number], truth[session, int(number)]
            made = NUMBER.sub(overwritten, carried)
            assert made == NUMBER.sub(overwritten, one) and row.passed
            assert row.passed <= (row.copies or 0) == groups[made]
            matched["group"] += row.passed
        elif (session, int(number)) in truth:
            assert truth[row.session, row.number] == truth[session, int(number)]
            matched[row.matched_by] += 1
    kept = [each for each in truth.values() if each in published and int(each[5:]) % 2 == 0]
    print(f"{len(published)} messages in {len(truth)} frames; matched by {dict(matched)}")
    return len(published), matched, len(kept) - len(set(kept))


def without(capture: bytes, share: float) -> bytes:
    """The capture without some of its packets."""
    rng = random.Random(7)
    pcap = read_pcap(capture)
    kept = [record for record in pcap.records if rng.random() >= share]
    return pcap_bytes(pcap.with_records(kept))
