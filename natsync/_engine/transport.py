"""The network: names to addresses, one non-blocking connection, and a pair of sockets for wake-ups.

The only module that uses sockets. It knows neither NATS nor threads; only `resolve` blocks. Errors of the
network are OSError. Callers see TLS only in `secure`, `handshake`, `wants_write` and `system_calls`.
"""

from __future__ import annotations

import _socket  # sockets that gevent does not replace, whose greenlets are gone at the end
import errno
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from ..errors import OptionError
from ..tls import TLS, TLSState, explain, state_of

if TYPE_CHECKING:
    import ssl

    from ..options import Server

__all__ = [
    "Address",
    "Socket",
    "SystemCalls",
    "Transport",
    "WakePair",
    "as_socket",
    "is_numeric",
    "resolve",
]

# The payload of one TLS record. If more is written in one call, part of it may be sent without being counted.
RECORD_BYTES = 16 << 10
# The first byte of a TLS record: change cipher spec, alert, handshake, application data (RFC 8446, 5.1).
_RECORDS = range(20, 24)
_INTERNET = {socket.AF_INET, socket.AF_INET6}
# Windows returns EWOULDBLOCK where other systems return EINPROGRESS.
_CONNECTING = {errno.EINPROGRESS, errno.EWOULDBLOCK}


class Address(NamedTuple):
    """One address of a server, as the resolver returns it."""

    family: int
    protocol: int
    place: tuple[object, ...]


class SystemCalls(NamedTuple):
    """The functions of an open socket. They raise BlockingIOError where `Transport.write` returns 0 and
    `Transport.read` returns None."""

    send: Callable[[memoryview], int]
    recv_into: Callable[[memoryview, int], int]


def resolve(host: str, port: int, *, numeric: bool = False) -> list[Address]:
    """Returns the addresses of `host` in the order of the system. Blocks as long as the system's resolver
    does.

    With `numeric` only a numeric address is accepted: nothing is looked up, so that nothing blocks.
    """
    flags = socket.AI_NUMERICHOST if numeric else 0
    # A plain name is passed as bytes, which need no IDNA: importing its module takes a millisecond.
    is_plain = host.isascii() and len(host) < 64 and "" not in host.split(".")
    name = host.encode() if is_plain else host
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=flags)
    except UnicodeError as error:  # an empty label, one of over 63 bytes, a character no name has
        raise socket.gaierror(socket.EAI_NONAME, "not a host name") from error
    # A name may have the same address twice, for example in /etc/hosts; it is tried once.
    return list(
        dict.fromkeys(Address(family, proto, place) for family, _, proto, _, place in found)
    )


def is_numeric(host: str) -> bool:
    """Returns whether `host` is a numeric address."""
    try:
        return bool(resolve(host, 0, numeric=True))
    except OSError:
        return False


Socket = socket.socket


def as_socket(made: object) -> Socket:
    """Returns `made`. Raises OptionError unless it is a socket, without TLS: bytes that TLS has decrypted and
    not delivered yet would be invisible to a poller."""
    if isinstance(made, socket.socket):
        if not hasattr(made, "do_handshake"):
            return made
        made.close()
        raise OptionError(
            "open_socket", "the function returned a socket with TLS: the option tls begins it"
        )
    raise OptionError("open_socket", f"the function returned {type(made).__name__}, not a socket")


