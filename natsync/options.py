"""What a connection can be told: `Options` with all defaults, and servers' URLs.

Refuses, with `OptionError`, what makes no sense; no text and no `repr` here shows a password or token.
Schemes: `nats://`, or none. Defaults follow nats.go where it has one (nats.go: GetDefaultOptions).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from .errors import Error, OptionError

__all__ = ["DEFAULT_URL", "Options", "Server", "check_max_msgs", "parse_servers"]

DEFAULT_URL = "nats://127.0.0.1:4222"
DEFAULT_PORT = 4222
CLOSE_TIMEOUT = 5.0
FLUSH_TIMEOUT = 10.0
REQUEST_TIMEOUT = 5.0
PENDING_MSGS_LIMIT = 500_000
PENDING_BYTES_LIMIT = 64 << 20
MAX_WAIT = 4e6
"""Seconds that any platform can wait (threading.TIMEOUT_MAX is 4294967 on Windows); 46 days."""

MAX_MSGS = 999_999_999
"""The most that UNSUB can say: servers read nine digits."""

_NOT_IN_PREFIX = set(" \t\r\n*>")


@dataclass(frozen=True, slots=True)
class Server:
    """One server to connect to; `str` is `host:port`. What its URL says of credentials comes first."""

    host: str
    port: int = DEFAULT_PORT
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def check_max_msgs(max_msgs: int | None) -> None:
    """Raises OptionError for a number of messages that no subscription can be limited to."""
    if max_msgs is not None and not (isinstance(max_msgs, int) and 1 <= max_msgs <= MAX_MSGS):
        raise OptionError("max_msgs", f"must be a whole number from 1 to {MAX_MSGS}")


def parse_servers(servers: str | Iterable[str]) -> tuple[Server, ...]:
    """The servers of a list of URLs, or of one string with commas, in that order."""
    urls = servers.split(",") if isinstance(servers, str) else servers
    found = tuple(_parse_server(url.strip()) for url in urls if url.strip())
    if not found:
        raise OptionError("servers", "no server is named")
    return found


def _parse_server(url: str) -> Server:
    from urllib.parse import unquote, urlsplit  # a tenth of what `import natsync` would take

    scheme, mark, rest = url.partition("://")
    if not mark:
        scheme, rest = "nats", url
    if scheme.lower() in ("tls", "ws", "wss"):
        raise OptionError("servers", f"scheme {scheme.lower()}:// is not supported by this version")
    if scheme.lower() != "nats":
        raise OptionError("servers", "a URL starts with nats://")
    try:
        parts = urlsplit(f"nats://{rest}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise OptionError("servers", "a URL whose host or port cannot be read") from None
    if not host or port == 0 or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise OptionError("servers", "a URL is nats://[user:password@]host[:port]")
    user, password = unquote(parts.username or ""), parts.password
    if password is None:
        return Server(host, port or DEFAULT_PORT, token=user)
    return Server(host, port or DEFAULT_PORT, user, unquote(password))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything that can be chosen about a connection. Times are seconds.

    `timeout` bounds connecting as a whole, `write_timeout` how long a publish waits while `write_buffer`
    bytes are ahead of it. A PING goes out every `ping_interval`; when `max_pings_out` of them are
    unanswered the connection is stale.
    """

    servers: tuple[Server, ...]
    name: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    version: str = ""
    timeout: float = 2.0
    request_timeout: float = REQUEST_TIMEOUT
    write_timeout: float = 10.0
    write_buffer: int = 256 << 10
    ping_interval: float = 120.0
    max_pings_out: int = 2
    inbox_prefix: str = "_INBOX"
    on_error: Callable[[Error], None] | None = None
    on_close: Callable[[Error | None], None] | None = None

    def __post_init__(self) -> None:
        for name in ("name", "user", "password", "token", "inbox_prefix"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{name} must be str, not {type(getattr(self, name)).__name__}")
        for name in ("timeout", "request_timeout", "write_timeout", "ping_interval"):
            if not 0 < getattr(self, name) <= MAX_WAIT:
                raise OptionError(name, f"must be above 0 and at most {MAX_WAIT:.0f}")
        if self.max_pings_out < 1:
            raise OptionError("max_pings_out", "must be at least 1")
        if "" in self.inbox_prefix.split(".") or _NOT_IN_PREFIX & set(self.inbox_prefix):
            raise OptionError(
                "inbox_prefix", "must be a subject without wildcards and empty tokens"
            )
        if self.token and (self.user or self.password):
            raise OptionError("token", "excludes user and password")
