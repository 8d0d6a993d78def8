"""The options of a connection with their defaults, and the URLs of servers.

Invalid values raise `OptionError`; no error text and no `repr` shows a password or token. URLs have the
scheme `nats://`, `tls://`, `ws://` or `wss://`, or none. Defaults are those of nats.go where it has one
(nats.go: GetDefaultOptions).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from enum import Enum
from typing import Any, Literal, get_args

from ._checks import check_call, check_count, check_kind, check_seconds, check_text
from .credentials import Login
from .errors import OptionError
from .message import Msg
from .protocol import ServerInfo
from .protocol.structs import Struct, field
from .tls import TLS

__all__ = [
    "DEFAULT",
    "DEFAULT_URL",
    "Default",
    "Options",
    "Server",
    "check_max_msgs",
    "parse_servers",
    "wait_time",
]

DEFAULT_URL = "nats://127.0.0.1:4222"
DEFAULT_PORT = 4222
CLOSE_TIMEOUT = 5.0
DRAIN_TIMEOUT = 30.0
FLUSH_TIMEOUT = 10.0
REQUEST_TIMEOUT = 5.0
PENDING_MSGS_LIMIT = 500_000
PENDING_BYTES_LIMIT = 64 << 20
RECONNECT_BUFFER = 8 << 20
MAX_WAIT = 4e6
"""The longest wait that every platform allows, in seconds: 46 days (threading.TIMEOUT_MAX is 4294967 on
Windows)."""

MAX_CONTROL_LINE = 4096
"""A server's default limit for the bytes of subject, reply, queue and sid (nats-server: const.go)."""

MAX_MSGS = 999_999_999
"""The largest `max_msgs` in an UNSUB: servers read nine digits."""

_NOT_IN_PREFIX = r"[ \t\r\n*>\ud800-\udfff]"


class Default(Enum):
    """The type of `DEFAULT`, which stands for a timeout that is not given: that of the connection, or of the
    JetStream context."""

    DEFAULT = "the timeout of the connection or context"

    def __repr__(self) -> str:
        return self.name


DEFAULT = Default.DEFAULT


