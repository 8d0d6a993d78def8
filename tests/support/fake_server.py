"""A NATS server of the tests' own on loopback, built from the codec: it does exactly what it is told.

    with FakeServer() as server, server.client() as (nc, peer):
        sub = nc.subscribe("greet")
        peer.expect(Sub)
        peer.send(Msg(b"greet", b"1", b"", b"hello"))

Every wait has a deadline; an assertion says what came instead.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from types import TracebackType
from typing import Generic, TypeVar

import natsync
from natsync.protocol import (
    Connect,
    ConnectOptions,
    Context,
    Decoder,
    Frame,
    Info,
    Ping,
    Pong,
    Role,
    ServerInfo,
    Sub,
    encode,
)

TIMEOUT = 10.0
SERVER = Context(Role.SERVER)

F = TypeVar("F", bound=Frame)
T = TypeVar("T")

INFO = ServerInfo(
    server_id="N" + "A" * 55,
    server_name="fake",
    version="2.10.0",
    proto=1,
    host="127.0.0.1",
    port=4222,
    headers=True,
    client_id=7,
    max_payload=1 << 20,
)


class Background(Generic[T]):
    """A call on a thread of its own; `result` waits for what it returns or raises."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._values: list[T] = []
        self._error: BaseException | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run, name="background", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._values.append(self._call())
        except BaseException as error:
            self._error = error

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def result(self, timeout: float = TIMEOUT) -> T:
        self._thread.join(timeout)
        assert not self._thread.is_alive(), "the call still blocks"
        if self._error:
            raise self._error
        return self._values[0]


class Peer:
    """The server's side of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(TIMEOUT)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self._decoder = Decoder(Role.CLIENT)
        self._frames: list[Frame] = []

    def send(self, *items: Frame | bytes) -> None:
        """Frames, or any bytes, in one write."""
        self.connection.sendall(
            b"".join(item if isinstance(item, bytes) else encode(item, SERVER) for item in items)
        )

    def next(self, timeout: float = TIMEOUT) -> Frame | None:
        """The next frame; None at the end of the stream."""
        until = monotonic() + timeout
        while not self._frames:
            self.connection.settimeout(max(0.001, until - monotonic()))
            data = self.connection.recv(65536)
            if not data:
                return None
            self._decoder.feed(data)
            while frames := self._decoder.read():
                self._frames += frames
        return self._frames.pop(0)

    def expect(self, kind: type[F]) -> F:
        """The next frame, which must be of that kind."""
        frame = self.next()
        assert isinstance(frame, kind), f"{kind.__name__} expected, but {frame} came"
        return frame

    def until(self, kind: type[F]) -> F:
        """The next frame of that kind; PINGs before it are answered, all else is passed over."""
        while not isinstance(frame := self.next(), kind):
            assert frame is not None, f"{kind.__name__} expected, but the client has closed"
            if isinstance(frame, Ping):
                self.send(Pong())
        return frame

    def answer(self) -> None:
        """Waits for a PING, and answers it."""
        self.expect(Ping)
        self.send(Pong())

    def expect_end(self) -> None:
        """The client closes; what it still sends is passed over, PINGs are answered."""
        try:
            while frame := self.next():
                if isinstance(frame, Ping):
                    self.send(Pong())
        except ConnectionError:
            pass

    def greet(self, info: ServerInfo = INFO) -> ConnectOptions:
        """The server's side of the handshake; returns the options of CONNECT."""
        self.send(Info(info.to_json()))
        connect = ConnectOptions.parse(self.expect(Connect).json)
        self.expect(Ping)
        self.send(Pong())
        return connect

    def subscribed(self) -> bytes:
        """Waits for the next SUB; its sid."""
        return self.until(Sub).sid

    def reset(self) -> None:
        """RST instead of FIN."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def close(self) -> None:
        self.connection.close()


class FakeServer:
    """A listener on a free port. What it accepted is closed with it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(TIMEOUT)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"nats://127.0.0.1:{self.port}"
        self._peers: list[Peer] = []

    def __enter__(self) -> FakeServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        for peer in self._peers:
            peer.close()

    def close(self) -> None:
        """Listens no more; what it accepted goes on."""
        self._listener.close()

    def accept(self) -> Peer:
        """The next connection."""
        peer = Peer(self._listener.accept()[0])
        self._peers.append(peer)
        return peer

    def connecting(self, connect: Callable[[str], natsync.Client]) -> Background[natsync.Client]:
        """`connect(url)` on a thread, so that the test can play the server meanwhile."""
        return Background(lambda: connect(self.url))

    @contextmanager
    def client(
        self,
        connect: Callable[[str], natsync.Client] = natsync.connect,
        info: ServerInfo = INFO,
    ) -> Iterator[tuple[natsync.Client, Peer]]:
        """A client that has been greeted, and the peer; afterwards the client is closed."""
        call = self.connecting(connect)
        peer = self.accept()
        peer.greet(info)
        nc = call.result()
        try:
            yield nc, peer
        finally:
            nc.close(timeout=0)
