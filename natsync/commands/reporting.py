"""The connection of a command: made from options and environment, with errors reported on stderr.

Options on the command line take precedence over the environment, and a login does so as a whole: with
`--token`, NATS_USER and NATS_PASSWORD are ignored.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic

from .._connect import connect
from ..client import Client
from ..credentials import read_credentials
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
from ..options import DEFAULT_URL
from ..tls import TLS
from .output import printable

__all__ = ["CONNECT_TIMEOUT", "ENVIRONMENT", "Reporter", "opened"]

CONNECT_TIMEOUT = 5.0

ENVIRONMENT = {
    "server": "NATS_URL",
    "http_proxy": "NATS_HTTP_PROXY",
    "user": "NATS_USER",
    "password": "NATS_PASSWORD",
    "token": "NATS_TOKEN",
    "creds": "NATS_CREDS",
    "nkey": "NATS_NKEY",
    "tls_ca": "NATS_CA",
    "tls_cert": "NATS_CERT",
    "tls_key": "NATS_KEY",
    "tls_key_password": "NATS_KEY_PASSWORD",
}
"""The environment variables for options that are not on the command line. The names are those of the `nats`
command, which has none for the HTTP proxy."""

_LOGINS = (("user", "password"), ("token",), ("creds",), ("nkey",))

# The options as the command line names them, for the texts of errors.
_FLAGS = {
    "servers": "--server",
    "http_proxy": "--http-proxy",
    "config": "--config",
    "force": "--force",
    "cluster_id": "--cluster",
    "client_id": "--client",
    "durable": "--durable",
    "stall": "--stall",
    "start": "--start",
    "start_time": "--start-time",
    "start_time_delta": "--since",
    "stream": "--stream",
    "start_sequence": "--start-sequence",
    "max_in_flight": "--max-in-flight",
    "ack_wait": "--ack-wait",
    "credentials": "--creds",
    "ca_file": "--tls-ca",
    "cert_file": "--tls-cert",
    "key_file": "--tls-key",
    "key_password": "NATS_KEY_PASSWORD",
    **{name: f"--{name}" for name in ("user", "password", "token", "nkey")},
}


class Reporter:
    """Writes errors to stderr, each once, even if a call raised it and a callback received it.

    `refused` is true once the server has refused something; `failed` once anything went wrong. An interrupt
    may break the connection; after one, losses of the connection and attempts to reconnect are not reported.
    """

    def __init__(self) -> None:
        self.refused = False
        self.failed = False
        self.interrupted = False
        self._reported: dict[str, object] = {}
        self._lost_at = 0.0
        self._attempts: set[str] = (
            set()
        )  # why attempts to reconnect failed since the connection was lost

    @contextmanager
    def heeding_interrupts(self) -> Iterator[None]:
        """Notes an interrupt before the connection reports that it broke in the middle of a read."""
        try:
            if (
                signal.getsignal(signal.SIGINT) is signal.default_int_handler
            ):  # else keep the program's
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
        except (
            OSError,
            ValueError,
        ):  # stderr cannot be written; the exit status still shows the failure
            pass

    def error(self, error: Exception) -> None:
        """Writes an error in the words of the command line. For any thread."""
        self.failed = True
        self.refused = self.refused or isinstance(error, PermissionsViolationError)
        text = str(error)
        if isinstance(error, OptionError) and error.option in _FLAGS:
            text = f"{_FLAGS[error.option]}: {error.reason}"
        elif isinstance(error, CredentialsError) and error.option in _FLAGS:
            text = f"no credentials from {_FLAGS[error.option]}: {error.reason}"
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
        self.tell(
            f"disconnected: {reason}; reconnecting" if reason else "disconnected; reconnecting"
        )

    def reconnected(self) -> None:
        """For `on_reconnect`."""
        if not self.interrupted:
            self.tell(f"reconnected after {monotonic() - self._lost_at:.1f} s")


@contextmanager
def opened(args: argparse.Namespace, reporter: Reporter) -> Iterator[Client]:
    """Opens the client that `args` describe, and closes it at the end of the block.

    Commands that listen reconnect when the connection is lost; others fail.
    """
    setting = _with_environment(args, os.environ)
    listens: bool = args.listens
    logger = logging.getLogger("natsync")
    mute = logging.NullHandler()  # without a handler, Python would print what the reporter prints
    logger.addHandler(mute)
    try:
        with connect(
            setting("server") or DEFAULT_URL,
            name="natsync-cli",
            user=setting("user"),
            password=setting("password"),
            token=setting("token"),
            credentials=_readable(setting("creds")),
            nkey=_seed_of(setting("nkey")),
            tls=_tls(args, setting),
            http_proxy=setting("http_proxy") or None,
            connect_timeout=CONNECT_TIMEOUT if listens or not args.timeout else args.timeout,
            reconnect=listens,
            on_error=reporter.reported,
            on_disconnect=reporter.disconnected if listens else None,
            on_reconnect=reporter.reconnected,
        ) as nc:
            yield nc
    finally:
        logger.removeHandler(mute)


def _with_environment(
    args: argparse.Namespace, environment: Mapping[str, str]
) -> Callable[[str], str]:
    """Returns a function that looks up an option on the command line, then in the environment. It returns
    an empty text if neither has it."""
    logins = [names for names in _LOGINS if any(getattr(args, name) for name in names)]
    passed = {name for names in _LOGINS if logins and names not in logins for name in names}

    def setting(name: str) -> str:
        value: str | None = getattr(args, name, None)
        if value is None and name not in passed:
            value = environment.get(ENVIRONMENT[name])
        return value or ""

    return setting


def _tls(args: argparse.Namespace, setting: Callable[[str], str]) -> TLS | bool:
    if not (
        args.tls or args.tls_first or setting("tls_ca") or setting("tls_cert") or setting("tls_key")
    ):
        return False
    return TLS(
        ca_file=setting("tls_ca"),
        cert_file=setting("tls_cert"),
        key_file=setting("tls_key"),
        key_password=setting("tls_key_password") if setting("tls_cert") else "",
        handshake_first=args.tls_first,
    )


def _readable(path: str) -> str:
    """Returns the path of a credentials file; reads it once now, to report errors early."""
    if path:
        read_credentials(path := os.path.expanduser(path))
    return path


def _seed_of(path: str) -> str | Callable[[], str]:
    """Returns a function that reads a seed file at every connect; reads it once now, to report errors
    early."""
    if not path:
        return ""

    def read() -> str:
        try:
            with open(os.path.expanduser(path), encoding="ascii", errors="replace") as file:
                words = file.read(1 << 16).split()
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            reason = getattr(error, "strerror", None) or "not a file name"
            raise OptionError("nkey", f"file {path!r}: {reason}") from error
        seed = next((word for word in words if word.startswith("SU")), "")
        if not seed:
            raise OptionError("nkey", f"file {path!r} holds no user's seed (SU...)")
        return seed

    read()
    return read
