"""Instrumentation: an object of the program, which the client calls for each message it sends or handles.

It serves tracing and metrics: `natsync.otel` has one for OpenTelemetry, samples/prometheus_metrics.py one
for Prometheus. A client without instrumentation is not slowed down, since only the calls of a client with
instrumentation are wrapped.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Protocol

from ._checks import check_call
from .headers import HeadersLike, to_text
from .message import Data, Handler, Msg, message_parts, wire_reply
from .subscription import Replies

if TYPE_CHECKING:
    from .client import Client

__all__ = ["Instrumentation", "instrument"]


class Instrumentation:
    """The base class of instrumentations; each method does nothing until it is overridden.

    The client calls the methods on the threads that make its calls or run its handlers, so any number of
    threads may call them at the same time. Exceptions that they raise reach the program.
    """

    def begin(
        self, client: Client, operation: str, subject: str, data: Data, headers: HeadersLike | None
    ) -> tuple[object, HeadersLike | None]:
        """Called before a message is sent. Returns a token for `end`, and the headers to send.

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
        `subject` and `queue` are those of the subscription."""
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
        check_call(handler=handler)  # not possible once it is wrapped
        if handler is not None:
            handler = _observed(client, hook, handler, subject, queue)
        call: Callable[..., object] = subscribe
        return call(subject, handler=handler, queue=queue, **options)

    calls["subscribe"] = subscribe_observed
    client.rebind()  # so that `Msg.respond` calls the wrapped method
    calls["_observe"] = lambda ask: _observed_ask(client, hook, ask)


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
    """Does the same as `instrumented` for `ask`, which sends a request of a window."""

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