class Server(Struct, frozen=True):
    """One server; `str` is `host:port`. Credentials in its URL take precedence over those of the options.

    `tls_name` is the name that its certificate must have, if that is not `host`: a server announced by
    address needs the name of the server that announced it.
    """

    host: str
    port: int = DEFAULT_PORT
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    tls: bool = False
    tls_name: str = ""
    path: str = ""
    """The path of a WebSocket URL, from its first `/` on; empty for plain TCP."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def wait_time(timeout: float | None) -> float:
    """Returns the seconds to wait, at most MAX_WAIT; None means for ever.

    Raises TypeError for a `timeout` that is not a number, and OptionError for NaN.
    """
    if timeout is None:
        return MAX_WAIT
    if timeout.__class__ is not float or timeout != timeout:
        check_seconds(timeout=timeout)
    return timeout if timeout < MAX_WAIT else MAX_WAIT


def check_max_msgs(max_msgs: int | None) -> None:
    """Raises OptionError unless a subscription can be limited to `max_msgs` messages."""
    if max_msgs is not None and not (isinstance(max_msgs, int) and 1 <= max_msgs <= MAX_MSGS):
        raise OptionError("max_msgs", f"must be a whole number from 1 to {MAX_MSGS}")


def parse_servers(servers: str | Iterable[str]) -> tuple[Server, ...]:
    """Returns the servers of a list of URLs, or of a string of URLs separated by commas, in their order."""
    if not isinstance(servers, Iterable) or isinstance(servers, (bytes, bytearray)):
        raise TypeError(f"servers must be URLs, not {type(servers).__name__}")
    urls = servers.split(",") if isinstance(servers, str) else list(servers)
    for url in urls:
        check_text(**{"a URL in servers": url})
    found = tuple(_parse_server(url.strip()) for url in urls if url.strip())
    if not found:
        raise OptionError("servers", "the list is empty")
    if len({bool(server.path) for server in found}) > 1:
        raise OptionError("servers", "WebSocket URLs and others cannot be mixed")
    return found


_PORTS = {"nats": DEFAULT_PORT, "tls": DEFAULT_PORT, "ws": 80, "wss": 443}

_HOST_AND_PORT = re.compile(r"([A-Za-z0-9._-]+)(?::([0-9]{1,5}))?/?")
"""Matches nearly every URL after its scheme. For the others, the import of `urllib.parse` takes a quarter of
the time of the first connect."""


def _parse_server(url: str) -> Server:
    scheme, mark, rest = url.partition("://")
    if not mark:
        scheme, rest = "nats", url
    scheme = scheme.lower()
    if scheme not in _PORTS:
        raise OptionError(
            "servers", f"unknown scheme {scheme!r}: use nats://, tls://, ws:// or wss://"
        )
    is_websocket = scheme in ("ws", "wss")
    plain = _HOST_AND_PORT.fullmatch(rest)
    if plain and not is_websocket and 0 < int(plain[2] or DEFAULT_PORT) < 65536:
        return Server(plain[1].lower(), int(plain[2] or DEFAULT_PORT), tls=scheme == "tls")
    from urllib.parse import unquote, urlsplit  # imported late: few programs need it

    try:
        parts = urlsplit(f"nats://{rest}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise OptionError("servers", "a URL has an invalid host or port") from None
    is_plain = parts.path in ("", "/") and not parts.query
    after = parts.netloc.partition("]")[2]  # what follows an IPv6 address
    if (
        not host
        or port == 0
        or not (is_plain or is_websocket)
        or parts.fragment
        or after[:1] not in ":"
    ):
        raise OptionError("servers", "a URL must have the form nats://[user:password@]host[:port]")
    host = host.replace("%25", "%")  # before the zone of an IPv6 address (RFC 6874)
    user, password = unquote(parts.username or ""), parts.password
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "") if is_websocket else ""
    if not path.isprintable() or not path.isascii() or " " in path:
        raise OptionError("servers", "the path of a URL must be printable ASCII without blanks")
    login = ("", "", user) if password is None else (user, unquote(password), "")
    return Server(host, port or _PORTS[scheme], *login, tls=scheme in ("tls", "wss"), path=path)


def parse_proxy(url: str | None) -> Server | None:
    """Returns the address of an HTTP proxy and the credentials for it; None if there is no proxy."""
    if url is None:
        return None
    check_text(http_proxy=url)
    if not url.lower().startswith("http://"):
        raise OptionError(
            "http_proxy", "must be a URL of the form http://[user:password@]host[:port]"
        )
    try:
        found = _parse_server("ws" + url[4:])  # ws:// has the same default port, 80
    except OptionError as error:
        raise OptionError("http_proxy", error.reason) from None
    if found.path != "/":
        raise OptionError("http_proxy", "the URL of a proxy has no path")
    return found.replace(path="")


HandlerContext = Callable[[Msg], AbstractContextManager[object]]
"""Takes a message, and returns the context manager that its handler runs in."""


ReconnectDelay = Callable[[int], float]
"""Takes the number of failed rounds of attempts, and returns the seconds to wait before the next round."""

OpenSocket = Callable[[str, int], object]
"""Takes host and port, and returns a connected `socket.socket`: for proxies, Unix sockets, socket options."""

WebSocketHeaders = Mapping[str, str] | Callable[[], Mapping[str, str]]
"""HTTP headers, one value for each name; or returns them, and is called for each attempt to connect."""

SelectServer = Callable[[list[str], ServerInfo], "str | None"]
"""Takes the known servers (`host:port`, the next in turn first) and the INFO of the last server. Returns the
server to try next, one of the known ones, or None for the next in turn."""


CallbackName = Literal[
    "on_error",
    "on_connect",
    "on_disconnect",
    "on_reconnect",
    "on_discover",
    "on_lame_duck",
    "on_close",
]
CALLBACKS: tuple[CallbackName, ...] = get_args(CallbackName)


class Callbacks:
    """The functions that are called on the callback thread, one after the other, in the order of events. Any
    thread may add and remove some: single operations of lists, which are atomic, replace a lock."""

    def __init__(self, **callbacks: Callable[..., object] | None) -> None:
        check_call(**callbacks)
        self._of: dict[str, list[Callable[..., object]]] = {
            name: [call] if (call := callbacks.get(name)) else [] for name in CALLBACKS
        }

    def of(self, name: CallbackName) -> list[Callable[..., object]]:
        """Returns the functions of this name."""
        return self._of[name].copy()

    def add(self, name: CallbackName, call: Callable[..., object]) -> None:
        """Adds `call`, after others of this name. Raises OptionError for an unknown name, and TypeError."""
        calls = self._named(name)
        if call is None:
            raise TypeError(f"{name} must be callable, not NoneType")
        check_call(**{name: call})
        calls.append(call)

    def remove(self, name: CallbackName, call: Callable[..., object]) -> None:
        """Removes `call`. Raises OptionError if it is not there."""
        calls = self._named(name)
        try:
            calls.remove(call)
        except ValueError:
            raise OptionError(name, "is not a callback of this client") from None

    def _named(self, name: str) -> list[Callable[..., object]]:
        if name not in self._of:
            raise OptionError("name", f"is one of {', '.join(CALLBACKS)}")
        return self._of[name]


class Options(Struct, frozen=True, kw_only=True):
    """The options of one connection. Times are in seconds.

    `connect_timeout` limits connecting as a whole; `write_timeout` limits how long a publish waits while
    `write_buffer` bytes are ahead of it. A PING goes out every `ping_interval`; when `max_pings_out` of
    them are unanswered, the connection is stale. After a loss, every server is tried at once, then again
    after `reconnect_wait`. That delay doubles with each round up to `reconnect_max_wait`, and jitter
    lengthens it by up to a quarter. A server is given up after `max_reconnects` failures in a row (None:
    never). Meanwhile, `reconnect_buffer` bytes of messages are kept. `tls` demands TLS; it is used anyway
    if a server demands it. Without a `name`, the file name of the program is sent.
    """

    servers: tuple[Server, ...]
    name: str | None = None
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
    reconnect_wait: float | ReconnectDelay = 0.1
    reconnect_max_wait: float = 5.0
    reconnect_buffer: int = RECONNECT_BUFFER
    retry_on_failed_connect: bool = False
    ignore_auth_errors: bool = False
    reconnect_after_fork: bool = True
    select_server: SelectServer | None = None
    open_socket: OpenSocket | None = None
    http_proxy: Server | None = None
    websocket_headers: WebSocketHeaders | None = field(default=None, repr=False)
    websocket_compression: bool = False
    inbox_prefix: str = "_INBOX"
    handler_context: HandlerContext | None = None
    callbacks: Callbacks = field(default_factory=Callbacks)

    def __post_init__(self) -> None:
        check_text(name="" if self.name is None else self.name, inbox_prefix=self.inbox_prefix)
        check_call(handler_context=self.handler_context, select_server=self.select_server)
        check_call(open_socket=self.open_socket)
        for name in _FLAGS:
            check_kind(bool, **{name: getattr(self, name)})
        if self.http_proxy and self.open_socket:
            raise OptionError("http_proxy", "has no meaning with open_socket")
        if callable(self.reconnect_wait):
            check_call(reconnect_wait=self.reconnect_wait)
        if not (self.tls is None or isinstance(self.tls, TLS)):
            kind = type(self.tls).__name__
            raise TypeError(f"tls must be bool or natsync.TLS, not {kind}: see TLS(context=...)")
        if callable(self.websocket_headers):
            check_call(websocket_headers=self.websocket_headers)
        elif self.websocket_headers is not None:
            check_headers(self.websocket_headers)
        for name in _TIMES:
            seconds = getattr(self, name)
            if callable(seconds) and name == "reconnect_wait":
                continue
            if seconds == seconds:  # NaN fails the range check below
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
        if "" in self.inbox_prefix.split(".") or re.search(_NOT_IN_PREFIX, self.inbox_prefix):
            reason = "must be a subject in UTF-8 without wildcards and empty tokens"
            raise OptionError("inbox_prefix", reason)

    @property
    def wants_tls(self) -> bool:
        """Whether every connection must use TLS: one tls:// URL is enough."""
        return self.tls is not None or any(server.tls for server in self.servers)


