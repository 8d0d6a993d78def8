"""`Core`: the calls of a connection that JetStream, key-value, object store, services and NATS Streaming
use.

`Client` has all of them. Code that builds on `Core` never reads a private field of a client, so a wrapper
that passes these calls on (for tracing, or a test double) works just as well.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Protocol, TypeVar

from ._engine.sink import DrainStage
from .errors import Error
from .message import Data, Handler, HeadersLike, Msg
from .protocol import ServerInfo
from .subscription import Replies, Subscription

if TYPE_CHECKING:
    from threading import Thread

    from ._engine.futures import WindowFuture
    from ._engine.handlers import Runner
    from ._engine.reply_stream import ReplyStream
    from ._engine.request_window import RequestWindow
    from ._engine.supervisor import Status

__all__ = ["Core", "DrainStage"]

_M = TypeVar("_M", bound=Msg)
_T = TypeVar("_T")


class Core(Protocol):
    """A connection that any number of threads may use; `Client` documents what each call does and raises."""

    def publish(
        self,
        subject: str,
        data: Data = ...,
        *,
        reply: str | None = ...,
        headers: HeadersLike | None = ...,
    ) -> None: ...

    def respond(self, msg: Msg, data: Data = ..., *, headers: HeadersLike | None = ...) -> None: ...

    def subscribe(
        self,
        subject: str,
        *,
        queue: str = ...,
        handler: Handler | None = ...,
        max_msgs: int | None = ...,
        pending_msgs_limit: int = ...,
        pending_bytes_limit: int = ...,
        workers: int = ...,
        executor: Executor | None = ...,
        on_close: Callable[[Error], None] | None = ...,
        on_outage: Callable[[Error | None], object] | None = ...,
    ) -> Subscription: ...

    def open_inbox(
        self,
        subject: str,
        *,
        queue: str = ...,
        limited: bool = ...,
        on_outage: Callable[[Error | None], object] | None = ...,
        stage: DrainStage = ...,
    ) -> Subscription: ...

    def drain_stage(self) -> DrainStage: ...

    def request(
        self,
        subject: str,
        data: Data = ...,
        *,
        timeout: float | None = ...,
        headers: HeadersLike | None = ...,
    ) -> Msg: ...

    def request_async(
        self,
        subject: str,
        data: Data = ...,
        *,
        timeout: float | None = ...,
        headers: HeadersLike | None = ...,
    ) -> Future[Msg]: ...

    def request_many(
        self,
        subject: str,
        data: Data = ...,
        *,
        timeout: float | None = ...,
        max_msgs: int | None = ...,
        stall: float | None = ...,
        sentinel: Callable[[Msg], bool] | None = ...,
        headers: HeadersLike | None = ...,
    ) -> Replies: ...

    def open_replies(self, subject: str, *, limited: bool = ...) -> ReplyStream: ...

    def open_window(
        self,
        most: int,
        read: Callable[[str, bytes | None], _T],
        rescue: Callable[[WindowFuture[_T], Exception], bool] | None = ...,
    ) -> RequestWindow[_T]: ...

    def start_thread(self, name: str, body: Callable[[], None]) -> Thread: ...

    def runner(
        self,
        subject: str,
        handler: Callable[[_M], object],
        *,
        queue: str = ...,
        on_error: Callable[[Error], object] | None = ...,
    ) -> Runner[_M]: ...

    def report_error(self, error: Error) -> None: ...

    def flush(self, timeout: float | None = ...) -> None: ...

    def new_inbox(self) -> str: ...

    @property
    def status(self) -> Status: ...

    @property
    def server_info(self) -> ServerInfo: ...
