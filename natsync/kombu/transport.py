"""`Transport`: the interface between kombu and NATS.

Each kombu connection has one `natsync.Client`. The client reconnects on its own; kombu only sees
calls that fail meanwhile.
"""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from time import monotonic
from typing import Any, TypeAlias

from kombu.connection import Connection
from kombu.transport import TRANSPORT_ALIASES, virtual
from kombu.utils.url import parse_url

from .. import __version__, connect
from ..client import Client
from ..errors import (
    ConnectionDrainingError,
    InvalidResponseError,
    OptionError,
    OutboundBufferLimitError,
)
from ..jetstream import JetStreamError, JetStreamUnavailableError, NoStreamResponseError
from ..kv import KeyValueError
from ..tls import TLS
from .bindings import KINDS, Bindings
from .channel import Channel
from .deliveries import Deliveries
from .naming import CONSUMER, Names
from .queues import QueueOptions, Queues

__all__ = ["Transport", "masked", "register", "without_virtual_host"]

_Options: TypeAlias = dict[str, Any]  # options of users, who may pass anything

_log = logging.getLogger("natsync.kombu")

_SCHEME = "nats"
_LONGEST_WAIT = 1.0
"""The longest single wait in seconds: after it, channels that may take messages again request some,
and lost requests are repeated."""

_USERINFO = re.compile(r"(?P<scheme>[\w+]+://)?(?P<user>[^:@]*:)?.*@")
_WITHOUT_USERINFO = re.compile(r"(?:[\w+]+://)?(?:\[[^]]*\]|[^:[]*)(?::\d+)?(?:/.*)?")

_OWN_OPTIONS = {"prefix", "domain", "replicas", "storage", "visibility_timeout", "connect"}


def register() -> None:
    """Registers `nats://`, `nats+tls://`, `nats+ws://` and `nats+wss://` with kombu and Celery, as a broker
    and, if Celery is installed, as a result backend."""
    with suppress(ModuleNotFoundError):
        from celery.app.backends import BACKEND_ALIASES

        BACKEND_ALIASES[_SCHEME] = f"{__package__}.backend:ResultBackend"
    for scheme in (_SCHEME, *(f"{_SCHEME}+{other}" for other in ("tls", "ws", "wss"))):
        # For a failover, kombu looks up the whole scheme.
        TRANSPORT_ALIASES[scheme] = f"{__package__}:Transport"


class Transport(virtual.Transport):
    """A kombu connection to NATS, for one thread."""

    Channel = Channel
    can_parse_url = True
    default_port = 4222  # type: ignore[assignment]  # kombu's own is None, not typed otherwise
    driver_type = "nats"
    driver_name = "natsync"
    connection_errors = (  # type: ignore[assignment]  # kombu's is typed as one class
        *virtual.Transport.connection_errors,
        OSError,  # lost connections and timeouts are OSErrors
        ConnectionDrainingError,
        JetStreamUnavailableError,
        NoStreamResponseError,  # the stream of a queue, or of the bindings, has no leader
        OutboundBufferLimitError,
    )
    channel_errors = (  # type: ignore[assignment]  # kombu's is typed as one class
        *virtual.Transport.channel_errors,
        InvalidResponseError,
        JetStreamError,
        KeyValueError,  # somebody has deleted the bucket of the bindings
    )
    implements = virtual.Transport.implements.extend(exchange_type=KINDS)
    client: Connection
    nats: Client
    queues: Queues
    bindings: Bindings
    deliveries: Deliveries

    def establish_connection(self) -> Transport:
        """Connects. Raises the errors of `natsync.connect`."""
        options = dict(self.client.transport_options or {})
        names = Names(options.pop("prefix", "kombu"), self._virtual_host())
        domain = options.pop("domain", None)
        arguments = self._connect_arguments(options.pop("connect", {}))
        known = {name: options.pop(name) for name in _OWN_OPTIONS & options.keys()}
        _warn_of_others(options)
        kept = QueueOptions(**known)
        self.nats = connect(**arguments)
        try:
            js = self.nats.jetstream(domain=domain)
            self.bindings = Bindings(js, names, kept.replicas)
            self.queues = Queues(js, names, kept, self.bindings)
            self.deliveries = Deliveries(
                self.nats,
                lambda queue: js.api.subject(f"CONSUMER.MSG.NEXT.{names.stream(queue)}.{CONSUMER}"),
                self.queues,
                kept.visibility_timeout / 3,
            )
            made: Transport = super().establish_connection()
            return made
        except BaseException:
            self.nats.close()
            raise

    def close_connection(self, connection: object) -> None:
        """Returns unacknowledged messages to their queues, and closes the client."""
        try:
            super().close_connection(connection)
        finally:
            self.deliveries.close()
            self.bindings.close()
            self.nats.close()

    def verify_connection(self, connection: object) -> bool:
        """Returns whether the client is not closed."""
        return self.nats.status.value != "closed"

    def drain_events(  # type: ignore[override]  # as all virtual transports
        self, connection: object, timeout: float | None = None
    ) -> None:
        """Passes one message to its consumer. Raises TimeoutError after `timeout` seconds."""
        until = None if timeout is None else monotonic() + timeout
        while True:
            for channel in self.channels:
                channel.ask()
            wait = _LONGEST_WAIT if until is None else min(_LONGEST_WAIT, until - monotonic())
            delivery = self.deliveries.receive(max(wait, 0.0))
            if delivery is not None:
                for channel in self.channels:
                    if channel.consumes(delivery.queue):
                        channel.take(delivery)
                        return
                self.deliveries.requeue(delivery)
            if until is not None and monotonic() >= until:
                raise TimeoutError  # the same class as socket.timeout

    def driver_version(self) -> str:
        """Returns the version of natsync."""
        return __version__

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:
        """Returns the URL, with `mask` in place of passwords and tokens."""
        if not include_password:
            uri = ",".join(masked(each, mask) for each in uri.split(","))
        return f"{self.client.uri_prefix}+{uri}" if self.client.uri_prefix else uri

    def _virtual_host(self) -> str:
        """Returns the virtual host: the path of the URL, or of the last one of several, except for
        WebSocket URLs, whose path belongs to the server."""
        return without_virtual_host(self._url())[1]

    def _url(self) -> str:
        """Returns the URL of the server. After a failover, kombu has taken the new URL apart; if
        that URL has no port or virtual host, those of the previous URL are still set
        (`Connection._init_params`)."""
        client = self.client
        host = (client.hostname or "127.0.0.1").removeprefix(f"{client.uri_prefix}+")
        if "://" in host:
            return host
        server = (client.transport_cls, host, client.userid, client.password)
        place = (client.port, client.virtual_host)
        found = [url for url in client.alt if "://" in url and _is_of(url, server, place)]
        if found:
            exact = [url for url in found if _is_of(url, server, place, exactly=True)]
            return str((exact or found)[0]).removeprefix(f"{_SCHEME}+")
        return f"{_SCHEME}://{host}:{client.port or self.default_port}/{client.virtual_host}"

    def _connect_arguments(self, more: _Options) -> _Options:
        """Returns the arguments of `natsync.connect`; `more` are those of the user."""
        url = self._url()
        arguments: _Options = {
            "servers": without_virtual_host(url)[0],
            "name": "kombu",
            "connect_timeout": self.client.connect_timeout,
        }
        if self.client.userid and "@" not in url:
            arguments.update(user=self.client.userid, password=self.client.password or "")
        if self.client.ssl:
            arguments["tls"] = _tls(self.client.ssl)
        return arguments | more


