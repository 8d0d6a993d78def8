"""`connect`, with all options of a connection; and what happens at exit to connections that are open."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import weakref
from collections.abc import Callable, Iterable
from time import monotonic
from typing import TYPE_CHECKING

from ._engine.connection import EXIT_TIMEOUT, Connection
from ._engine.forks import watch
from ._late import late_import
from .client import Client
from .credentials import Source
from .errors import ConnectError, Error, ForkedError
from .options import (
    DEFAULT_URL,
    RECONNECT_BUFFER,
    REQUEST_TIMEOUT,
    HandlerContext,
    OpenSocket,
    Options,
    ReconnectDelay,
    SelectServer,
    WebSocketHeaders,
    read_options,
)
from .tls import TLS

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from .instrumentation import Instrumentation

    _C = TypeVar("_C", bound=Client, default=Client)

__all__ = ["connect"]

_open: weakref.WeakSet[Connection] = weakref.WeakSet()
_is_leaving = False  # whether the program ends


def _own_connections() -> list[Connection]:
    return [each for each in list(_open) if each.process == os.getpid()]


@atexit.register
def _leave_at_exit() -> None:
    """Ends the subscriptions of all open connections: a program that ends without `close` still sends what it
    published. Functions that were registered earlier, such as `logging.shutdown`, run later, and can still
    publish."""
    global _is_leaving
    _is_leaving = True
    until = monotonic() + EXIT_TIMEOUT
    for connection in _own_connections():
        connection.leave(max(0.0, until - monotonic()))
    gc.callbacks.append(_part)


def _part(phase: str, _: object) -> None:
    """Parts from the servers at the very end: called by the collection of garbage that Python makes after the
    last function of `atexit`, unless the program has switched that off."""
    if phase == "start" and sys.is_finalizing():
        gc.callbacks.remove(_part)
        until = monotonic() + EXIT_TIMEOUT
        for connection in _own_connections():
            connection.part(max(0.0, until - monotonic()))


def _send_at_exit() -> None:
    global _is_leaving
    _is_leaving = True
    until = monotonic() + EXIT_TIMEOUT
    for connection in _own_connections():
        connection.send_all(max(0.0, until - monotonic()))


_exit_watched_in = (
    0  # the id of the process in which `_watch_exit` or `_call_at_exit` has taken effect
)


def _call_at_exit(call: Callable[[], None]) -> None:
    """Makes this `multiprocessing` process run `call` when it ends: most end without running `atexit`."""
    global _exit_watched_in
    from multiprocessing.util import Finalize

    _exit_watched_in = os.getpid()
    Finalize(None, call, exitpriority=-1)


def _watch_exit() -> None:
    """Makes `multiprocessing` processes, too, send what they published before they end."""
    global _exit_watched_in
    if "multiprocessing" not in sys.modules or _exit_watched_in == os.getpid():
        return
    from multiprocessing import parent_process, util

    if parent_process():
        _call_at_exit(_send_at_exit)
    else:  # the main process; or a spawned child that still imports the main module, and runs hooks later
        _exit_watched_in = os.getpid()
        util.register_after_fork(_send_at_exit, _call_at_exit)


def connect(
    servers: str | Iterable[str] = DEFAULT_URL,
    *,
    name: str | None = None,
    user: str | Callable[[], str] = "",
    password: str | Callable[[], str] = "",
    token: str | Callable[[], str] = "",
    credentials: Source | Callable[[], Source] = "",
    nkey: str | bytes | Callable[[], str | bytes] = "",
    jwt: str | bytes | Callable[[], str | bytes] = "",
    sign: Callable[[bytes], bytes] | None = None,
    tls: TLS | bool | None = False,
    connect_timeout: float | None = 2.0,
    request_timeout: float | None = REQUEST_TIMEOUT,
    write_timeout: float | None = 10.0,
    ping_interval: float = 120.0,
    max_pings_out: int = 2,
    verbose: bool = False,
    pedantic: bool = False,
    echo: bool = True,
    randomize: bool = True,
    discover: bool = True,
    reconnect: bool = True,
    max_reconnects: int | None = None,
    reconnect_wait: float | ReconnectDelay = 0.1,
    reconnect_max_wait: float = 5.0,
    reconnect_buffer: int = RECONNECT_BUFFER,
    retry_on_failed_connect: bool = False,
    ignore_auth_errors: bool = False,
    reconnect_after_fork: bool = True,
    select_server: SelectServer | None = None,
    open_socket: OpenSocket | None = None,
    http_proxy: str | None = None,
    websocket_headers: WebSocketHeaders | None = None,
    websocket_compression: bool = False,
    inbox_prefix: str = "_INBOX",
    handler_context: HandlerContext | None = None,
    on_error: Callable[[Error], None] | None = None,
    on_connect: Callable[[], None] | None = None,
    on_disconnect: Callable[[Error | None], None] | None = None,
    on_reconnect: Callable[[], None] | None = None,
    on_discover: Callable[[list[str]], None] | None = None,
    on_lame_duck: Callable[[], None] | None = None,
    on_close: Callable[[Error | None], None] | None = None,
    instrumentation: Instrumentation | Iterable[Instrumentation] | None = None,
    client_class: type[_C] = Client,  # type: ignore[assignment]  # as the default of _C says
) -> _C:
    """Connects to the first of `servers` that answers, and returns a client. docs/natsync.md has a table of
    all options.

    `servers` is a URL, several URLs separated by commas, or a list of URLs:
    `nats://[user:password@|token@]host[:port]`, or `tls://` to demand TLS; `ws://` and `wss://` for a
    WebSocket, with an optional path. Blocks for at most `connect_timeout` seconds, for all steps and all
    servers together. Raises ConnectError (or ConnectTimeoutError) with the step that failed,
    AuthorizationError, CredentialsError, SecureConnWantedError, NoServersError if several servers failed,
    OptionError for invalid arguments, and TypeError for arguments of a wrong type.

    When the connection is lost, the client reconnects, and never gives up unless `max_reconnects` is set.
    With `retry_on_failed_connect`, `connect` returns even if the first attempt fails, and the client keeps
    trying: see `Client.wait_connected`.

    Credentials may be callables: they and `sign` are called at every connect, on their own thread. If one
    takes longer than `connect_timeout`, the attempt fails in the step `auth`.

    `on_error(error)` receives errors that no call can raise: errors of the server, failed attempts to
    reconnect, SlowConsumerError, HandlerError. Without it, the logger `natsync` reports them as warnings.
    `on_connect()` is called after the first connection, also if `connect` has returned without one.
    `on_close(error)` receives the reason why the connection was lost for good, or None after `close`. All
    callbacks run one after the other on one thread, and may call the client; `Client.add_callback` adds more.
    """
    options = read_options(locals(), _version())  # first: of the arguments only
    if options.tls:
        options.tls.make_context()  # so that a file that cannot be used fails this call
    prepare = _instrumenter(instrumentation)
    if not (isinstance(client_class, type) and issubclass(client_class, Client)):
        raise TypeError(f"client_class must be a subclass of Client, not {client_class!r}")
    client = client_class(_connection(options), _renewed)
    prepare(client)
    watch(client, Client._inherit)
    return client


def _instrumenter(
    instrumentation: Instrumentation | Iterable[Instrumentation] | None,
) -> Callable[[Client], None]:
    """Returns a function that makes a client call `instrumentation`. Raises TypeError."""
    if instrumentation is None:
        return lambda client: None
    with late_import:
        # imports concurrent.futures
        from .instrumentation import Instrumentation, Instrumentations, instrument

    several = isinstance(instrumentation, Iterable) and not isinstance(instrumentation, str)
    hooks = [*instrumentation] if isinstance(instrumentation, Iterable) else [instrumentation]
    for hook in hooks if several else [instrumentation]:
        if not isinstance(hook, Instrumentation):
            kind = type(hook).__name__
            raise TypeError(f"instrumentation must be an Instrumentation, not {kind}")
    whole = Instrumentations(*hooks) if several else hooks[0]
    return lambda client: instrument(client, whole)


def _connection(options: Options) -> Connection:
    with late_import:
        import json  # noqa: F401  # the I/O thread needs it when a fork may happen
    try:
        connection = Connection(options)
        connection.open()
    except Error:
        raise
    except (OSError, RuntimeError) as error:  # the system is out of descriptors or threads
        reason = getattr(error, "strerror", None) or str(error)
        if (
            "interpreter" in reason and "shutdown" not in reason
        ):  # it forbids threads, or daemon threads
            reason = f"connect in the main interpreter, not in an isolated subinterpreter: {reason}"
        raise ConnectError(str(options.servers[0]), "tcp", reason) from error
    _open.add(connection)
    _watch_exit()
    if _is_leaving:
        connection.send_all(EXIT_TIMEOUT)
    return connection


def _renewed(parents: Connection) -> Connection:
    """Returns a new connection for a forked child, in place of its parent's. Raises ForkedError if the
    options forbid it."""
    _open.discard(parents)
    if not parents.options.reconnect_after_fork:
        raise ForkedError
    # Those that the parent knows now: they may have been replaced or discovered since it connected.
    return _connection(parents.options.replace(servers=tuple(parents.pool.servers)))


def _version() -> str:
    from . import __version__

    return __version__
