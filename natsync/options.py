"""What a connection can be told: `Options` with all defaults, and servers' URLs.

Refuses, with `OptionError`, what makes no sense; no text and no `repr` here shows a password or token.
Schemes: `nats://`, `tls://`, or none. Defaults follow nats.go where it has one (nats.go: GetDefaultOptions).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields

from ._checks import check_call, check_count, check_seconds, check_text
from .credentials import Login
from .errors import Error, OptionError
from .message import Msg
from .tls import TLS

__all__ = ["DEFAULT_URL", "Options", "Server", "check_max_msgs", "parse_servers"]

DEFAULT_URL = "nats://127.0.0.1:4222"
DEFAULT_PORT = 4222
CLOSE_TIMEOUT = 5.0
FLUSH_TIMEOUT = 10.0
REQUEST_TIMEOUT = 5.0
PENDING_MSGS_LIMIT = 500_000
PENDING_BYTES_LIMIT = 64 << 20
RECONNECT_BUFFER = 8 << 20
MAX_WAIT = 4e6
"""Seconds that any platform can wait (threading.TIMEOUT_MAX is 4294967 on Windows); 46 days."""

MAX_CONTROL_LINE = 4096
"""Bytes of subject, reply, queue and sid that servers take, unless configured (nats-server: const.go)."""

MAX_MSGS = 999_999_999
"""The most that UNSUB can say: servers read nine digits."""

_NOT_IN_PREFIX = set(" \t\r\n*>")


@dataclass(frozen=True, slots=True)
class Server:
    """One server to connect to; `str` is `host:port`. What its URL says of credentials comes first.

    `tls_name` is the name that its certificate must have, where that is not `host`: servers tell of each
    other by address.
    """

    host: str
    port: int = DEFAULT_PORT
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    tls: bool = False
    tls_name: str = ""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def check_max_msgs(max_msgs: int | None) -> None:
    """Raises OptionError for a number of messages that no subscription can be limited to."""
    if max_msgs is not None and not (isinstance(max_msgs, int) and 1 <= max_msgs <= MAX_MSGS):
        raise OptionError("max_msgs", f"must be a whole number from 1 to {MAX_MSGS}")


def parse_servers(servers: str | Iterable[str]) -> tuple[Server, ...]:
    """The servers of a list of URLs, or of one string with commas, in that order."""
    if not isinstance(servers, Iterable):
        raise TypeError(f"servers must be URLs, not {type(servers).__name__}")
    urls = servers.split(",") if isinstance(servers, str) else list(servers)
    check_text(**{"a server's URL": url for url in urls if not isinstance(url, str)})
    found = tuple(_parse_server(url.strip()) for url in urls if url.strip())
    if not found:
        raise OptionError("servers", "no server is named")
    return found


def _parse_server(url: str) -> Server:
    from urllib.parse import unquote, urlsplit  # a tenth of what `import natsync` would take

    scheme, mark, rest = url.partition("://")
    if not mark:
        scheme, rest = "nats", url
    scheme = scheme.lower()
    if scheme in ("ws", "wss"):
        raise OptionError("servers", f"scheme {scheme}:// is not supported by this version")
    if scheme not in ("nats", "tls"):
        raise OptionError("servers", "a URL starts with nats:// or tls://")
    try:
        parts = urlsplit(f"nats://{rest}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise OptionError("servers", "a URL whose host or port cannot be read") from None
    if not host or port == 0 or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise OptionError("servers", "a URL is nats://[user:password@]host[:port]")
    user, password = unquote(parts.username or ""), parts.password
    tls = scheme == "tls"
    if password is None:
        return Server(host, port or DEFAULT_PORT, token=user, tls=tls)
    return Server(host, port or DEFAULT_PORT, user, unquote(password), tls=tls)


HandlerContext = Callable[[Msg], AbstractContextManager[object]]
"""A context for the handling of one message: entered before a handler is called, left after it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Callbacks:
    """What is called when something happens to a connection, on one thread, in the order of causes."""

    on_error: Callable[[Error], None] | None = None
    on_disconnect: Callable[[Error | None], None] | None = None
    on_reconnect: Callable[[], None] | None = None
    on_discover: Callable[[list[str]], None] | None = None
    on_lame_duck: Callable[[], None] | None = None
    on_close: Callable[[Error | None], None] | None = None

    def __post_init__(self) -> None:
        check_call(**{item.name: getattr(self, item.name) for item in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Options:
    """Everything that can be chosen about a connection. Times are seconds.

    `connect_timeout` bounds connecting as a whole, `write_timeout` how long a publish waits while
    `write_buffer` bytes are ahead of it. A PING goes out every `ping_interval`; when `max_pings_out` of
    them are unanswered the connection is stale. After a loss every server is tried at once, then again after
    `reconnect_wait`, twice as long each time, up to `reconnect_max_wait`, and up to a quarter longer by
    chance. A server is given up after `max_reconnects` failures in a row (None: never). Meanwhile
    `reconnect_buffer` bytes of messages are kept. `tls` demands TLS; a server that demands it gets it anyway.
    """

    servers: tuple[Server, ...]
    name: str = ""
    login: Login = field(default_factory=Login)
    tls: TLS | None = None
    version: str = ""
    verbose: bool = False
    pedantic: bool = False
    echo: bool = True
    connect_timeout: float = 2.0
    request_timeout: float = REQUEST_TIMEOUT
    write_timeout: float = 10.0
    write_buffer: int = 512 << 10
    ping_interval: float = 120.0
    max_pings_out: int = 2
    randomize: bool = True
    discover: bool = True
    reconnect: bool = True
    max_reconnects: int | None = None
    reconnect_wait: float = 0.1
    reconnect_max_wait: float = 5.0
    reconnect_buffer: int = RECONNECT_BUFFER
    retry_on_failed_connect: bool = False
    ignore_auth_errors: bool = False
    reconnect_after_fork: bool = True
    inbox_prefix: str = "_INBOX"
    handler_context: HandlerContext | None = None
    callbacks: Callbacks = field(default_factory=Callbacks)

    def __post_init__(self) -> None:
        check_text(name=self.name, inbox_prefix=self.inbox_prefix)
        check_call(handler_context=self.handler_context)
        if not (self.tls is None or isinstance(self.tls, TLS)):
            kind = type(self.tls).__name__
            raise TypeError(f"tls must be bool or natsync.TLS, not {kind}: see TLS(context=...)")
        for name in _TIMES:
            seconds = getattr(self, name)
            if seconds == seconds:  # NaN is out of range, below
                check_seconds(**{name: seconds})
            if not 0 < seconds <= MAX_WAIT:
                raise OptionError(name, f"must be above 0 and at most {MAX_WAIT:.0f}")
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is None and name == "max_reconnects":
                continue
            check_count(**{name: value})
            if value < least:
                raise OptionError(name, f"must be at least {least}")
        if "" in self.inbox_prefix.split(".") or _NOT_IN_PREFIX & set(self.inbox_prefix):
            raise OptionError(
                "inbox_prefix", "must be a subject without wildcards and empty tokens"
            )

    @property
    def wants_tls(self) -> bool:
        """Whether no server may be talked to without TLS: one tls:// URL is enough."""
        return self.tls is not None or any(server.tls for server in self.servers)


_TIMES = (
    "connect_timeout",
    "request_timeout",
    "write_timeout",
    "ping_interval",
    "reconnect_wait",
    "reconnect_max_wait",
)
_LEAST = {"max_pings_out": 1, "write_buffer": 1, "reconnect_buffer": 0, "max_reconnects": 0}
