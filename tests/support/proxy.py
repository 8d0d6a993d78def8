"""A TCP proxy that does harm on command, between a client and a server of the tests.

    with Proxy(server.host, server.port) as proxy, natsync.connect(proxy.url) as nc:
        link = proxy.links[0]
        link.to_client.stall()
        nc.publish("a", b"x")
        proxy.wait_for(lambda: link.to_server.passed > 100)
        link.cut(reset=True)

What can be done to a link is in `faults`. A command has taken effect when it returns; `when_linked`
gives commands before the first byte of a new link. To have a client reach a cluster through proxies
alone, let its servers advertise them (client_advertise).

One thread moves all bytes and owns all sockets. Everything else here is guarded by one lock, which
nobody holds while waiting; each turn of the thread ends by waking those who wait for something.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from time import monotonic
from types import TracebackType

from tests.support.faults import NEVER, Link, abort_on_close

TIMEOUT = 10.0


class Admission(Enum):
    """What becomes of new connections."""

    FORWARD = "connected to the server"
    REFUSE = "refused: nobody listens"
    HANG_UP = "accepted, then closed"
    RESET = "accepted, then reset"
    SWALLOW = "accepted; what comes is read and dropped, and never answered"


class Proxy:
    """Listens on a free port of loopback and connects on to `host` and `port`."""

    def __init__(
        self, host: str, port: int, when_linked: Callable[[Link], None] | None = None
    ) -> None:
        self.links: list[Link] = []
        """Every connection there was, in order."""
        self.accepted = 0
        """Connections taken, whatever became of them."""
        self.failure: Exception | None = None
        """What ended the proxy's thread, if anything did."""

        self._target = host, port
        self._when_linked = when_linked
        self._admission = Admission.FORWARD
        self._listener: socket.socket | None = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"nats://127.0.0.1:{self.port}"
        self._selector = selectors.DefaultSelector()
        self._watched: dict[socket.socket, int] = {}
        self._waker, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._spares: dict[Link, socket.socket] = {}
        self._changed = threading.Condition()  # its lock may be taken twice by one thread
        self._turns = 0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def admit(self, admission: Admission) -> None:
        """Decides about connections from now on; those in the listener's queue are reset by REFUSE."""
        with self.command():
            self._admission = admission

    def cut(self, *, reset: bool = False) -> None:
        """Cuts every link there is."""
        with self.command():
            for link in self.links:
                if not link.closed:
                    link.cut_now(reset)

    def forget_closed(self) -> None:
        """Removes closed links from `links`, for a run of many hours."""
        with self.command():
            self.links[:] = [link for link in self.links if link.ends[0].fileno() >= 0]
            for link in [*self._spares]:
                if link not in self.links:
                    self._spares.pop(link).close()

    def wait_for(self, predicate: Callable[[], bool], timeout: float = TIMEOUT) -> None:
        """Returns when `predicate` is true; it is looked at when something has happened here."""
        with self._changed:
            held = self._changed.wait_for(lambda: self.failure or predicate(), timeout)
            if self.failure:
                raise self.failure
            assert held, f"that did not happen within {timeout:g} s"

    def link(self, number: int = -1, timeout: float = TIMEOUT) -> Link:
        """That link, waited for; the last one, if any, by default."""
        needed = number + 1 if number >= 0 else -number
        self.wait_for(lambda: len(self.links) >= needed, timeout)
        return self.links[number]

    def close(self) -> None:
        """Closes everything, and joins the thread. Raises what has ended it early, if anything did."""
        with self._changed:
            if not self._closing:
                self._closing = True
                self._waker.send(b"\0")
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive(), "the proxy hangs"
        self._waker.close()
        if self.failure:
            raise self.failure

    @contextmanager
    def command(self) -> Iterator[None]:
        """HandlerContext changes: returns when the thread has acted upon them."""
        with self._changed:
            yield
            if threading.current_thread() is self._thread or self._closing:
                return
            turns = self._turns
            self._waker.send(b"\0")
            self.wait_for(lambda: self._turns > turns or self._closing)

    # From here on: the proxy's thread.

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # told to whoever waits, and by close
            self.failure = error
        finally:
            with self._changed:
                self._closing = True
                self._close_all()
                self._changed.notify_all()

    def _work(self) -> None:
        self._watch(self._woken, selectors.EVENT_READ)
        ready: list[tuple[selectors.SelectorKey, int]] = []
        while True:
            with self._changed:
                if self._closing:
                    return
                for key, events in ready:
                    self._handle(key, events)
                until = self._settle()
                self._turns += 1
                self._changed.notify_all()
            timeout = None if until == NEVER else max(0.0, until - monotonic())
            ready = self._selector.select(timeout)

    def _handle(self, key: selectors.SelectorKey, events: int) -> None:
        end = key.fileobj
        assert isinstance(end, socket.socket)
        if end is self._woken:
            end.recv(4096)
        elif end is self._listener:
            self._accept(end)
        elif isinstance(key.data, Link):
            key.data.ready(end, events)

    def _settle(self) -> float:
        """Brings all up to date; returns when to come back if nothing happens."""
        self._listen()
        until = NEVER
        for link in self.links:
            if link.ends[0].fileno() < 0:
                continue
            until = min(until, link.turn())
            for end in link.ends:
                self._watch(end, 0 if link.closed else link.events(end), link)
                if link.closed:
                    end.close()
        return until

    def _listen(self) -> None:
        if self._admission is Admission.REFUSE and self._listener:
            self._watch(self._listener, 0)
            self._listener.close()
            self._listener = None
        elif self._admission is not Admission.REFUSE:
            if not self._listener:
                self._listener = socket.create_server(("127.0.0.1", self.port))
                self._listener.setblocking(False)
            self._watch(self._listener, selectors.EVENT_READ)

    def _watch(self, end: socket.socket, events: int, link: Link | None = None) -> None:
        before = self._watched.pop(end, 0)
        if events:
            self._watched[end] = events
        if before and events and before != events:
            self._selector.modify(end, events, link)
        elif before and not events:
            self._selector.unregister(end)
        elif events and not before:
            self._selector.register(end, events, link)

    def _accept(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except OSError:
            return  # it has given up meanwhile
        self.accepted += 1
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server = self._connect() if self._admission is Admission.FORWARD else None
        spare: socket.socket | None = None
        if self._admission is Admission.SWALLOW:
            spare, server = socket.socketpair()
        if server is None:
            if self._admission is not Admission.HANG_UP:
                abort_on_close(client)
            client.close()
            return
        link = Link(self.command, client, server)
        self.links.append(link)
        if spare:
            self._spares[link] = spare
            link.to_server.swallow()
        if self._when_linked:
            self._when_linked(link)

    def _connect(self) -> socket.socket | None:
        try:
            server = socket.create_connection(self._target, TIMEOUT)
        except OSError:
            return None  # the client is reset
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return server

    def _close_all(self) -> None:
        ends = [end for link in self.links for end in link.ends]
        for each in (self._listener, self._woken, *self._spares.values(), *ends):
            if each:
                each.close()
        for link in self.links:
            link.closed = True
        self._selector.close()
