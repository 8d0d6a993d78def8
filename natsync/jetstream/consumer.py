"""`Consumer`: the messages of a stream that a pull consumer selects, fetched, iterated over, or
handed to a function.

Pull consumers: https://docs.nats.io/nats-concepts/jetstream/consumers, ADR-37.
"""

from __future__ import annotations

from time import monotonic

from .._checks import check_call, check_count, check_seconds
from ..errors import (
    NextMsgTimeoutError,
    NoRespondersError,
    OptionError,
    RequestTimeoutError,
)
from .api import API, TIMEOUT, Timeout
from .configs import ConsumerConfig
from .consume_errors import ConsumerDeletedError, NotPullConsumerError
from .consumers import consumer_info
from .consuming import ConsumeContext, JetStreamHandler, check_handler
from .errors import (
    APIError,
    ConsumerNotFoundError,
    StreamNotFoundError,
)
from .fetch import Fetch, FetchPlan, MessageBatch
from .infos import ConsumerInfo
from .message import JetStreamMsg
from .messages import Messages, OnError
from .pull import PullPlan
from .pull_inbox import Pin, PullInbox, PullSource

__all__ = ["Consumer", "pull_source"]

_FOREVER = float("inf")
_MANY = 1_000_000  # messages at most of a fetch that is limited by bytes (ADR-37)


def pull_source(api: API, info: ConsumerInfo) -> PullSource:
    """The consumer as its readers need it."""
    stream, name = info.stream_name, info.name

    def check(timeout: float) -> None:
        try:
            consumer_info(api, stream, name, timeout)
        except (ConsumerNotFoundError, StreamNotFoundError) as error:
            raise ConsumerDeletedError(stream, name) from error
        except (APIError, RequestTimeoutError, NoRespondersError, ConnectionError):
            pass  # nobody can tell at the moment

    return PullSource(
        api.core,
        stream,
        name,
        api.subject(f"CONSUMER.MSG.NEXT.{stream}.{name}"),
        info.config.ack_policy != "none",
        check,
        Pin(),
    )


