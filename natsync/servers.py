"""Which server to try next, how long that try may take, and what to say when all have failed.

Time is passed in.
"""

from __future__ import annotations

from collections.abc import Sequence

from .errors import (
    AuthorizationError,
    ConnectError,
    ConnectionClosedError,
    ConnectTimeoutError,
    Error,
    NoServersError,
    ProtocolError,
)
from .options import Server

__all__ = ["ServerPool"]

# Errors that say nothing to the one who connects before server and step are added.
_MEANINGLESS = (ConnectionClosedError, ProtocolError)


class ServerPool:
    """The known servers, tried in order, each once."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self._left = list(servers)
        self._failures: list[Error] = []

    def next(self, now: float, deadline: float) -> tuple[Server, float] | None:
        """The next server and the time its try must end, None when all were tried.

        A try gets an equal share of the time left (ADR-11 does so with addresses): a silent first
        server does not use up the time of those behind it.
        """
        if not self._left:
            return None
        share = (deadline - now) / len(self._left)
        return self._left.pop(0), now + share

    def failed(self, server: Server, step: str, error: Error | OSError) -> None:
        """Says that the try of `server` ended with `error` in the `step` that `ConnectError` names."""
        explained: Error
        if isinstance(error, TimeoutError):
            explained = ConnectTimeoutError(str(server), step, "no answer in time")
        elif isinstance(error, Error) and not isinstance(error, _MEANINGLESS):
            explained = error
        else:
            reason = (
                getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)
            )
            explained = ConnectError(str(server), step, reason)
        if explained is not error:
            explained.__cause__ = error
        self._failures.append(explained)

    def verdict(self) -> Error:
        """Why there is no connection. Refused credentials come first: only they need the caller."""
        for error in self._failures:
            if isinstance(error, AuthorizationError) or len(self._failures) == 1:
                return error
        return NoServersError(tuple(self._failures))
