"""What a command reports on stderr: errors, once each, and losses of its connection."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic

from ..errors import (
    AuthorizationError,
    ConnectError,
    ConnectionClosedError,
    CredentialsError,
    Error,
    OptionError,
    PermissionsViolationError,
    StaleConnectionError,
)
from .output import printable

__all__ = ["Reporter"]


class Reporter:
    """Writes errors to stderr, each once, even if a call raised it and a callback received it.

    `refused` is true once the server has refused something; `failed` once anything went wrong. An interrupt
    may break the connection; after one, losses of the connection and attempts to reconnect are not reported.
    `flags` has the names on the command line of options that errors name.
    """

    def __init__(self) -> None:
        self.flags: Mapping[str, str] = {}
        self.refused = False
        self.failed = False
        self.interrupted = False
        self._reported: dict[str, object] = {}
        self._lost_at = 0.0
        self._attempts: set[str] = set()  # why they failed, since the connection was lost

    @contextmanager
    def heeding_interrupts(self) -> Iterator[None]:
        """Notes an interrupt before the connection reports that it broke in the middle of a read."""
        try:
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else keep it
                signal.signal(signal.SIGINT, self._interrupt)
        except ValueError:  # not the main thread: only that one is interrupted
            pass
        try:
            yield
        finally:
            if signal.getsignal(signal.SIGINT) == self._interrupt:
                signal.signal(signal.SIGINT, signal.default_int_handler)

    def _interrupt(self, *_: object) -> None:
        self.interrupted = True
        raise KeyboardInterrupt

    def tell(self, text: object) -> None:
        """Writes one line."""
        line = printable(" ".join(str(text).split("\n")))
        try:
            print(f"natsync: {line}", file=sys.stderr, flush=True)
        except (OSError, ValueError):  # the exit status still shows the failure
            pass

    def error(self, error: Exception) -> None:
        """Writes an error in the words of the command line. For any thread."""
        self.failed = True
        self.refused = self.refused or isinstance(error, PermissionsViolationError)
        text = str(error)
        if isinstance(error, OptionError) and error.option in self.flags:
            text = f"{self.flags[error.option]}: {error.reason}"
        elif isinstance(error, CredentialsError) and error.option in self.flags:
            text = f"no credentials from {self.flags[error.option]}: {error.reason}"
        elif isinstance(error, OSError) and error.filename and not isinstance(error, Error):
            text = f"file {error.filename!r}: {error.strerror}"
        mine = object()
        if self._reported.setdefault(text, mine) is mine:  # atomic: two threads may be here
            self.tell(text)

    def reported(self, error: Error) -> None:
        """For `on_error`. An error that ends the connection is reported when the connection is lost."""
        if isinstance(error, PermissionsViolationError):
            self.error(error)
        elif isinstance(error, ConnectError):
            self._reported_attempt(error)
        elif not isinstance(error, (AuthorizationError, StaleConnectionError)):
            self.tell(error)

    def _reported_attempt(self, error: ConnectError) -> None:
        """Writes why an attempt to reconnect failed, each reason once per outage. Leaves out failures in the
        steps `dns` and `tcp`, since "reconnecting" implies that the server is not there yet."""
        text = str(error)
        if error.step not in ("dns", "tcp") and text not in self._attempts and not self.interrupted:
            self._attempts.add(text)
            self.tell(text)

    def disconnected(self, error: Error | None) -> None:
        """For `on_disconnect`."""
        self._attempts.clear()
        self._lost_at = monotonic()
        if self.interrupted:
            return
        reason = error.reason if isinstance(error, ConnectionClosedError) else error
        self.tell(f"disconnected{f': {reason}' if reason else ''}; reconnecting")

    def reconnected(self) -> None:
        """For `on_reconnect`."""
        if not self.interrupted:
            self.tell(f"reconnected after {monotonic() - self._lost_at:.1f} s")