class Consumer:
    """A pull consumer. Any number of threads may call anything.

    Messages are acknowledged by whoever takes them; one that is not comes again after `ack_wait`.
    `info`, `fetch` and the like wait as long as the context does unless they are given a `timeout`
    in seconds; None is for ever. A consumer with a priority group is pulled from under its first
    group unless `group` says which.
    """

    def __init__(self, api: API, info: ConsumerInfo) -> None:
        self._api = api
        self._info = info
        self._idle: list[PullInbox] = []  # for the next fetch; single operations, which are atomic
        self._source = pull_source(api, info)

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
        """Its configuration, as last heard of."""
        return self._info.config

    @property
    def cached_info(self) -> ConsumerInfo:
        """What the server last said of it; asks nobody."""
        return self._info

    def info(self, *, timeout: Timeout = TIMEOUT) -> ConsumerInfo:
        """What the server says of it now. Raises ConsumerNotFoundError."""
        self._info = consumer_info(self._api, self.stream_name, self.name, timeout)
        return self._info

    def fetch(
        self,
        batch: int = 1,
        *,
        timeout: Timeout = TIMEOUT,
        heartbeat: float | None = None,
        group: str | None = None,
        min_pending: int = 0,
        min_ack_pending: int = 0,
        priority: int = 0,
    ) -> MessageBatch:
        """Up to `batch` messages: returns when it has them, or with those that came in `timeout`
        seconds; maybe none.

        With a timeout of None it waits until there is one at least. The server sends a sign of life
        every `heartbeat` seconds (5 for a timeout of 10 and more, else none; 0 for none). After a
        lost connection or a change of leader it asks again for what is missing. What ends it early
        is raised where no message has come (ConsumerDeletedError, PullRefusedError,
        NoHeartbeatError, ConnectionReconnectingError), and is in `error` of the result where some
        have.
        """
        check_count(batch=batch)
        if batch < 1:
            raise OptionError("batch", "must be at least 1")
        plan = FetchPlan(
            batch,
            heartbeat=_beat(heartbeat),
            group=self._group(group),
            min_pending=min_pending,
            min_ack_pending=min_ack_pending,
            priority=priority,
        )
        return self._fetch(plan, timeout)

    def fetch_bytes(
        self,
        max_bytes: int,
        *,
        timeout: Timeout = TIMEOUT,
        heartbeat: float | None = None,
        group: str | None = None,
    ) -> MessageBatch:
        """As `fetch`, as many messages as make up `max_bytes` bytes at most, with their subjects,
        reply subjects and headers. Raises PullRefusedError where the next message alone is
        larger."""
        check_count(max_bytes=max_bytes)
        if max_bytes < 1:
            raise OptionError("max_bytes", "must be at least 1")
        group = self._group(group)
        return self._fetch(FetchPlan(_MANY, max_bytes, False, _beat(heartbeat), group), timeout)

    def fetch_no_wait(
        self, batch: int, *, timeout: Timeout = TIMEOUT, group: str | None = None
    ) -> MessageBatch:
        """Up to `batch` messages that the consumer has at this moment, maybe none. `timeout` is for
        the server's answer alone."""
        check_count(batch=batch)
        if batch < 1:
            raise OptionError("batch", "must be at least 1")
        return self._fetch(FetchPlan(batch, no_wait=True, group=self._group(group)), timeout)

    def next(self, timeout: Timeout = TIMEOUT) -> JetStreamMsg:
        """The next message. Raises NextMsgTimeoutError where none comes in `timeout` seconds, and
        what `fetch` does."""
        found = self._fetch(FetchPlan(1, group=self._group(None)), timeout)
        if not found:
            raise NextMsgTimeoutError(self._source.next_subject, self._api.seconds(timeout))
        return found[0]

    def messages(
        self,
        *,
        max_msgs: int = 500,
        max_bytes: int = 0,
        expires: float = 30.0,
        heartbeat: float | None = None,
        threshold: float = 0.5,
        group: str | None = None,
        min_pending: int = 0,
        min_ack_pending: int = 0,
        priority: int = 0,
        on_error: OnError | None = None,
    ) -> Messages:
        """An iterator over the messages as they come, without end, that asks for more before it
        runs dry.

        At most `max_msgs` messages, or with `max_bytes` that many bytes, are on their way or wait
        to be taken; more are asked for when `threshold` of that is left. Requests expire after
        `expires` seconds, and the server sends a sign of life every `heartbeat` seconds (half of
        `expires` unless given, 30 at most). `on_error` is called with each trouble that it gets
        over, such as NoHeartbeatError and ConsumerLeadershipChangedError; they are logged without
        it.
        """
        plan = self._plan(
            max_msgs,
            max_bytes,
            expires,
            heartbeat,
            threshold,
            group,
            min_pending,
            min_ack_pending,
            priority,
        )
        check_call(on_error=on_error)
        self._need_pull()
        return Messages(self._source, plan, on_error)

    def consume(
        self,
        handler: JetStreamHandler,
        *,
        workers: int = 1,
        max_msgs: int = 500,
        max_bytes: int = 0,
        expires: float = 30.0,
        heartbeat: float | None = None,
        threshold: float = 0.5,
        group: str | None = None,
        min_pending: int = 0,
        min_ack_pending: int = 0,
        priority: int = 0,
        on_error: OnError | None = None,
    ) -> ConsumeContext:
        """Calls `handler` with each message, on `workers` threads (one of them keeps the order),
        until `stop` or `drain` of the result. Returns at once. The handler acknowledges; what it
        raises goes to `on_error`, and the message comes again after `ack_wait`. For the rest see
        `messages`.
        """
        check_handler(handler, workers)
        check_call(on_error=on_error)
        plan = self._plan(
            max_msgs,
            max_bytes,
            expires,
            heartbeat,
            threshold,
            group,
            min_pending,
            min_ack_pending,
            priority,
        )
        self._need_pull()
        name = f"{self.stream_name}.{self.name}"
        messages = Messages(self._source, plan, on_error)
        return ConsumeContext(messages, handler, workers, on_error, name)

    def _plan(
        self,
        max_msgs: int,
        max_bytes: int,
        expires: float,
        heartbeat: float | None,
        threshold: float,
        group: str | None,
        min_pending: int,
        min_ack_pending: int,
        priority: int,
    ) -> PullPlan:
        check_count(max_msgs=max_msgs, max_bytes=max_bytes, priority=priority)
        check_count(min_pending=min_pending, min_ack_pending=min_ack_pending)
        check_seconds(expires=expires, heartbeat=heartbeat or 0, threshold=threshold)
        name = self._group(group)
        return PullPlan(
            max_msgs,
            max_bytes,
            expires,
            heartbeat,
            threshold,
            name,
            min_pending,
            min_ack_pending,
            priority,
        )

    def _group(self, group: str | None) -> str:
        if group is not None:
            return group
        return next(iter(self._info.config.priority_groups), "")

    def _need_pull(self) -> None:
        if self._info.config.deliver_subject:
            raise NotPullConsumerError(self.stream_name, self.name)

    def _fetch(self, plan: FetchPlan, timeout: Timeout) -> MessageBatch:
        self._need_pull()
        seconds = self._api.seconds(timeout)
        until = _FOREVER if timeout is None else monotonic() + seconds
        inbox = self._idle_inbox() or PullInbox(self._source)
        fetch = Fetch(self._source, inbox, plan, until)
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

    def _idle_inbox(self) -> PullInbox | None:
        while self._idle:
            try:
                inbox = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if not inbox.closed:
                return inbox
        return None

    def __del__(self) -> None:
        for inbox in getattr(self, "_idle", ()):
            inbox.abandon()

    def __repr__(self) -> str:
        return f"Consumer({self.stream_name!r}, {self.name!r})"


def _beat(heartbeat: float | None) -> float | None:
    if heartbeat is None:
        return None
    check_seconds(heartbeat=heartbeat)
    return max(0.0, heartbeat)
