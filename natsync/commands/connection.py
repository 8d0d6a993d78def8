"""The connection of a command: its options and environment variables, and the client that they describe.

Options on the command line take precedence over the environment, and a login does so as a whole: with
`--token`, NATS_USER and NATS_PASSWORD are ignored. Connection options may stand before or after the name of a
command; the last one counts.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import click

from .._connect import connect
from ..client import Client
from ..credentials import read_credentials
from ..errors import OptionError
from ..options import DEFAULT_URL
from ..tls import TLS
from .options import Option
from .reporting import Reporter

__all__ = ["CONNECTION", "ENVIRONMENT", "FLAGS", "opened"]

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
_KEY = "natsync.connection"


def _keep(context: click.Context, option: click.Parameter, value: object) -> None:
    if value not in (None, False):
        context.meta.setdefault(_KEY, {})[option.name] = value


def _option(declared: str, text: str, common: bool = False) -> Option:
    return Option(
        [declared],
        group="Connection",
        common=common,
        expose_value=False,
        callback=_keep,
        help=text,
    )


CONNECTION = (
    _option("-s --server URL", f"Servers, with commas (NATS_URL; {DEFAULT_URL}).", common=True),
    _option("--http-proxy URL", "Connect through this HTTP proxy (NATS_HTTP_PROXY)."),
    _option("--user NAME", "User name (NATS_USER)."),
    _option("--password PASSWORD", "Visible in lists of processes: prefer NATS_PASSWORD."),
    _option("--token TOKEN", "Visible in lists of processes: prefer NATS_TOKEN."),
    _option("--creds FILE", "Credentials file with JWT and seed (NATS_CREDS).", common=True),
    _option("--nkey FILE", "File with an nkey seed (NATS_NKEY)."),
    _option("--tls", "Demand TLS."),
    _option("--tls-first", "Start TLS before the server sends INFO."),
    _option("--tls-ca FILE", "CA certificates, instead of the system's (NATS_CA)."),
    _option("--tls-cert FILE", "Client certificate (NATS_CERT)."),
    _option("--tls-key FILE", "Its key (NATS_KEY; password in NATS_KEY_PASSWORD)."),
)
"""The options of the connection, which every command and group has."""

FLAGS = {
    **{option.name: option.flag for option in CONNECTION},
    "servers": "--server",
    "credentials": "--creds",
    "ca_file": "--tls-ca",
    "cert_file": "--tls-cert",
    "key_file": "--tls-key",
    "key_password": "NATS_KEY_PASSWORD",
}
"""The options as errors of `connect` name them, and their names on the command line."""


@contextmanager
def opened(context: click.Context, reporter: Reporter, timeout: float | None) -> Iterator[Client]:
    """Opens the client that the options of `context` describe, and closes it at the end of the block.

    A command that listens has no `timeout`: it reconnects when the connection is lost. Others fail.
    """
    options: Mapping[str, str] = context.meta.get(_KEY, {})
    setting = _with_environment(options, os.environ)
    listens = timeout is None
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
            tls=_tls(options, setting),
            http_proxy=setting("http_proxy") or None,
            connect_timeout=timeout or CONNECT_TIMEOUT,
            reconnect=listens,
            on_error=reporter.reported,
            on_disconnect=reporter.disconnected if listens else None,
            on_reconnect=reporter.reconnected,
        ) as nc:
            yield nc
    finally:
        logger.removeHandler(mute)


def _with_environment(
    options: Mapping[str, str], environment: Mapping[str, str]
) -> Callable[[str], str]:
    """Returns a function that looks up an option on the command line, then in the environment. It returns
    an empty text if neither has it."""
    logins = [names for names in _LOGINS if any(map(options.get, names))]
    passed = {name for names in _LOGINS if logins and names not in logins for name in names}

    def setting(name: str) -> str:
        if name in options or name in passed:
            return options.get(name, "")
        return environment.get(ENVIRONMENT[name], "")

    return setting


def _tls(options: Mapping[str, str], setting: Callable[[str], str]) -> TLS | bool:
    first = "tls_first" in options
    if not (
        first or "tls" in options or setting("tls_ca") or setting("tls_cert") or setting("tls_key")
    ):
        return False
    return TLS(
        ca_file=setting("tls_ca"),
        cert_file=setting("tls_cert"),
        key_file=setting("tls_key"),
        key_password=setting("tls_key_password") if setting("tls_cert") else "",
        handshake_first=first,
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
    if re.fullmatch("S[A-Z2-7]{57}", path):  # a secret, which no error may show
        raise OptionError("nkey", "the value is a seed; name the file that holds it")

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
