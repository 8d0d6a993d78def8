"""A stage for one recording: its servers, its clients, the sniffer, and what is known to be true.

The truth of a capture has two witnesses that share no code with the product: the scripted clients
count what they send and receive, and the servers' own traces list every operation they parsed or
sent.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import ssl
import struct
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from signal import SIGCONT, SIGINT, SIGSTOP

from tests.support.damage import read_pcap
from tests.support.servers import NatsServer, NatsServerError, Which
from tests.support.tls_relay import TlsRelay
from tests.support.wire import Counts, Stream, Wire

SETTLE_TIMEOUT = 20.0
# Written at once; a ring of 64 MiB, as immediate mode spends a whole snaplen on every packet.
TCPDUMP = ["-n", "-U", "--immediate-mode", "-B", "65536", "-Z", "root"]
POLL = 0.01
QUIET = 0.2
KINDS = {"c": "client", "w": "client", "r": "route", "g": "gateway", "l": "leafnode"}
TRACE = re.compile(r"\[TRC\] (\S+:\d+) - ([a-z])id(?:_ws)?:\d+ .*?(<<-|->>) \[(\S+?)[\] ]")

Truth = dict[str, object]


def loopback_packets() -> int:
    """How many packets the loopback device has carried."""
    shown = subprocess.run(
        ["ip", "-json", "-stats", "link", "show", "dev", "lo"], capture_output=True, check=True
    )
    return int(json.loads(shown.stdout)[0]["stats64"]["tx"]["packets"])


def unread_bytes() -> int:
    """How many bytes wait in the sockets of this network namespace (proc_net_tcp.rst, of Linux)."""
    queues = [
        line.split()[4].split(":")
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
        if line.split()[3] == "01"  # established
    ]
    return sum(int(queue, 16) for pair in queues for queue in pair)


class Stage:
    """Everything that one scenario starts; a context manager that ends it all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.truth: dict[str, Truth] = {}
        self.servers: list[NatsServer] = []
        self.clients: list[Wire] = []
        self.relays: set[str] = set()
        """Where relays between servers listen."""

        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self.clients:
            client.abandon()
        self._stack.close()

    def server(
        self,
        config: str = "",
        *,
        which: Which = "current",
        name: str = "demo",
        port: int = 4222,
        host: str = "127.0.0.1",
    ) -> NatsServer:
        """Start a server that writes its trace."""
        server = NatsServer(config, which=which, name=name, host=host, port=port, trace=True)
        self.servers.append(self._stack.enter_context(server))
        return server

    def client(
        self,
        server: NatsServer,
        name: str,
        *,
        host: str = "",
        wrap: Callable[[socket.socket], Stream] | None = None,
        port: int = 0,
        handshake: bool = True,
        login: tuple[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        **options: object,
    ) -> Wire:
        """A client that has finished its handshake, or one that has read the INFO only."""
        address = (host or server.host, port or server.port)
        connection = socket.create_connection(address, timeout=SETTLE_TIMEOUT)
        if tls:
            connection = tls.wrap_socket(connection, server_hostname="localhost")
        client = Wire(connection, wrap(connection) if wrap else None, name)
        self.clients.append(client)
        if login:
            options |= dict(zip(("user", "pass"), login))
        if handshake:
            client.connect(**options)
        return client

    def relay(self, relay: TlsRelay) -> str:
        """Starts a relay, which goes after the servers that start later; returns where it listens."""
        place = endpoint("127.0.0.1", self._stack.enter_context(relay).port)
        self.relays.add(place)
        return place

    def temporary(self) -> Path:
        """A folder that goes with the stage."""
        return Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="record-")))

    @contextlib.contextmanager
    def capturing(
        self,
        file: str,
        device: str = "lo",
        options: Sequence[str] = (),
        *,
        program: str = "tcpdump",
        counted: Callable[[], int] = loopback_packets,
    ) -> Iterator[None]:
        """Record what happens inside to `file`, then note what is true about it."""
        path = self.folder / file
        logged = {server.name: len(server.log()) for server in self.servers}
        before = {id(client): client.counts.copy() for client in self.clients}
        with Sniffer(path, [program, "-i", device, *options], counted):
            yield
            self._settle(counted)
            for server in self.servers:
                server.signal(SIGSTOP)  # else a timer of theirs falls between capture and log
        traces = [server.log()[logged.get(server.name, 0) :] for server in self.servers]
        connections, totals = traced(traces, listeners(self.servers) | self.relays)
        for client in self.clients:
            since = client.counts.since(before.get(id(client), Counts()))
            if since.received:
                connections.setdefault(endpoint(*client.local), {}).update(reported(client, since))
        self.truth[file] = {
            "server": self.servers[0].version,
            "packets": count_packets(path.read_bytes()),
            "connections": connections,
            "totals": totals,
        }
        for server in self.servers:
            server.signal(SIGCONT)

    def _settle(self, counted: Callable[[], int]) -> None:
        """Waits until the servers have logged all that was sent to them: at the end of a client, servers
        still tell each other of lost interest. Between what they do, they are silent for milliseconds.
        """
        seen: object = None
        since = time.monotonic()
        deadline = since + SETTLE_TIMEOUT
        while time.monotonic() - since < QUIET:
            now = (counted(), [len(server.log()) for server in self.servers])
            if now != seen or unread_bytes():
                seen, since = now, time.monotonic()
            if time.monotonic() > deadline:
                raise RuntimeError("the servers never come to rest")
            time.sleep(POLL)


