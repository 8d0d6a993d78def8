"""Real conversations through a relay, kept as they were sent: for captures without the right to capture.

with Tap(server.port) as tap:
    ...  # connect to tap.port
tap.write(path)
"""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

from tests.bench.recorder import Connection, Plan, Recorder

BUFFER = 1 << 16
Sent = list[tuple[int, bytes]]
"""What side 0, which connected, and side 1 sent, in order."""


class Tap:
    """Relays connections to a port of loopback. `connections` has one list for each of them."""

    def __init__(self, port: int) -> None:
        self.connections: list[Sent] = []
        self._target = "127.0.0.1", port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []

    @property
    def port(self) -> int:
        """Where to connect."""
        port: int = self._listener.getsockname()[1]
        return port

    def __enter__(self) -> Tap:
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for each in (self._listener, *self._sockets):
            each.close()

    def directions(self) -> Iterator[bytes]:
        """What each side of each connection sent."""
        for connection in self.connections:
            for side in (0, 1):
                yield b"".join(data for sender, data in connection if sender == side)

    def write(self, path: Path, server_port: int) -> None:
        """Writes a pcap, in which the connections follow one another."""
        write_connections(path, self.connections, server_port)

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                ends = self._listener.accept()[0], socket.create_connection(self._target)
            except OSError:
                return
            self._sockets += ends
            sent: Sent = []
            self.connections.append(sent)
            for side in (0, 1):
                self._start(self._pump, side, ends[side], ends[1 - side], sent)

    def _pump(self, side: int, source: socket.socket, target: socket.socket, sent: Sent) -> None:
        try:
            while data := source.recv(BUFFER):
                sent.append((side, data))
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def write_connections(path: Path, connections: Sequence[Sent], server_port: int) -> None:
    """Writes a pcap of connections that follow one another."""
    with path.open("wb") as file:
        recorder = Recorder(file, Plan(), random.Random(1))
        for number, sent in enumerate(connections):
            connection = Connection(recorder, b"\x0a\x00\x01\x01", 20_000 + number, server_port)
            for side, data in sent:
                connection.send(side, data)
        recorder.close()
