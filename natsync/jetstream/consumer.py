"""`Consumer`: the messages of a stream that a pull consumer selects, fetched, iterated over, or
handed to a function.

Pull consumers: https://docs.nats.io/nats-concepts/jetstream/consumers, ADR-37.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from .._checks import check_call, check_count, check_options, check_text
from ..errors import (
    NextMsgTimeoutError,
    NoRespondersError,
    OptionError,
    PermissionsViolationError,
    RequestTimeoutError,
)
from ..options import DEFAULT
from .ack_wait import ack_times, check_keep_alive
from .api import API, Timeout
from .configs import ConsumerConfig
from .consumer_api import consumer_info
from .consuming import ConsumeContext, JetStreamHandler, check_handler, guarded, source_of
from .errors import (
    APIError,
    ConsumerNotFoundError,
    StreamNotFoundError,
)
from .fetch import Fetch, FetchPlan, MessageBatch
from .inbox import ConsumerRef, Inbox
from .infos import ConsumerInfo
from .message import JetStreamMsg
from .pull_requests import MANY, GroupOptions, Pin, PullOptions, PullPlan
from .reader import Messages, OnError
from .reader_errors import ConsumerDeletedError, NotPullConsumerError

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Consumer", "consumer_ref"]

_PULL = PullOptions.__optional_keys__
_Options = TypeVar("_Options", GroupOptions, PullOptions)

_FOREVER = float("inf")


def consumer_ref(api: API, info: ConsumerInfo) -> ConsumerRef:
    """Returns what the readers of a consumer need of it."""
    stream, name = info.stream_name, info.name

    def check(timeout: float) -> None:
        try:
            consumer_info(api, stream, name, timeout)
        except (ConsumerNotFoundError, StreamNotFoundError) as error:
            raise ConsumerDeletedError(stream, name) from error
        except PermissionsViolationError:
            pass  # a client that may only read cannot ask
        except (APIError, RequestTimeoutError, NoRespondersError, ConnectionError):
            pass  # the server does not say at the moment

    return ConsumerRef(
        api.core,
        stream,
        name,
        api.subject(f"CONSUMER.MSG.NEXT.{stream}.{name}"),
        info.config.ack_policy != "none",
        check,
        Pin(),
        ack_times(info.config),
        info.config.deliver_subject,
        info.config.deliver_group,
    )


class Consumer:
    """A pull consumer. Any number of threads may use it.

    Messages are acknowledged by whoever takes them; an unacknowledged message is delivered again
    after `ack_wait`. `info`, `fetch` and similar calls have the timeout of the context unless they
    are given a `timeout` in seconds; None waits for ever. A consumer with priority groups is pulled
    from under its first group unless `group` names another.
    """

    def __init__(self, api: API, info: ConsumerInfo) -> None:
        self._api = api
        self._info = info
        self._idle: list[Inbox] = []  # for the next fetch; single operations, which are atomic
        self._source = consumer_ref(api, info)

    @property
    def name(self) -> str:
        """Its name."""
        return self._info.name

    @property
    def stream_name(self) -> str:
        """The name of its stream."""
        return self._info.stream_name

    @property
    def config(self) -> ConsumerConfig:
        """Its configuration in `cached_info`."""
        return self._info.config

    @property
    def cached_info(self) -> ConsumerInfo:
        """The `ConsumerInfo` that the server sent last."""
        return self._info

    def info(self, *, timeout: Timeout = DEFAULT) -> ConsumerInfo:
        """Asks the server for its `ConsumerInfo`. Raises ConsumerNotFoundError."""
        self._info = consumer_info(self._api, self.stream_name, self.name, timeout)
        self._source = self._source._replace(ack_times=ack_times(self._info.config))
        return self._info

    def fetch(
        self,
        batch: int = 1,
        *,
        timeout: Timeout = DEFAULT,
        heartbeat: float | None = None,
        **options: Unpack[GroupOptions],
    ) -> MessageBatch:
        """Returns up to `batch` messages: at once when it has them, else those that arrived within
        `timeout` seconds, which may be none. A server that does not say that the time is over is
        waited for about a second longer; so it is in `fetch_bytes`, `fetch_no_wait` and `next`.

        A timeout of None waits until there is at least one message. The server sends a sign of life
        every `heartbeat` seconds: every 5 seconds unless given if the timeout is 10 or more, else
        never; 0 is never. After a lost connection or a change of leader, it requests again the
        messages that are missing.

        An error that ends it early is raised if no message has arrived: ConsumerDeletedError,
        PullRefusedError, NoHeartbeatError and other ConsumingErrors, ConnectionReconnectingError,
        PermissionsViolationError. Otherwise it is the `error` of the result.
        """
        check_count(batch=batch)
        if batch < 1:
            raise OptionError("batch", "must be at least 1")
        grouped = self._grouped("fetch", options)
        return self._fetch(FetchPlan(batch, heartbeat=heartbeat, **grouped), timeout)

    def fetch_bytes(
        self,
        max_bytes: int,
        *,
        timeout: Timeout = DEFAULT,
        heartbeat: float | None = None,
        **options: Unpack[GroupOptions],
    ) -> MessageBatch:
        """Fetches as `fetch` does, but as many messages as fit into `max_bytes` bytes with their
        subjects, reply subjects and headers, and not more than the consumer's `max_batch`. Raises
        PullRefusedError if the next message alone is larger."""
        check_count(max_bytes=max_bytes)
        if max_bytes < 1:
            raise OptionError("max_bytes", "must be at least 1")
        grouped = self._grouped("fetch_bytes", options)
        plan = FetchPlan(self._most, max_bytes, heartbeat=heartbeat, **grouped)
        return self._fetch(plan, timeout)

    def fetch_no_wait(
        self, batch: int, *, timeout: Timeout = DEFAULT, **options: Unpack[GroupOptions]
    ) -> MessageBatch:
        """Returns up to `batch` messages that the consumer has at this moment, which may be none.
        `timeout` limits the wait for the server's answer."""
        check_count(batch=batch)
        if batch < 1:
            raise OptionError("batch", "must be at least 1")
        grouped = self._grouped("fetch_no_wait", options)
        return self._fetch(FetchPlan(batch, no_wait=True, **grouped), timeout)

    def next(self, timeout: Timeout = DEFAULT) -> JetStreamMsg:
        """Returns the next message. Raises NextMsgTimeoutError if none arrives within `timeout`
        seconds, and the errors of `fetch`."""
        found = self._fetch(FetchPlan(1, **self._grouped("next", GroupOptions())), timeout)
        if not found:
            raise NextMsgTimeoutError(self._source.next_subject, self._api.seconds(timeout))
        return found[0]

    def messages(
        self, *, on_error: OnError | None = None, **options: Unpack[PullOptions]
    ) -> Messages:
        """Returns an endless iterator over the messages, which requests more before it runs dry;
        for `options` see PullOptions.

        `on_error` is called with each error that the iterator recovers from, such as
        NoHeartbeatError and ConsumerLeadershipChangedError, by the thread that takes messages;
        without it, the connection's `on_error` is called.
        """
        return self._messages("messages", on_error, options)

    def consume(
        self,
        handler: JetStreamHandler,
        *,
        workers: int = 1,
        on_error: OnError | None = None,
        **options: Unpack[PullOptions],
    ) -> ConsumeContext:
        """Calls `handler` with each message, until `stop` or `drain` of the result; returns at
        once.

        `workers` threads call it; a single one keeps the order of the messages. The handler
        acknowledges the message. If it raises, `on_error` gets a HandlerError, and the message is
        delivered again after `ack_wait`. For the other arguments see `messages`.
        """
        check_handler(handler, workers)
        on_error = guarded(on_error)
        messages = self._messages("consume", on_error, options, shared=workers > 1)
        source = source_of(self._info)
        return ConsumeContext(self._api.core, messages, handler, source, workers, on_error)

    def _messages(
        self, call: str, on_error: OnError | None, options: PullOptions, shared: bool = True
    ) -> Messages:
        check_call(on_error=on_error)
        self._need_pull()
        both = bool(options.get("max_bytes")) and "max_msgs" in options
        check_keep_alive(options.get("keep_alive"), self._source.ack_times)
        grouped = self._grouped(call, self._limited(options), _PULL)
        # As nats.go, at least a second, unless the consumer refuses requests of a second.
        least = min(1.0, self._info.config.max_expires or 1.0)
        plan = PullPlan(**grouped, most=self._most, limits_both=both, least=least)
        return Messages(self._source, plan, on_error or self._api.core.report_error, shared)

    def _grouped(
        self,
        call: str,
        options: _Options,
        known: frozenset[str] = GroupOptions.__optional_keys__,
    ) -> _Options:
        """`options` of `call`, which must be `known`, with the consumer's own group unless they name one."""
        check_options(call, options, known)
        groups = self._info.config.priority_groups
        group = options.setdefault("group", groups[0] if groups else "")
        check_text(group=group)
        # A server refuses a wrong group, but never answers if there is none. Another client may have set it.
        if group and not (groups or self.info().config.priority_groups):
            raise OptionError("group", "the consumer has no groups")
        return options

    def _limited(self, options: PullOptions) -> PullOptions:
        """`options`, with defaults within the limits of the consumer, which refuses other
        requests."""
        config = self._info.config
        if config.max_batch > 0:
            options.setdefault("max_msgs", min(500, config.max_batch))
        if config.max_expires > 0:
            options.setdefault("expires", min(30.0, config.max_expires))
        return options

    @property
    def _most(self) -> int:
        """The most messages of a request that is limited by bytes."""
        allowed = self._info.config.max_batch
        return min(allowed, MANY) if allowed > 0 else MANY

    def _need_pull(self) -> None:
        if self._info.config.deliver_subject:
            raise NotPullConsumerError(self.stream_name, self.name)

    def _fetch(self, plan: FetchPlan, timeout: Timeout) -> MessageBatch:
        self._need_pull()
        seconds = self._api.seconds(timeout)
        until = _FOREVER if timeout is None else monotonic() + seconds
        inbox = self._idle_inbox() or Inbox(self._source)
        fetch = Fetch(self._source, inbox, plan, until, self._info.config.max_expires)
        reusable = False
        try:
            found = fetch.run()
            reusable = fetch.clean
        finally:
            if reusable:
                self._idle.append(inbox)
            else:
                inbox.abandon()
        return found

    def _idle_inbox(self) -> Inbox | None:
        while self._idle:
            try:
                inbox = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if not inbox.closed:
                return inbox
        return None

    def __repr__(self) -> str:
        return f"Consumer({self.stream_name!r}, {self.name!r})"
