"""The network: names to addresses, one non-blocking TCP connection, and a pair of sockets to wake by.

The only file that knows sockets. It knows neither NATS nor threads; only `resolve` blocks. Errors are
OSError. TLS will live here: `Transport` is then what hides it.
"""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import dataclass

__all__ = ["Address", "Transport", "WakePair", "is_numeric", "resolve"]

READ_BYTES = 64 << 10
# Windows says EWOULDBLOCK where others say EINPROGRESS.
_CONNECTING = {errno.EINPROGRESS, errno.EWOULDBLOCK}


@dataclass(frozen=True, slots=True)
class Address:
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
    return [Address(family, protocol, place) for family, _, protocol, _, place in found]


def is_numeric(host: str) -> bool:
    """Whether `host` is an address already."""
    try:
        return bool(resolve(host, 0, numeric=True))
    except OSError:
        return False


class Transport:
    """A TCP connection in the making or made. Made for one thread; no call blocks.

    Once writable, `finish` says whether connecting has worked.
    """

    def __init__(self, address: Address) -> None:
        self._socket = socket.socket(address.family, socket.SOCK_STREAM, address.protocol)
        try:
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._check(self._socket.connect_ex(address.place), _CONNECTING)
        except BaseException:
            self._socket.close()
            raise

    def finish(self) -> None:
        """Raises the OSError that connecting has ended with, if it did."""
        self._check(self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self) -> bytes | None:
        """What has arrived, up to READ_BYTES; None when nothing has, no bytes at the end of the stream."""
        try:
            return self._socket.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return None

    def write(self, data: memoryview) -> int:
        """Sends what fits now of `data`; returns how many bytes that is."""
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0

    def close(self) -> None:
        self._socket.close()

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
