"""Instrumentation: an object of the program that is called with the messages that a client sends and handles.

For tracing and metrics. `natsync.otel` is one for OpenTelemetry; samples/prometheus_metrics.py is another
one. A client without instrumentation is not slowed down: the calls are wrapped for one client only if it
has some.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Protocol

from .headers import HeadersLike, to_text
from .message import Data, Handler, Msg, message_parts, wire_reply
from .subscription import Replies

if TYPE_CHECKING:
    from .client import Client

__all__ = ["Instrumentation", "instrument"]


class Instrumentation:
    """The base class of instrumentations; each method does nothing until it is overridden.

    The client calls the methods on the threads that make its calls or run its handlers, so any number of
    threads may call them at a time. What they raise reaches the program.
    """

    def begin(
        self, client: Client, operation: str, subject: str, data: Data, headers: HeadersLike | None
    ) -> tuple[object, HeadersLike | None]:
        """Called before a message is sent. Returns a token for `end`, and the headers to send.

        `operation` is `publish`, `publish_confirmed`, `request`, `request_async`, `request_many` or
        `window`. The arguments are not checked yet.
        """
        return None, headers

    def end(self, token: object, error: BaseException | None) -> None:
        """Called at the end of the operation: when the message is buffered or confirmed, the reply has
        arrived, or with the `error` that it ended with."""

    def handling(
        self, client: Client, msg: Msg, subject: str, queue: str
    ) -> AbstractContextManager[object]:
        """Returns a context manager that a handler runs in; `subject` and `queue` are those of the
        subscription. Also sees what the handler raises."""
        return nullcontext()


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
    calls["respond"] = lambda msg, data=b"", *, headers=None: client.publish(
        to_text(wire_reply(msg)), data, headers=headers
    )
    subscribe = client.subscribe

    @wraps(subscribe)
    def subscribe_observed(
        subject: str, *, handler: Handler | None = None, queue: str = "", **options: object
    ) -> object:
        if callable(handler):
            handler = _observed(client, hook, handler, subject, queue)
        call: Callable[..., object] = subscribe
        return call(subject, handler=handler, queue=queue, **options)

    calls["subscribe"] = subscribe_observed
    client.rebind()  # so that `Msg.respond` calls what was wrapped
    calls["_observe"] = lambda ask: _observed_ask(client, hook, ask)


def instrumented(
    client: Client, hook: Instrumentation, operation: str, send: _Send
) -> Callable[..., object]:
    """Returns `send`, with calls of `hook`."""

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
            subject, data, options["reply"], headers = message_parts(
                subject, data, reply if isinstance(reply, str) else None, headers
            )
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
    """Returns `ask`, which sends a request of a window, with calls of `hook`."""

    def send(subject: str, data: Data, *, headers: HeadersLike | None, **options: object) -> object:
        return ask(subject, data, headers, options["timeout"])

    call = instrumented(client, hook, "window", send)
    return lambda subject, data, headers, timeout: call(
        subject, data, headers=headers, timeout=timeout
    )


def _observed(
    client: Client, hook: Instrumentation, handler: Handler, subject: str, queue: str
) -> Handler:
    def handle(msg: Msg) -> object:
        with hook.handling(client, msg, subject, queue):
            return handler(msg)

    return handle


def _failure(done: Future[object]) -> BaseException | None:
    return CancelledError() if done.cancelled() else done.exception()
