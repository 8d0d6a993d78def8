"""Which server to try next, when, how long that try may take, and what to say when all have failed.

Time and chance are passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
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

__all__ = ["Backoff", "ServerPool"]

# Errors that say nothing to the one who connects before server and step are added.
_MEANINGLESS = (ConnectionClosedError, ProtocolError)
# What only the caller can do something about.
_CALLERS = (AuthorizationError, CredentialsError)


class Backoff(NamedTuple):
    """How long to wait before a round of tries: nothing before the first one, then `wait` seconds, twice
    as long each time, up to `longest`; a part of up to `jitter` is added by chance."""

    wait: float
    longest: float
    jitter: float

    def delay(self, rounds: int, chance: float) -> float:
        """Seconds to wait after so many rounds that failed; `chance` is from 0 to 1."""
        if not rounds:
            return 0.0
        doubled = self.wait * 2.0 ** min(rounds - 1, 60)
        return min(doubled, self.longest) * (1 + self.jitter * chance)


@dataclass(slots=True, eq=False)
class _Entry:
    """A known server. `failures` in a row; `refusal` is the text of its last one, if that was of the
    credentials."""

    server: Server
    explicit: bool
    failures: int = 0
    refusal: str = ""


class ServerPool:
    """The known servers in the order of trying: named ones, and those that servers tell of.

    `shuffle` changes the order of a list in place. A server that failed `most` times in a row is given up;
    None: never.
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
        self._failures: list[Error] = []
        self._left = 0  # tries in this round
        self._rounds = 0  # that failed since there was a connection
        self._brief = 0  # connections in a row that did not last
        if shuffle:
            shuffle(self._entries)

    @property
    def servers(self) -> list[Server]:
        """All that are known, the next one to be tried first."""
        return [entry.server for entry in self._entries]

    @property
    def rounds(self) -> int:
        """That failed since there was a connection; also those that were won and did not last, but the first:
        a server that takes us and drops us at once, again and again, is not to be hurried."""
        return self._rounds + max(0, self._brief - 1)

    def begin(self) -> None:
        """Starts a round: each server is tried once."""
        self._left = len(self._entries)
        self._failures = []

    def next(self, now: float, deadline: float) -> tuple[Server, float] | None:
        """The next server of the round and the time its try must end; None when all were tried.

        A try gets an equal share of the time left (ADR-11 does so with addresses): a silent first
        server does not use up the time of those behind it.
        """
        if not self._left or not self._entries:
            self._rounds += 1
            return None
        share = (deadline - now) / self._left
        self._left -= 1
        return self._entries[0].server, now + share

    def failed(self, server: Server, step: str, error: Error | OSError) -> Error:
        """Says that the try of `server` ended with `error` in the `step` that `ConnectError` names; returns
        what to tell of it. The server goes to the end, or away."""
        explained = _explained(server, step, error)
        self._failures.append(explained)
        entry = self._entries.pop(0)
        entry.failures += 1
        entry.refusal = str(error) if isinstance(error, AuthorizationError) else ""
        if self._most is None or entry.failures < self._most:
            self._entries.append(entry)
        return explained

    def refused_again(self, error: Error) -> bool:
        """Whether the server that is tried now refused the credentials in the same words before."""
        return isinstance(error, AuthorizationError) and self._entries[0].refusal == str(error)

    def succeeded(self) -> None:
        """Says that the server that was tried last is connected to."""
        self._entries[0].failures = 0
        self._entries[0].refusal = ""
        self._rounds = 0

    def lost(self, error: Error, brief: bool = False) -> None:
        """Says that the connection was lost: its server is tried last. Its refusal counts as the first.
        `brief`: it did not last."""
        self._brief = self._brief + 1 if brief else 0
        entry = self._entries.pop(0)
        entry.refusal = str(error) if isinstance(error, AuthorizationError) else ""
        self._entries.append(entry)

    def discover(self, told: Iterable[Server]) -> list[Server]:
        """Takes the servers that the one at hand told of; returns those that are new.

        Those that were told of before and are not any more go, but for the one at hand (nats.go:
        processInfo). Nothing told changes nothing.
        """
        places = {(server.host, server.port): server for server in told}
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
        """Why there is no connection. Refused credentials come first: only they need the caller."""
        for error in self._failures:
            if isinstance(error, _CALLERS) or len(self._failures) == 1:
                return error
        return NoServersError(tuple(self._failures))


def _explained(server: Server, step: str, error: Error | OSError) -> Error:
    explained: Error
    if isinstance(error, TimeoutError):
        hint = "; does it expect TLS first?" if step == "info" else ""
        explained = ConnectTimeoutError(str(server), step, f"no answer in time{hint}")
    elif isinstance(error, Error) and not isinstance(error, _MEANINGLESS):
        return error
    else:
        reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)
        explained = ConnectError(str(server), step, reason)
    explained.__cause__ = error
    return explained