def without_virtual_host(urls: str) -> tuple[str, str]:
    """Returns URLs, separated by commas, without the virtual host; and the virtual host."""
    servers, virtual_host = [], ""
    for url in re.split(r",(?:nats\+)?(?=(?:nats|tls|wss?)://)", urls):
        parts = re.fullmatch(r"((?:nats|tls)://[^/]*)/(.*)", url)
        servers.append(parts[1] if parts else url)
        virtual_host = parts[2] if parts else virtual_host
    return ",".join(servers), virtual_host


def _is_of(
    url: str, server: tuple[object, ...], place: tuple[object, object], *, exactly: bool = False
) -> bool:
    """Returns whether kombu may have split this URL into `server` and `place`, which is the port
    and the virtual host."""
    parts = parse_url(url)
    if tuple(parts[name] for name in ("transport", "hostname", "userid", "password")) != server:
        return False
    found = (parts["port"], parts["virtual_host"])
    return all(
        one == other or not (one or exactly) for one, other in zip(found, place, strict=True)
    )


def masked(url: str, mask: str) -> str:
    """Returns one URL of a list without its password or token. A password that should have been
    percent-encoded (`p@ss`, `p/ss`, `p,ss`) is masked as well; of text that is not a URL, only the
    scheme is shown."""
    if userinfo := _USERINFO.match(url):
        shown = (userinfo["scheme"] or "") + (userinfo["user"] or "")
        return f"{shown}{mask}@{url[userinfo.end():]}"
    if _WITHOUT_USERINFO.fullmatch(url):
        return url
    return re.sub(r"(?s)^([\w+]+://)?.*", rf"\1{mask}", url, count=1)


def _tls(ssl: bool | _Options) -> TLS | bool:
    """Translates kombu's `ssl` options, which have the names of Python's ssl module, to a `TLS`."""
    if not isinstance(ssl, dict):
        return bool(ssl)
    names = {"ca_certs": "ca_file", "certfile": "cert_file", "keyfile": "key_file"}
    unknown = ssl.keys() - names.keys() - {"cert_reqs"}
    if unknown:
        raise OptionError("ssl", f"unknown: {', '.join(sorted(unknown))}")
    files = {names[name]: value for name, value in ssl.items() if name in names}
    return TLS(**files, verify=ssl.get("cert_reqs", 2) != 0)


def _warn_of_others(options: _Options) -> None:
    """Warns of options that have no effect here, except the retry settings, which Celery always
    passes."""
    retries = {"interval_max", "interval_start", "interval_step", "max_retries"}
    unknown = options.keys() - retries - {"body_encoding", "deadletter_queue"}
    if unknown:
        _log.warning("transport options without effect on NATS: %s", ", ".join(sorted(unknown)))