class Sniffer:
    """tcpdump or dumpcap, for as long as the context lasts.

    At the end it waits until the file holds every packet that `counted` says has passed: stopped
    earlier, both programs lose what is still in the kernel's ring.
    """

    READY = {"tcpdump": "listening on", "dumpcap": "File: "}

    def __init__(self, path: Path, command: list[str], counted: Callable[[], int]) -> None:
        program, *arguments = command
        self._path = path
        self._counted = counted
        self._ready = self.READY[program]
        self._command = [program, "-s", "65535", "-w", str(path)]
        self._command += (TCPDUMP if program == "tcpdump" else []) + arguments

    def __enter__(self) -> None:
        self._path.unlink(missing_ok=True)
        self._reported = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            self._command, stdout=self._reported, stderr=self._reported
        )
        try:
            self._wait(lambda: self._ready in self._output(), "it listens")
            self._before = self._counted()
        except BaseException:
            self._end()
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._settle(self._counted() - self._before)
        finally:
            self._end()

    def _settle(self, expected: int) -> None:
        """Wait until that many packets are in the file."""
        self._wait(
            lambda: count_packets(self._path.read_bytes()) >= expected, f"{expected} packets"
        )

    def _end(self) -> None:
        self._process.send_signal(SIGINT)
        self._process.wait()
        self._reported.close()
        self._path.chmod(0o644)  # dumpcap keeps its files to itself

    def _output(self) -> str:
        self._reported.seek(0)
        return self._reported.read().decode()

    def _wait(self, ready: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SETTLE_TIMEOUT
        while not ready():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(POLL)
                raise RuntimeError(f"{self._command} ended: {self._output()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self._command}: no sign of {what}: {self._output()}")


def count_packets(data: bytes) -> int:
    """Complete packets in a pcap, or in a pcapng of this machine's byte order."""
    if data[:4] != b"\x0a\x0d\x0d\x0a":
        return len(read_pcap(data).records) if len(data) >= 24 else 0
    count = at = 0
    while at + 8 <= len(data):
        kind, size = struct.unpack_from("=II", data, at)
        at += size
        count += kind == 6 and at <= len(data)
    return count


def endpoint(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reported(client: Wire, since: Counts) -> Truth:
    """What a scripted client says that it did during the recording."""
    return {
        "kind": "client",
        "witness": "client",
        "name": client.name,
        "end": client.end,
        "originator": since.sent,
        "responder": since.received,
        "published": since.published,
        "delivered": since.delivered,
    }


def listeners(servers: Sequence[NatsServer]) -> set[str]:
    """The addresses that other servers dial: in a log line, one is the far end of a link."""
    found = set()
    for server in servers:
        for port in ("route_port", "gateway_port", "leaf_port", "websocket_port"):
            with contextlib.suppress(NatsServerError):
                found.add(endpoint(server.host, getattr(server, port)))
    return found


def traced(
    traces: Sequence[str], listening: set[str]
) -> tuple[dict[str, Truth], dict[str, dict[str, Counter[str]]]]:
    """Operations by sender, as the servers' traces list them: by connection, and by kind of link.

    INFO is never traced, nor is what a server refuses before CONNECT, nor a 503. A server logs what
    it parsed (`<<-`) completely, but not all that it sends (`->>`) when a link comes up. So what
    the responder of a link sent is counted where it arrived: at the originator, which knows the
    link by the responder's address, hence only in the totals.
    """
    connections: dict[str, Truth] = {}
    totals: dict[str, dict[str, Counter[str]]] = {}
    for peer, letter, arrow, op in TRACE.findall("".join(traces)):
        kind, inbound = KINDS[letter], arrow == "<<-"
        sender = "originator" if inbound and peer not in listening else "responder"
        if kind != "client":
            if not inbound:
                continue
            totals.setdefault(kind, {}).setdefault(sender, Counter())[op] += 1
        if peer not in listening:
            flow = connections.setdefault(peer, {"kind": kind, "witness": "server"})
            counts = flow.setdefault(sender, Counter())
            assert isinstance(counts, Counter)
            counts["+OK" if op == "OK" else op] += 1
    return connections, totals
