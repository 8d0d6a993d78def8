"""Instrumentation: an object of the program, which the client calls for each message it sends or handles.

It serves tracing and metrics: `natsync.otel` has one of each for OpenTelemetry, samples/prometheus_metrics.py
one for Prometheus. A client without instrumentation is not slowed down, since only the calls of a client with
instrumentation are wrapped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial, wraps
from typing import TYPE_CHECKING, Protocol, TypeVar, cast
from weakref import ref

from ._engine.connection import Connection
from .errors import Error
from .headers import HeadersLike, to_text
from .message import Data, Msg, message_parts, wire_reply
from .subscription import Replies

if TYPE_CHECKING:
    from .client import Client

__all__ = ["Instrumentation", "Instrumentations", "instrument"]

_M = TypeVar("_M", bound=Msg)

_PROTOCOL = re.compile(r"(^|\.)(\$JS\.(ACK|FC)|CONSUMER\.MSG\.NEXT)\.")
"""Finds subjects on which the client talks with the server, maybe below the prefix of an import: of
acknowledgements, flow control (ADR-15) and pull requests (ADR-13)."""


class Instrumentation:
    """The base class of instrumentations; each method does nothing until it is overridden.

    The client calls the methods on the threads that make its calls or run its handlers, so any number of
    threads may call them at the same time. Exceptions that they raise reach the program; those of `reported`
    are logged.
    """

    def attached(self, client: Client) -> None:
        """Called once for each client, after its first attempt to connect."""

    def begin(
        self, client: Client, operation: str, subject: str, data: Data, headers: HeadersLike | None
    ) -> tuple[object, HeadersLike | None]:
        """Called before a message is sent. Returns a token for `end`, and the headers to send.

        Acknowledgements and pull requests of JetStream are no messages of the program, and not passed on.
        `operation` is `publish`, `publish_confirmed`, `request`, `request_async`, `request_many` or
        `window`. The arguments have not been checked yet.
        """
        return None, headers

    def end(self, token: object, error: BaseException | None) -> None:
        """Called when the operation ends: the message is buffered or confirmed, the reply has arrived, or
        the operation has failed with `error`."""

    def handling(
        self, client: Client, msg: Msg, subject: str, queue: str
    ) -> AbstractContextManager[object]:
        """Returns a context manager that the handler runs in, and which also sees what the handler raises.
        `subject` and `queue` are those of the subscription. For a handler of JetStream, `subject` is the
        consumer's filter, or else the name of the stream, and `queue` is the durable name."""
        return nullcontext()

    def reported(self, client: Client, error: Error) -> None:
        """Called on the callback thread for each error that `on_error` of the connection receives, and before
        it; also without `on_error`."""


class Instrumentations(Instrumentation):
    """Several instrumentations as one. Each begins inside those before it."""

    def __init__(self, *each: Instrumentation) -> None:
        self._each = each

    def attached(self, client: Client) -> None:
        for hook in self._each:
            hook.attached(client)

    def begin(
        self, client: Client, operation: str, subject: str, data: Data, headers: HeadersLike | None
    ) -> tuple[object, HeadersLike | None]:
        tokens: list[object] = []
        try:
            for hook in self._each:
                token, headers = hook.begin(client, operation, subject, data, headers)
                tokens.append(token)
        except BaseException as error:
            self.end(tokens, error)
            raise
        return tokens, headers

    def end(self, token: object, error: BaseException | None) -> None:
        tokens = cast("list[object]", token)
        for hook, own in reversed(list(zip(self._each, tokens))):
            hook.end(own, error)

    @contextmanager
    def handling(self, client: Client, msg: Msg, subject: str, queue: str) -> Iterator[None]:
        with ExitStack() as stack:
            for hook in self._each:
                stack.enter_context(hook.handling(client, msg, subject, queue))
            yield

    def reported(self, client: Client, error: Error) -> None:
        for hook in self._each:
            hook.reported(client, error)


class _Send(Protocol):
    def __call__(
        self, subject: str, data: Data, *, headers: HeadersLike | None, **options: object
    ) -> object: ...


def instrument(client: Client, hook: Instrumentation) -> None:
    """Wraps the calls of `client` that send messages or take handlers."""
    calls = vars(client)
    for operation in (
        "publish",
        "publish_confirmed",
        "request",
        "request_async",
        "request_many",
    ):
        calls[operation] = instrumented(client, hook, operation, getattr(client, operation))
    calls["respond"] = _responding(client, client.respond)
    calls["_observe_handler"] = partial(_observed, client, hook)
    calls["_observe"] = lambda ask: _observed_ask(client, hook, ask)
    adopt, weak = client._adopt, ref(client)  # a connection must not keep its client

    def reported(error: Error) -> None:
        if found := weak():
            hook.reported(found, error)

    def adopt_observed(connection: Connection) -> Connection:
        connection.dispatcher.observe = reported
        return adopt(connection)

    calls["_adopt"] = adopt_observed  # for the connection of a forked child, too
    client._adopt(client._connection)  # so that `Msg.respond` calls the wrapped method
    hook.attached(client)


def _responding(client: Client, respond: Callable[..., None]) -> Callable[..., None]:
    def call(msg: Msg, data: Data = b"", *, headers: HeadersLike | None = None) -> None:
        reply = to_text(wire_reply(msg))
        if _PROTOCOL.search(reply):
            respond(msg, data, headers=headers)
        else:
            client.publish(reply, data, headers=headers)

    return call


def instrumented(
    client: Client, hook: Instrumentation, operation: str, send: _Send
) -> Callable[..., object]:
    """Returns a function that calls `send`, which does `operation`, and `hook` before and after it."""

    @wraps(send)
    def call(
        subject: str | Msg,
        data: Data = b"",
        *,
        headers: HeadersLike | None = None,
        **options: object,
    ) -> object:
        if isinstance(subject, Msg):
            reply = options.pop("reply", None)
            subject, data, reply, headers = message_parts(
                subject, data, reply if isinstance(reply, str) else None, headers
            )
            if operation in (
                "publish",
                "publish_confirmed",
            ):  # a request has a reply subject of its own
                options["reply"] = reply
        if isinstance(subject, str) and _PROTOCOL.search(subject):
            return send(subject, data, headers=headers, **options)
        token, headers = hook.begin(client, operation, subject, data, headers)
        try:
            result = send(subject, data, headers=headers, **options)
        except BaseException as error:
            hook.end(token, error)
            raise
        if isinstance(result, Future):
            result.add_done_callback(lambda done: hook.end(token, _failure(done)))
        elif isinstance(result, Replies):
            result.when_ended(lambda error: hook.end(token, error))
        else:
            hook.end(token, None)
        return result

    return call


def _observed_ask(
    client: Client, hook: Instrumentation, ask: Callable[..., object]
) -> Callable[..., object]:
    """Does the same as `instrumented` for `ask`, which sends a request of a window."""

    def send(subject: str, data: Data, *, headers: HeadersLike | None, **options: object) -> object:
        return ask(subject, data, headers, options["timeout"])

    call = instrumented(client, hook, "window", send)
    return lambda subject, data, headers, timeout: call(
        subject, data, headers=headers, timeout=timeout
    )


def _observed(
    client: Client,
    hook: Instrumentation,
    handler: Callable[[_M], object],
    subject: str,
    queue: str,
) -> Callable[[_M], object]:
    def handle(msg: _M) -> object:
        with hook.handling(client, msg, subject, queue):
            return handler(msg)

    return handle


def _failure(done: Future[object]) -> BaseException | None:
    return CancelledError() if done.cancelled() else done.exception()
