"""Replies: one wildcard inbox for all requests of a connection, and the threads that wait for them.

A reply subject is the inbox and a token. The first reply wins; a later one, and one whose request was
given up, are dropped, as with every NATS client.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from .errors import (
    ConnectionReconnectingError,
    Error,
    PermissionsViolationError,
    fresh,
)
from .message import Delivered, to_wire
from .nuid import nuid
from .waiter import Drive, Waiter

__all__ = ["Inbox"]


class Inbox:
    """The requests that wait for a reply. Any thread may call anything; single dictionary operations,
    which are atomic, take the place of a lock."""

    max_msgs = None
    received_before = 0

    def __init__(self, prefix: str, drive: Drive) -> None:
        self._drive = drive
        self.prefix = f"{prefix}.{nuid()}."
        self.subject = self.prefix + "*"
        self.queue = ""
        self.wire_subject = to_wire(self.subject)
        self.wire_queue = b""
        self.received = 0
        self._numbers = count(1)
        self._start = len(self.wire_subject) - 1
        self._waiting: dict[bytes, tuple[str, Waiter[Delivered]]] = {}
        self._end: Error | None = None
        self._refused: Error | None = None

    def open(self, subject: str) -> tuple[str, Waiter[Delivered]]:
        """The reply subject for a request on `subject`, and what to wait with.

        Raises what the inbox's own subscription was refused with. Call `close` afterwards, in any case.
        """
        if self._refused:
            raise fresh(self._refused)
        token = f"{next(self._numbers):x}"
        waiter: Waiter[Delivered] = Waiter(self._drive)
        self._waiting[token.encode()] = subject, waiter
        return self.prefix + token, waiter

    def close(self, reply: str) -> None:
        """Gives up on the request with this reply subject, if it still waits."""
        self._waiting.pop(reply[self._start :].encode(), None)

    def deliver(self, frames: Sequence[Delivered]) -> int:
        """Hands replies to those who wait. Never drops one for being slow: returns 0."""
        self.received += len(frames)
        for frame in frames:
            found = self._waiting.pop(self._token(frame.subject), None)
            if found:
                found[1].settle(frame)
        return 0

    def deny(self, error: PermissionsViolationError) -> None:
        """Fails the requests that the server refused to publish."""
        for token, (subject, _) in self._waiting.copy().items():
            if subject == error.subject:
                self._fail(token, error)

    def refuse(self, error: Error) -> None:
        """Fails every request, now and later: the server refused the subscription for replies."""
        self._refused = error
        self._fail_all(error)

    def lose(self, error: ConnectionReconnectingError) -> None:
        """Fails every request that was sent on a connection that is lost: its reply cannot come."""
        self._fail_all(error)

    def renew(self) -> None:
        """Another connection is told of this inbox: what the server refused before may work now."""
        self._refused = None

    def end(self, error: Error, *, discard: bool = False, quiet: bool = True) -> None:
        """Fails every request; the connection accepts no more of them."""
        self._fail_all(error)

    def _token(self, subject: bytes) -> bytes:
        token = subject[self._start :]
        if token not in self._waiting and len(self._waiting) == 1:
            # An import may rewrite the subject; with one request there is no doubt (nats.go: respToken).
            if not subject.startswith(self.wire_subject[:-1]):
                return next(iter(self._waiting.copy()), b"")
        return token

    def _fail(self, token: bytes, error: Error) -> None:
        found = self._waiting.pop(token, None)
        if found:
            found[1].fail(error)

    def _fail_all(self, error: Error) -> None:
        for token in self._waiting.copy():
            self._fail(token, error)
