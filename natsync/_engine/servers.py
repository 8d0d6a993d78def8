"""The pool of known servers: which one to try next, when, for how long, and the error when all have failed.

The caller passes in the time and random numbers. The pool belongs to the I/O thread; any thread may call
`servers` and `replace`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ..errors import (
    AuthorizationError,
    ConnectError,
    ConnectionClosedError,
    ConnectTimeoutError,
    CredentialsError,
    Error,
    NoServersError,
    ProtocolError,
)
from ..options import Server
from ..protocol.structs import Struct

__all__ = ["Backoff", "ServerPool"]

# Errors that say little to the caller of `connect` until server and step are added.
_MEANINGLESS = (ConnectionClosedError, ProtocolError)
# Only the caller can do something about these.
_CALLERS = (AuthorizationError, CredentialsError)


class Backoff(NamedTuple):
    """The wait before each round of attempts: none before the first, then `wait` seconds, doubled each
    time up to `longest`. A random part of it, at most the fraction `jitter`, is added."""

    wait: float
    longest: float
    jitter: float

    def delay(self, rounds: int, chance: float) -> float:
        """Returns the seconds to wait after `rounds` failed rounds; `chance` is random, from 0 to 1."""
        if not rounds:
            return 0.0
        doubled = self.wait * 2.0 ** min(rounds - 1, 60)
        return min(doubled, self.longest) * (1 + self.jitter * chance)


class _Entry(Struct):
    """A known server. `failures` counts failed attempts in a row; `refusal` is the text of the last one
    if the server refused the credentials."""

    server: Server
    explicit: bool
    failures: int = 0
    refusal: str = ""


class ServerPool:
    """The known servers in the order in which they are tried: explicit ones and discovered ones.

    `shuffle` changes the order of a list in place. A server is given up after `most` failed attempts in a
    row; never if `most` is None.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        shuffle: Callable[[list[_Entry]], None] | None = None,
        most: int | None = None,
    ) -> None:
        self._entries = [_Entry(server, True) for server in servers]
        self._shuffle = shuffle
        self._most = most
        self._replacement: tuple[Server, ...] | None = None
        self._failures: list[Error] = []
        self._left = 0  # attempts left in this round
        self._rounds = 0  # rounds that failed since the last connection
        self._brief = 0  # connections in a row that did not last
        if shuffle:
            shuffle(self._entries)

    @property
    def servers(self) -> list[Server]:
        """All known servers; the current one, or the next one to be tried, is the first."""
        replacement = self._replacement
        return [*replacement] if replacement else [entry.server for entry in self._entries]

    def replace(self, servers: tuple[Server, ...]) -> None:
        """Makes `servers` the whole pool from the next round on. For any thread."""
        self._replacement = servers

    def prefer(self, name: str) -> bool:
        """Makes the server of this name (`host:port`) the next one; returns whether there is one."""
        for entry in self._entries:
            if str(entry.server) == name:
                self._entries.remove(entry)
                self._entries.insert(0, entry)
                return True
        return False

    @property
    def rounds(self) -> int:
        """The number of failed rounds since the last connection. Connections that did not last count,
        except the first one, so that a server that drops every client at once is not tried without pause.
        """
        return self._rounds + max(0, self._brief - 1)

    def begin(self) -> None:
        """Starts a round: each server is tried once."""
        replacement, self._replacement = self._replacement, None
        if replacement:
            self._entries = [_Entry(server, True) for server in replacement]
            if self._shuffle:
                self._shuffle(self._entries)
        self._left = len(self._entries)
        self._failures = []

    def next(self, now: float, deadline: float) -> tuple[Server, float] | None:
        """Returns the next server of the round and the deadline of its attempt; None when all were tried.

        Each attempt gets an equal share of the time left, as addresses do in ADR-11: a silent first server
        does not use up the time of the others.
        """
        if not self._left or not self._entries:
            self._rounds += 1
            return None
        share = (deadline - now) / self._left
        self._left -= 1
        return self._entries[0].server, now + share

    def failed(self, server: Server, step: str, error: Exception) -> Error:
        """Notes that the attempt at `server` failed with `error` in a `step` of `ConnectError`; returns the
        error to report. Moves the server to the end of the pool, or out of it."""
        explained = _explained(server, step, error)
        self._failures.append(explained)
        entry = self._entries.pop(0)
        entry.failures += 1
        entry.refusal = str(error) if isinstance(error, AuthorizationError) else ""
        if self._most is None or entry.failures < self._most:
            self._entries.append(entry)
        return explained

    def refused_again(self, error: Error) -> bool:
        """Whether the server has refused the credentials in the same words as in its last attempt."""
        return isinstance(error, AuthorizationError) and self._entries[0].refusal == str(error)

    def succeeded(self) -> None:
        """Notes that the attempt at the current server has succeeded."""
        self._entries[0].failures = 0
        self._entries[0].refusal = ""
        self._rounds = 0

    def lost(self, error: Error, brief: bool = False) -> None:
        """Notes that the connection was lost; its server is tried last. If the server refused the
        credentials, that counts as the first refusal. `brief`: the connection did not last."""
        self._brief = self._brief + 1 if brief else 0
        entry = self._entries.pop(0)
        entry.refusal = str(error) if isinstance(error, AuthorizationError) else ""
        self._entries.append(entry)

    def discover(self, announced: Iterable[Server]) -> list[Server]:
        """Adds the servers that the current server names in INFO; returns the new ones.

        Discovered servers that it no longer names are removed, except the current one (nats.go:
        processInfo). An empty list changes nothing.
        """
        places = {(server.host, server.port): server for server in announced}
        if not places:
            return []
        current = self._entries[:1]
        self._entries = current + [
            entry
            for entry in self._entries[1:]
            if entry.explicit or (entry.server.host, entry.server.port) in places
        ]
        known = {(entry.server.host, entry.server.port) for entry in self._entries}
        new = [server for place, server in places.items() if place not in known]
        if new:
            others = self._entries[1:] + [_Entry(server, False) for server in new]
            if self._shuffle:
                self._shuffle(others)
            self._entries = current + others
        return new

    def verdict(self) -> Error:
        """Returns why the round failed. Refused credentials come first, since only the caller can
        correct them."""
        for error in self._failures:
            if isinstance(error, _CALLERS) or len(self._failures) == 1:
                return error
        return NoServersError(tuple(self._failures))


def _explained(server: Server, step: str, error: Exception) -> Error:
    explained: Error
    # Servers that expect TLS first send nothing; they close the connection after a while.
    hint = "; does it expect TLS first, or a WebSocket?" if step == "info" else ""
    if isinstance(error, TimeoutError):
        explained = ConnectTimeoutError(str(server), step, f"no answer in time{hint}")
    elif isinstance(error, Error) and not isinstance(error, _MEANINGLESS):
        return error
    else:
        reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)
        if isinstance(error, ConnectionClosedError):
            reason += hint
        explained = ConnectError(str(server), step, reason or "out of memory")
    explained.__cause__ = error
    return explained
