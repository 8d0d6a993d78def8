"""Connecting: name lookup, TCP and TLS. Calls that may block run on helper threads.

`close` ends every wait: each waits on the loop, or calls `check` every 20 ms. Only the I/O thread may use a
dialer.
"""

from __future__ import annotations

import errno
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from os import urandom
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from .._late import late_import
from ..errors import OptionError
from ..tls import TLS
from .loop import Loop
from .poller import WRITABLE, new_poller
from .transport import Address, Transport, as_socket, is_numeric, resolve

if TYPE_CHECKING:
    from ..options import Options, Server
    from .http_request import HTTPRequest
    from .transport import Socket

__all__ = ["Dialer"]

_READ_BYTES = 64 << 10  # as for a connection; the answer to an HTTP request is far shorter
_STAGGER = 0.25  # seconds: the Connection Attempt Delay of RFC 8305, section 5
_LOOK = 0.02  # seconds between checks whether the client is being closed

_T = TypeVar("_T")


class Dialer:
    """Makes the loop's transports. `check` is called at each wake-up; the error it raises ends the wait."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def reach(
        self,
        options: Options,
        server: Server,
        until: float,
        check: Callable[[], None],
        begin: Callable[[str], None],
    ) -> bytes:
        """Connects to `server`: by a function of the program, through a proxy, or directly. Passes the name
        of each step to `begin`. Returns the bytes that the server has sent already. Raises as `dial` does.
        """
        if options.open_socket:
            begin("tcp")
            self.open(options.open_socket, server.host, server.port, until, check)
            return b""
        first = options.http_proxy or server
        through = "" if first is server else "proxy"  # a step of its own: the server may be well
        begin(through or "dns")
        addresses = self.look_up(first.host, first.port, until, check)
        if options.randomize:
            addresses = _shuffled(addresses)
        begin(through or "tcp")
        self.dial(addresses, until, check)
        if not through:
            return b""
        with late_import:
            from .http_request import Tunnel  # most programs do not need it

        return self._exchange(Tunnel(first, server), until, check)

    def look_up(
        self, host: str, port: int, until: float, check: Callable[[], None]
    ) -> list[Address]:
        """Returns the addresses of `host`. Raises as `dial` does."""
        if is_numeric(host):
            return resolve(host, port, numeric=True)
        return self.run_blocking(lambda: resolve(host, port), until, check)

    def dial(self, addresses: list[Address], until: float, check: Callable[[], None]) -> None:
        """Connects to the address that answers first (RFC 8305, Happy Eyeballs). Attempts alternate between
        address families; each begins as soon as the previous one has failed or is 0.25 s old.

        Raises OSError; TimeoutError at the time `until`; and whatever `check` raises.
        """
        if len(addresses) == 1:
            self._dial(addresses[0], until, check)
        else:
            self._loop.transport = _race(_mixed(addresses), until, check)

    def _dial(self, address: Address, until: float, check: Callable[[], None]) -> None:
        self._loop.transport = Transport(address)
        while not self._loop.wait(until, writing=True):
            check()
            if monotonic() >= until:
                raise TimeoutError
        self._loop.transport.finish()

    def open(
        self,
        open_socket: Callable[[str, int], object],
        host: str,
        port: int,
        until: float,
        check: Callable[[], None],
    ) -> None:
        """Connects by a function of the program. Raises as `dial` does; OptionError if the function raises
        anything but OSError, or does not return a socket."""

        def make() -> Socket:
            try:
                return as_socket(open_socket(host, port))
            except (OSError, OptionError):
                raise
            except BaseException as error:  # code of the program may raise anything
                raise OptionError("open_socket", f"the function failed: {error}") from error

        made = self.run_blocking(make, until, check, lambda late: late.close())
        self._loop.transport = Transport(made)

    def secure(self, tls: TLS, server: Server, until: float, check: Callable[[], None]) -> None:
        """Begins TLS with `server`. Raises as `dial` does, and OptionError for invalid files."""
        transport = self._loop.transport
        assert transport
        transport.secure(tls, server)
        while not transport.handshake():
            check()
            if monotonic() >= until:
                raise TimeoutError
            self._loop.wait(until, transport.wants_write)

    def upgrade(
        self,
        server: Server,
        headers: Mapping[str, str],
        compresses: bool,
        until: float,
        check: Callable[[], None],
    ) -> bytes:
        """Upgrades the connection to a WebSocket; returns the payload that the server has sent already.
        Raises as `dial` does."""
        with late_import:  # most programs do not need them
            from .http_request import Upgrade
            from .websocket import WebSocketTransport

        transport = self._loop.transport
        assert transport
        upgrade = Upgrade(str(server), server.path, headers, compresses)
        rest = self._exchange(upgrade, until, check)
        self._loop.transport = made = WebSocketTransport(transport, upgrade.compresses, rest)
        return made.read_rest()

    def _exchange(self, asks: HTTPRequest, until: float, check: Callable[[], None]) -> bytes:
        """Sends an HTTP request; returns the bytes that follow the head of the answer."""
        transport = self._loop.transport
        assert transport
        unsent, rest = memoryview(asks.request), None
        while rest is None:
            if unsent:
                unsent = unsent[transport.write(unsent) :]
            data = transport.read(_READ_BYTES)
            if data == b"":
                raise ConnectionResetError(errno.ECONNRESET, "the server closed the connection")
            rest = asks.feed(data) if data else None
            if rest is None:
                check()
                if monotonic() >= until:
                    raise TimeoutError
                self._loop.wait(until, bool(unsent) or transport.wants_write)
        return rest

    def run_blocking(
        self,
        call: Callable[[], _T],
        until: float,
        check: Callable[[], None],
        discard: Callable[[_T], None] | None = None,
    ) -> _T:
        """Runs `call`, which may block, on a helper thread; returns its result. Nothing is read meanwhile.

        If `call` still blocks when this method raises, the helper, a daemon thread, is left running, since
        nothing can interrupt the system's resolver. Its late result is passed to `discard`.
        """
        values: list[_T] = []
        errors: list[BaseException] = []
        given_up = False

        def throw_away() -> None:
            with suppress(IndexError):  # the other thread has taken it
                value = values.pop()
                if discard:
                    discard(value)

        def run() -> None:
            try:
                values.append(call())
                if given_up:
                    throw_away()
            except BaseException as error:  # handed to the thread that waits
                errors.append(error)
            self._loop.wake()

        thread = threading.Thread(target=run, name=f"{self._loop.name}-blocking", daemon=True)
        try:
            thread.start()
        except RuntimeError as refusal:  # the system has no more threads for now
            raise OSError(errno.ENOMEM, str(refusal)) from refusal
        try:
            while not (values or errors):
                if monotonic() >= until:
                    raise TimeoutError
                # Not reading: bytes that wait to be read would end each wait at once.
                self._loop.wait(until, reading=False)
                check()
        except BaseException:
            given_up = True
            throw_away()
            raise
        thread.join()
        for error in errors:
            raise error
        return values[0]


def _shuffled(addresses: list[Address]) -> list[Address]:
    """Returns `addresses` in random order, those of the first one's family first: resolvers may give all
    clients the same order, and all would connect to one server (nats.go: createConn)."""
    family = addresses[0].family
    return sorted(addresses, key=lambda address: (address.family != family, urandom(8)))


def _mixed(addresses: list[Address]) -> list[Address]:
    """Returns `addresses` with the first family and the others alternating, as long as there are both
    (RFC 8305, section 4)."""
    first = [address for address in addresses if address.family == addresses[0].family]
    others = [address for address in addresses if address.family != addresses[0].family]
    mixed = [address for pair in zip(first, others) for address in pair]
    return mixed + first[len(others) :] + others[len(first) :]


def _race(addresses: list[Address], until: float, check: Callable[[], None]) -> Transport:
    """Returns the transport to the address that answers first. Raises as `Dialer.dial` does."""
    poller, racing, left = new_poller(), dict[int, Transport](), deque(addresses)
    next_at, failure = 0.0, OSError()
    try:
        while racing or left:
            check()
            now = monotonic()
            if now >= until:
                raise TimeoutError
            if left and (now >= next_at or not racing):
                next_at = now + _STAGGER
                try:
                    transport = Transport(left.popleft())
                except OSError as error:  # for example, no route
                    failure, next_at = error, now
                    continue
                racing[transport.fileno()] = transport
                poller.register(transport.fileno(), WRITABLE)
            for fd, _ in poller.poll(min(_LOOK, until - now)):
                poller.unregister(fd)
                try:
                    racing[fd].finish()
                    return racing.pop(fd)
                except OSError as error:
                    failure, next_at = error, now
                    racing.pop(fd).close()
        raise failure
    finally:
        for transport in racing.values():
            transport.close()
        poller.close()