# RFC 6455, 4.1. A server refuses a request that has one of them twice, or waits for a body.
_UPGRADE_HEADERS = {
    "upgrade",
    "connection",
    "content-length",
    "transfer-encoding",
    "sec-websocket-accept",
    "sec-websocket-extensions",
    "sec-websocket-key",
    "sec-websocket-version",
}


def check_headers(headers: Mapping[str, str]) -> None:
    """Raises OptionError for headers that an upgrade to a WebSocket cannot carry, or that it sets itself. A
    `Host` is allowed, and replaces that of the URL. Raises TypeError if they are no mapping of str to str.
    """
    if not isinstance(headers, Mapping):
        kind = type(headers).__name__
        raise TypeError(f"websocket_headers must be a mapping, or callable, not {kind}")
    for name, value in headers.items():
        check_text(**{"a name in websocket_headers": name, "a value in websocket_headers": value})
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            raise OptionError("websocket_headers", f"{name!r} is not a name of a header")
        if name.lower() in _UPGRADE_HEADERS:
            raise OptionError("websocket_headers", f"{name} is a header of the upgrade itself")
        if not value.isascii() or not value.isprintable():
            raise OptionError("websocket_headers", f"the value of {name} must be printable ASCII")


_TIMES = (
    "connect_timeout",
    "request_timeout",
    "write_timeout",
    "ping_interval",
    "reconnect_wait",
    "reconnect_max_wait",
)
_LEAST = {"max_pings_out": 1, "write_buffer": 1, "reconnect_buffer": 0, "max_reconnects": 0}
_FLAGS = [name for name, item in Options._declared.items() if item.annotation == "bool"]
_MAY_BE_NONE = ("connect_timeout", "request_timeout", "write_timeout")


def read_options(given: dict[str, object], version: str) -> Options:
    """Returns the options in the arguments of `connect`, by name. Raises OptionError, and TypeError."""
    read: dict[str, Any] = given
    # Taken out, so that what reports tracebacks with local variables finds no secret below another name.
    login = Login(**{name: read.pop(name) for name in Login._fields})
    tls, headers = read["tls"], read["websocket_headers"]
    read.update(
        {name: MAX_WAIT for name in _MAY_BE_NONE if read[name] is None},
        servers=parse_servers(read["servers"]),
        login=login,
        tls=TLS() if tls is True else None if tls is False else tls,
        version=version,
        http_proxy=parse_proxy(read["http_proxy"]),
        websocket_headers={**headers} if isinstance(headers, Mapping) else headers,
        callbacks=Callbacks(**{name: read[name] for name in CALLBACKS}),
    )
    return Options(**{name: read[name] for name in Options._fields if name in read})