class Transport:
    """One connection, from the start of connecting. For one thread; no call blocks.

    When it becomes writable, `finish` says whether connecting has worked. To begin TLS, call `secure`,
    then `handshake` until it returns True.
    """

    def __init__(self, target: Address | socket.socket) -> None:
        """Connects to an address, or takes over a connected socket."""
        self.wants_write = False
        """Whether TLS has something to send: the caller then also waits until the socket is writable."""

        self._socket = (
            socket.socket(target.family, socket.SOCK_STREAM, target.protocol)
            if isinstance(target, Address)
            else target
        )
        self._blocked: tuple[type[OSError], ...] = (BlockingIOError, InterruptedError)
        self._blocked_writing: tuple[type[OSError], ...] = ()
        self._failed: tuple[type[ssl.SSLError], ...] = ()
        self._secured: ssl.SSLSocket | None = None  # the same socket, once TLS is on it
        self._write_bytes: int | None = None
        self._server = ""  # `host:port`, once TLS is on it
        self._tls_state: TLSState | None = None
        self._process = os.getpid()
        self._answered = False
        try:
            self._socket.setblocking(False)
            if self._socket.family in _INTERNET:
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if isinstance(target, Address):
                self._check(self._socket.connect_ex(target.place), _CONNECTING)
        except BaseException:
            self._socket.close()
            raise

    def finish(self) -> None:
        """Raises the OSError with which connecting has failed, or with which the connection was reset."""
        self._check(self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))

    def secure(self, tls: TLS, server: Server) -> None:
        """Begins TLS with `server`; `handshake` does the rest. Raises OptionError for invalid options in
        `tls`.

        The caller must have used all bytes that were read so far, or refuse them: bytes in clear text
        may come from an attacker in between, and must not be taken for bytes of the TLS connection
        (CVE-2011-0411).
        """
        import ssl

        self._server = str(server)
        name = tls.name_of(server.tls_name or server.host)
        context = tls.make_context()
        self._blocked += (ssl.SSLWantReadError, ssl.SSLWantWriteError)
        self._blocked_writing = (ssl.SSLWantWriteError,)
        self._failed = (ssl.SSLError,)
        self._write_bytes = RECORD_BYTES
        try:
            self._socket = self._secured = context.wrap_socket(
                self._socket, do_handshake_on_connect=False, server_hostname=name
            )
        except OSError as error:  # the connection was reset
            _close_secured(error)
            raise

    def handshake(self) -> bool:
        """Makes one step of the TLS handshake and returns whether it is done. If not, wait and call
        again."""
        assert self._secured
        self._check_answer()
        try:
            self._secured.do_handshake()
        except self._blocked as error:
            self.wants_write = isinstance(error, self._blocked_writing)
            return False
        except self._failed as error:
            raise explain(error, self._server) from error
        self.wants_write = False
        # Now: other threads may not ask OpenSSL while the driver reads and writes.
        self._tls_state = state_of(self._secured)
        return True

    @property
    def tls_state(self) -> TLSState | None:
        """The state of TLS after the handshake; None without TLS. For any thread."""
        return self._tls_state

    @property
    def local_address(self) -> str | None:
        """`host:port` of this end, the path of a Unix socket, or None if the connection is closed. For any
        thread."""
        return self._address(self._socket.getsockname)

    @property
    def remote_address(self) -> str | None:
        """The same of the other end."""
        return self._address(self._socket.getpeername)

    def _address(self, ask: Callable[[], tuple[str, int] | str | bytes]) -> str | None:
        try:
            name = ask()
        except OSError:
            return None
        if isinstance(name, (str, bytes)):
            return os.fsdecode(name)
        host, port = name[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def is_own(self) -> bool:
        """Whether this process has made the connection. A forked process sends nothing on it, because its
        parent goes on using it."""
        return self._process == os.getpid()

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self, size: int) -> bytes | None:
        """Returns up to `size` bytes that have arrived; None if there are none, empty bytes at the end
        of the stream.

        If `size` is at least the size of a TLS record, nothing stays in a buffer that a selector cannot
        see: a record is read completely, and the next one is not begun.
        """
        try:
            return self._socket.recv(size)
        except self._blocked as error:
            self.wants_write = isinstance(error, self._blocked_writing)
            return None
        except self._failed as error:
            raise explain(error, self._server) from error

    @property
    def system_calls(self) -> SystemCalls | None:
        """The calls that `read` and `write` make; None with TLS, which makes others in between."""
        if self._secured:
            return None
        return SystemCalls(self._socket.send, self._socket.recv_into)

    def limit(self, max_payload: int) -> None:
        """Notes the server's `max_payload`, which matters to a WebSocket only."""

    @property
    def begun(self) -> int:
        """The number of bytes that `write` has not counted yet, but that the server may have processed."""
        return 0

    def write(self, data: memoryview) -> int:
        """Sends as much of `data` as the socket takes now; returns the number of bytes.

        After a return of 0, the next call must begin with the same bytes, since TLS may have encrypted
        them already; more bytes may follow them.
        """
        try:
            return self._socket.send(
                data if self._write_bytes is None else data[: self._write_bytes]
            )
        except self._blocked:
            return 0
        except self._failed as error:
            raise explain(error, self._server) from error

    def finish_writing(self) -> None:
        """Tells the server that no more data will come."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def part(self, timeout: float) -> None:
        """Tells the server that no more data will come, and waits until it closes the connection, at most
        `timeout` seconds. For the end of the process: where data arrives that nobody reads, the system drops
        what it has not sent yet (RFC 1122, 4.2.2.13). It reads the socket itself, past TLS, whose state
        belongs to threads that are frozen then.
        """
        until = monotonic() + timeout
        with suppress(OSError):
            plain = _socket.socket(
                self._socket.family, socket.SOCK_STREAM, 0, os.dup(self.fileno())
            )
            try:
                plain.shutdown(socket.SHUT_WR)
                plain.settimeout(max(0.01, timeout))
                while plain.recv(65536) and monotonic() < until:
                    pass
            finally:
                plain.close()

    def close(self) -> None:
        """Closes the connection. With TLS it sends the closing alert first, and does not wait for the
        answer.

        A forked process sends nothing: it shares the connection with its parent, which goes on using
        it.
        """
        if self._secured and self.is_own:
            with suppress(OSError, ValueError):
                self._secured.unwrap()
        self._socket.close()

    def _check_answer(self) -> None:
        """Raises OSError with the first bytes of the server if they are not TLS.

        They may arrive too late for this check; the error of `explain` is less exact then.
        """
        if self._answered:
            return
        try:
            first = socket.socket.recv(self._socket, 64, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        self._answered = True
        if first and first[0] not in _RECORDS:
            line = first.partition(b"\r\n")[0].decode("latin-1")
            order = " first" if line.startswith("INFO ") else ""
            raise OSError(errno.EPROTO, f"the server does not talk TLS{order}, it said {line!r}")

    @staticmethod
    def _check(code: int, fine: frozenset[int] | set[int] = frozenset()) -> None:
        if code and code not in fine:
            raise OSError(code, os.strerror(code))


def _close_secured(error: OSError) -> None:
    """Closes the socket that `wrap_socket` had made when it failed: CPython up to 3.12 leaves it open, and
    the error refers to it (ssl.py: SSLSocket._create)."""
    import ssl

    trace = error.__traceback__
    while trace:
        made = trace.tb_frame.f_locals.get("self")
        if isinstance(made, ssl.SSLSocket):
            made.close()
        trace = trace.tb_next


class WakePair:
    """Two sockets: a byte written to one makes the other readable, which ends a wait."""

    def __init__(self) -> None:
        self._far, self._near = socket.socketpair()
        self._far.setblocking(False)
        self._near.setblocking(False)

    def fileno(self) -> int:
        return self._near.fileno()

    def wake(self) -> None:
        """Makes the pair readable. Never blocks: a full pair is readable already."""
        try:
            self._far.send(b"\0")
        except (BlockingIOError, InterruptedError):
            pass

    def clear(self) -> None:
        """Reads the bytes that made the pair readable."""
        try:
            self._near.recv(4096)
        except (BlockingIOError, InterruptedError):
            pass

    def close(self) -> None:
        self._far.close()
        self._near.close()
