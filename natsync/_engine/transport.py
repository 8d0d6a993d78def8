"""The network: names to addresses, one non-blocking TCP connection, and a pair of sockets to wake by.

The only file that knows sockets. It knows neither NATS nor threads; only `resolve` blocks. Errors are
OSError. Whether TLS is talked on a `Transport` shows nowhere but in `secure` and `handshake`.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ..errors import OptionError
from ..tls import TLS, explain

if TYPE_CHECKING:
    import ssl

__all__ = ["Address", "Socket", "Transport", "WakePair", "as_socket", "is_numeric", "resolve"]

# What one TLS record holds. More in one call would be half sent where no more fits, and not say so.
RECORD_BYTES = 16 << 10
# What a TLS record begins with: change cipher spec, alert, handshake, application data (RFC 8446, 5.1).
_RECORDS = range(20, 24)
_INTERNET = {socket.AF_INET, socket.AF_INET6}
# Windows says EWOULDBLOCK where others say EINPROGRESS.
_CONNECTING = {errno.EINPROGRESS, errno.EWOULDBLOCK}


class Address(NamedTuple):
    """One way to reach a server, as the resolver gives it."""

    family: int
    protocol: int
    place: tuple[object, ...]


def resolve(host: str, port: int, *, numeric: bool = False) -> list[Address]:
    """The addresses of `host`, in the system's order. Blocks, for as long as the system's resolver does.

    With `numeric` nothing is looked up, and so nothing blocks.
    """
    flags = socket.AI_NUMERICHOST if numeric else 0
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    except UnicodeError as error:  # an empty label, one of over 63 bytes, a character no name has
        raise socket.gaierror(socket.EAI_NONAME, "not a host name") from error
    # A name may stand for one address twice, in /etc/hosts say: no reason to try that twice.
    return list(
        dict.fromkeys(Address(family, proto, place) for family, _, proto, _, place in found)
    )


def is_numeric(host: str) -> bool:
    """Whether `host` is an address already."""
    try:
        return bool(resolve(host, 0, numeric=True))
    except OSError:
        return False


Socket = socket.socket


def as_socket(made: object) -> Socket:
    """Returns `made`. Raises OptionError unless it is a socket."""
    if isinstance(made, socket.socket):
        return made
    raise OptionError("open_socket", f"the function returned {type(made).__name__}, not a socket")


class Transport:
    """A TCP connection in the making or made. Made for one thread; no call blocks.

    Once writable, `finish` says whether connecting has worked. `secure` then `handshake`, until it
    returns True, put TLS on it.
    """

    def __init__(self, target: Address | socket.socket) -> None:
        """Connects to an address, or takes over a connected socket."""
        self.wants_write = False
        """TLS has something of its own to send: to be waited for beside what is there to read."""

        self._socket = (
            socket.socket(target.family, socket.SOCK_STREAM, target.protocol)
            if isinstance(target, Address)
            else target
        )
        self._blocked: tuple[type[OSError], ...] = (BlockingIOError, InterruptedError)
        self._blocked_writing: tuple[type[OSError], ...] = ()
        self._failed: tuple[type[ssl.SSLError], ...] = ()
        self._secured: ssl.SSLSocket | None = None  # the socket again, where TLS is on it
        self._write_bytes: int | None = None
        self._name = ""
        self._process = 0
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
        """Raises the OSError that connecting has ended with, if it did."""
        self._check(self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))

    def secure(self, tls: TLS, host: str) -> None:
        """Begins to talk TLS with `host`; `handshake` does the rest. Raises OptionError for what `tls`
        says.

        The caller has used all that was read so far, or refuses it: what came in clear may be from
        whoever sits between, and must not be taken for what comes in TLS (CVE-2011-0411).
        """
        import ssl

        self._name = tls.name_of(host)
        self._process = os.getpid()
        context = tls.make_context()
        self._blocked += (ssl.SSLWantReadError, ssl.SSLWantWriteError)
        self._blocked_writing = (ssl.SSLWantWriteError,)
        self._failed = (ssl.SSLError,)
        self._write_bytes = RECORD_BYTES
        self._socket = self._secured = context.wrap_socket(
            self._socket, do_handshake_on_connect=False, server_hostname=self._name
        )

    def handshake(self) -> bool:
        """One step of the TLS handshake; whether it is done. If not, wait, and call again."""
        assert self._secured
        self._check_answer()
        try:
            self._secured.do_handshake()
        except self._blocked as error:
            self.wants_write = isinstance(error, self._blocked_writing)
            return False
        except self._failed as error:
            raise explain(error, self._name) from error
        self.wants_write = False
        return True

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self, size: int) -> bytes | None:
        """What has arrived, up to `size` bytes; None when nothing has, no bytes at the end of the stream.

        Nothing stays behind where a selector cannot see it, if `size` is what a TLS record holds or more: a
        record is read whole, and the next one not begun.
        """
        try:
            return self._socket.recv(size)
        except self._blocked as error:
            self.wants_write = isinstance(error, self._blocked_writing)
            return None
        except self._failed as error:
            raise explain(error, self._name) from error

    @property
    def sender(self) -> Callable[[memoryview], int] | None:
        """As `write`, but raises BlockingIOError where nothing fits; the system's own, in which no code of
        Python runs. None where TLS is talked."""
        return None if self._secured else self._socket.send

    def write(self, data: memoryview) -> int:
        """Sends what fits now of `data`; returns how many bytes that is.

        After 0 the same bytes must come again first, with more behind them or not: TLS may have
        encrypted them already.
        """
        try:
            return self._socket.send(
                data if self._write_bytes is None else data[: self._write_bytes]
            )
        except self._blocked:
            return 0
        except self._failed as error:
            raise explain(error, self._name) from error

    def finish_writing(self) -> None:
        """Tells the server that nothing more comes."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Ends it. Where TLS is talked, says so first; what the server answers to that is not read.

        A forked process says nothing: it shares the connection with its parent, which goes on talking.
        """
        if self._secured and self._process == os.getpid():
            with suppress(OSError, ValueError):
                self._secured.unwrap()
        self._socket.close()

    def _check_answer(self) -> None:
        """Raises OSError if what the server says first is no TLS, and shows it.

        It may come a moment too late for this look: `explain` then has less to show.
        """
        if self._answered:
            return
        try:
            first = socket.socket.recv(self._socket, 64, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        self._answered = True
        if first and first[0] not in _RECORDS:
            said = first.partition(b"\r\n")[0].decode("latin-1")
            raise OSError(errno.EPROTO, f"the server does not talk TLS, it said {said!r}")

    @staticmethod
    def _check(code: int, fine: frozenset[int] | set[int] = frozenset()) -> None:
        if code and code not in fine:
            raise OSError(code, os.strerror(code))


class WakePair:
    """Two sockets: a byte written to one makes the other readable, which ends a wait."""

    def __init__(self) -> None:
        self._far, self._near = socket.socketpair()
        self._far.setblocking(False)
        self._near.setblocking(False)

    def fileno(self) -> int:
        return self._near.fileno()

    def wake(self) -> None:
        """Makes it readable. Never blocks: a full pair is readable already."""
        try:
            self._far.send(b"\0")
        except (BlockingIOError, InterruptedError):
            pass

    def clear(self) -> None:
        """Takes what made it readable."""
        try:
            self._near.recv(4096)
        except (BlockingIOError, InterruptedError):
            pass

    def close(self) -> None:
        self._far.close()
        self._near.close()
