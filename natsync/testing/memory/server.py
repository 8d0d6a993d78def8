"""`MemoryServer`: a NATS server in a thread of this process.

It starts in a few milliseconds, needs no nats-server, and keeps everything in memory: core NATS, and
JetStream's streams, pull consumers and key-value buckets. Clients reach it over a real socket, and through
the same codec as any other server. What it does not have is refused with an error that says so;
docs/testing.md lists it.

One thread owns all sockets and all state. Others only start and stop it.
"""

from __future__ import annotations

import heapq
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

from ..._connect import connect
from ...client import Client
from ...protocol import ServerInfo
from ..login import with_login
from .api import JetStreamAPI
from .router import Router
from .session import Login, Session, login

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["MemoryServer"]

_log = logging.getLogger("natsync.testing")

VERSION = "2.11.0"
"""What INFO says: clients then refuse by themselves what came with later servers."""

_RECEIVED_AT_ONCE = 1 << 16
_STOP_TIMEOUT = 10.0


class _Connection:
    """The socket of a client, and what is still to be sent."""

    def __init__(
        self, loop: _Loop, connection: socket.socket, info: ServerInfo, may: Login
    ) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._loop = loop
        self.socket = connection
        self._unsent = bytearray()
        self._ending = False
        loop.selector.register(connection, selectors.EVENT_READ, self.ready)
        self.session = Session(loop.router, info, may, self._send, self._end)

    def ready(self, events: int) -> None:
        """Reads and writes what is possible."""
        try:
            if events & selectors.EVENT_WRITE:
                self._flush()
            if events & selectors.EVENT_READ:
                data = self.socket.recv(_RECEIVED_AT_ONCE)
                if not data:
                    return self.close()
                self.session.feed(data)
            if not self._ending:
                self._flush()
        except BlockingIOError:
            pass
        except OSError:
            self.close()

    def close(self) -> None:
        """Closes the connection, and forgets its subscriptions."""
        if self.socket in self._loop.connections:
            del self._loop.connections[self.socket]
            self._loop.selector.unregister(self.socket)
            self.socket.close()
            self.session.close()

    def _send(self, data: bytes) -> None:
        self._unsent += data
        self._loop.unsent.add(self)

    def _end(self) -> None:
        self._ending = True

    def _flush(self) -> None:
        with suppress(BlockingIOError):
            while self._unsent:
                del self._unsent[: self.socket.send(self._unsent)]
        if self._ending and not self._unsent:
            return self.close()
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
        self._loop.selector.modify(self.socket, wanted, self.ready)

    def flush(self) -> None:
        """Sends what is to be sent."""
        if self.socket in self._loop.connections:
            try:
                self._flush()
            except OSError:
                self.close()


class _Loop:
    """What the thread of a server has: sockets, timers, and the state of NATS."""

    def __init__(self, listener: socket.socket, info: ServerInfo, may: Login) -> None:
        self.selector = selectors.DefaultSelector()
        self.router = Router()
        self.connections: dict[socket.socket, _Connection] = {}
        self.unsent: set[_Connection] = set()
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        self._listener = listener
        self._info = info
        self._may = may
        self._wake, self._woken = socket.socketpair()
        self._running = True
        listener.setblocking(False)
        self._woken.setblocking(False)
        self.selector.register(listener, selectors.EVENT_READ, self._accept)
        self.selector.register(self._woken, selectors.EVENT_READ, lambda events: None)
        JetStreamAPI(self.router, time.time_ns, self.call_at, info.max_payload)

    def call_at(self, when_ns: int, call: Callable[[], None]) -> None:
        """Calls a function at a time of `time.time_ns`, or soon after."""
        heapq.heappush(self._timers, (when_ns, next(self._numbers), call))

    def run(self) -> None:
        """Runs until `stop`."""
        try:
            while self._running:
                for key, events in self.selector.select(self._pause()):
                    key.data(events)
                self._run_timers()
                while self.unsent:
                    self.unsent.pop().flush()
        except Exception:  # a fault of this server: its clients see that it is gone
            _log.exception("the in-memory NATS server has failed")
        finally:
            for connection in list(self.connections.values()):
                connection.close()
            for each in (self._listener, self._wake, self._woken, self.selector):
                each.close()

    def stop(self) -> None:
        """Ends `run`. Any thread may call this."""
        self._running = False
        with suppress(OSError):
            self._wake.send(b"x")

    def _pause(self) -> float | None:
        if self.unsent:
            return 0.0
        return max(0.0, (self._timers[0][0] - time.time_ns()) / 1e9) if self._timers else None

    def _run_timers(self) -> None:
        now = time.time_ns()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()

    def _accept(self, events: int) -> None:
        with suppress(BlockingIOError):
            connection = self._listener.accept()[0]
            made = _Connection(self, connection, self._info, self._may)
            self.connections[connection] = made


class MemoryServer:
    """A server in this process; a context manager that starts and ends it.

    token, users        who may connect: a token, or passwords by user; `connect` takes the first user
    max_payload         the largest message, in bytes

    `restart` makes clients reconnect, and forgets everything: nothing is stored beyond the process.
    """

    def __init__(
        self,
        *,
        name: str = "memory",
        token: str | None = None,
        users: Mapping[str, str] | None = None,
        max_payload: int = 1 << 20,
    ) -> None:
        self.name = name
        self.host = "127.0.0.1"
        self._token = token
        self._users = dict(users or {})
        self._max_payload = max_payload
        self._loop: _Loop | None = None
        self._thread: threading.Thread | None = None
        self.port = 0
        """The port, on 127.0.0.1; stays the same after a restart."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<MemoryServer {self.name} {self.url if self._thread else 'stopped'}>"

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts the server, which is empty."""
        if self._thread is not None:
            return
        listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
        self.port = listener.getsockname()[1]
        info = ServerInfo(
            server_id="M" * 56,
            server_name=self.name,
            version=VERSION,
            proto=1,
            host="127.0.0.1",
            port=self.port,
            headers=True,
            auth_required=self._token is not None or bool(self._users),
            max_payload=self._max_payload,
            jetstream=True,
        )
        self._loop = _Loop(listener, info, login(self._token, self._users))
        self._thread = threading.Thread(target=self._loop.run, name="nats-memory", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends all connections and the server. Does nothing if it is stopped."""
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.stop()
            thread.join(_STOP_TIMEOUT)

    def restart(self) -> None:
        """Stops the server, and starts an empty one on the same port."""
        self.stop()
        self.start()

    def connect(self, **options: object) -> Client:
        """Returns a client. `options` are those of `natsync.connect`; the token, or the name and password of
        the first user, is set already."""
        options = with_login(options, self._token, self._users)
        return connect(options.pop("servers", self.url), **options)  # type: ignore[arg-type]  # checked there
