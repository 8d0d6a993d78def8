"""`OrderedConsumer`: reads a stream in order, without acknowledgements, and delivers each message
exactly once.

Its consumers on the server live in memory, have one replica, and are removed when nobody reads
(ADR-17).
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING, TypedDict

from .._checks import check_call, check_count, check_options, check_seconds
from ..core import DrainStage
from ..errors import (
    ConnectionReconnectingError,
    Error,
    NextMsgTimeoutError,
    OptionError,
    PermissionsViolationError,
    RequestTimeoutError,
)
from ..options import DEFAULT
from .api import API, Timeout
from .configs import ConsumerConfig, DeliverPolicy
from .consumer import consumer_ref
from .consumer_api import consumer_info, create_consumer
from .consuming import ConsumeContext, JetStreamHandler, Source, check_handler, guarded
from .errors import JetStreamNotEnabledError
from .fetch import MessageBatch
from .infos import ConsumerInfo, StreamInfo
from .message import JetStreamMsg
from .names import check_consumer_name, check_stream_name
from .ordered_reader import CreatedConsumer, OrderedMessages
from .pull_requests import MANY, PullPlan
from .reader import OnError
from .reader_errors import PullRefusedError

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["OrderedConsumer", "OrderedOptions"]

_INACTIVE = 300.0  # seconds after which the server removes a consumer that nobody reads (nats.go)


_ALLOWED: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(("durable_name", "name", "deliver_subject", "deliver_group"), ("",)),
    "ack_policy": ("explicit", "none"),
    "max_deliver": (-1, 0, 1),
    "num_replicas": (0, 1),
    "flow_control": (False,),
}
"""The allowed values: those of ADR-17, and the defaults of ConsumerConfig."""


class OrderedOptions(TypedDict, total=False):
    """The PullOptions that apply to an ordered consumer."""

    max_msgs: int
    max_bytes: int
    threshold: float
    expires: float
    heartbeat: float


class OrderedConsumer:
    """The messages of `stream` in order, from the place where `config` says.

    Each new reader begins after the last message that was taken from the previous one. For one
    reader at a time, on any thread.
    """

    def __init__(
        self,
        api: API,
        stream: str,
        config: ConsumerConfig,
        stage: DrainStage | None = None,
        *,
        name_prefix: str = "",
        max_reset_attempts: int | None = None,
    ) -> None:
        for field, allowed in _ALLOWED.items():
            if getattr(config, field) not in allowed:
                raise OptionError(field, "cannot be chosen for an ordered consumer")
        filtered = config.filter_subject or config.filter_subjects
        if config.deliver_policy == "last_per_subject" and not filtered:
            config = replace(config, filter_subject=">")  # the server requires a filter
        self._api = api
        self.stream_name = check_stream_name(stream)
        """The name of the stream."""
        config = replace(
            config,
            ack_policy="none",
            max_deliver=1,
            mem_storage=True,
            num_replicas=1,
            inactive_threshold=config.inactive_threshold or _INACTIVE,
        )
        if name_prefix:
            check_consumer_name(name_prefix)
        if max_reset_attempts is not None:
            check_count(max_reset_attempts=max_reset_attempts)
            if max_reset_attempts < 1:
                raise OptionError("max_reset_attempts", "must be at least 1")
        self._maker = _Maker(api, self.stream_name, config, name_prefix)
        self._max_reset_attempts = max_reset_attempts
        # In which a drain of the connection ends the readers, if a package says.
        self._stage = stage
        self._handled = Source(self.stream_name, config.filter_subject or self.stream_name)
        self._reader: OrderedMessages | None = None
        # The message that did not fit into the last `fetch_bytes`.
        self._left_over: JetStreamMsg | None = None

    def messages(
        self, *, on_error: OnError | None = None, **options: Unpack[OrderedOptions]
    ) -> OrderedMessages:
        """Returns an endless iterator over the messages; stops the previous one, if there is one.

        `options` are some of PullOptions; `heartbeat` is 5 seconds unless given, but at most half
        of `expires`. `on_error` is called with the reason for each new consumer; without it,
        the connection's `on_error` is called. Waits up to the context's timeout for the first
        consumer. Raises StreamNotFoundError, RequestTimeoutError, and other errors of a consumer
        that cannot be created.
        """
        check_call(on_error=on_error)
        check_options("messages", options, OrderedOptions.__optional_keys__)
        both = bool(options.get("max_bytes")) and "max_msgs" in options
        expires = options.get("expires", 30.0)
        check_seconds(expires=expires)
        options.setdefault("heartbeat", min(5.0, expires / 2))
        plan = PullPlan(**options, limits_both=both)
        last = None
        if self._reader:
            self._reader.stop()
            last = self._reader.last_seq
        if self._left_over:
            last, self._left_over = self._left_over.metadata.stream_seq - 1, None
        maker = self._maker
        self._reader = OrderedMessages(
            self.stream_name,
            maker.make,
            maker.delete,
            plan,
            on_error or self._api.core.report_error,
            last,
            self._api.timeout,
            self._api.core.drain_stage() if self._stage is None else self._stage,
            self._max_reset_attempts,
        )
        return self._reader

    def consume(
        self,
        handler: JetStreamHandler,
        *,
        on_error: OnError | None = None,
        **options: Unpack[OrderedOptions],
    ) -> ConsumeContext:
        """Calls `handler` with each message in order, on one thread, until `stop` or `drain` of the
        result. Returns when the first consumer exists. If the handler raises, `on_error` gets a
        HandlerError; the message is not delivered again. For the rest see `messages`.
        """
        check_handler(handler)
        check_options("consume", options, OrderedOptions.__optional_keys__)
        on_error = guarded(on_error)
        messages = self.messages(on_error=on_error, **options)
        core = self._api.core
        return ConsumeContext(core, messages, handler, self._handled, on_error=on_error)

    def fetch(self, batch: int = 1, *, timeout: Timeout = DEFAULT) -> MessageBatch:
        """Returns up to `batch` messages: at once when it has them, else those that arrive within
        `timeout` seconds, which may be none. A timeout of None waits until there is at least one
        message. An error that ends it early is raised if there are none; otherwise it is the
        `error` of the result."""
        check_count(batch=batch)
        if batch < 1:
            raise OptionError("batch", "must be at least 1")
        return self._fetch(batch, 0, timeout)

    def fetch_bytes(self, max_bytes: int, *, timeout: Timeout = DEFAULT) -> MessageBatch:
        """Fetches as `fetch` does, but as many messages as fit into `max_bytes` bytes with their
        subjects, reply subjects and headers: their `wire_size`. Raises PullRefusedError if the next
        message alone is larger; it stays the next one."""
        check_count(max_bytes=max_bytes)
        if max_bytes < 1:
            raise OptionError("max_bytes", "must be at least 1")
        return self._fetch(MANY, max_bytes, timeout)

    def _fetch(self, batch: int, max_bytes: int, timeout: Timeout) -> MessageBatch:
        until = monotonic() + self._api.seconds(timeout)
        found, size = MessageBatch(), 0
        try:
            while len(found) < batch:
                if found and timeout is None:
                    until = monotonic()
                msg = self._take(until)
                size += msg.wire_size
                if max_bytes and size > max_bytes:
                    self._left_over = msg
                    break
                found.append(msg)
        except NextMsgTimeoutError:
            pass
        except Error as error:
            if not found:
                raise
            found.error = error  # the messages were taken, and no reader gets them again
        if not found and self._left_over:
            text = f"the next message has {size} bytes, more than max_bytes"
            raise PullRefusedError(self.stream_name, "", 409, text)
        return found

    def _take(self, until: float) -> JetStreamMsg:
        """Returns the next message; waits for it until the time `until`."""
        reader = self._reader or self.messages()
        msg, self._left_over = self._left_over, None
        return msg or reader.next(max(0.0, until - monotonic()))

    def fetch_no_wait(self, batch: int, *, timeout: Timeout = DEFAULT) -> MessageBatch:
        """Returns up to `batch` messages that the stream has at this moment, which may be none; asks for
        the info of the consumer. `timeout` limits the wait for them."""
        check_count(batch=batch)
        if batch < 1:
            raise OptionError("batch", "must be at least 1")
        reader = self._reader or self.messages()
        info = self.info(timeout=timeout)
        if info.name != reader.consumer:  # it has just been replaced
            return self.fetch(batch, timeout=0)
        left = info.num_pending + info.delivered.consumer_seq - reader.consumer_seq
        left += self._left_over is not None
        return self.fetch(min(batch, left), timeout=timeout) if left > 0 else MessageBatch()

    def info(self, *, timeout: Timeout = DEFAULT) -> ConsumerInfo:
        """Asks the server for the `ConsumerInfo` of the consumer that is read now; creates one if none is
        read yet. Raises ConsumerNotFoundError while it is being replaced."""
        reader = self._reader or self.messages()
        return consumer_info(self._api, self.stream_name, reader.consumer, timeout)

    def next(self, timeout: Timeout = DEFAULT) -> JetStreamMsg:
        """Returns the next message. Raises NextMsgTimeoutError if none arrives within `timeout`
        seconds, and the errors of `messages`, which the first call makes."""
        seconds = self._api.seconds(timeout)
        try:
            return self._take(monotonic() + seconds)
        except NextMsgTimeoutError:
            raise NextMsgTimeoutError(self.stream_name, seconds) from None

    def stop(self) -> None:
        """Ends the reader, and removes its consumer from the server."""
        if self._reader:
            self._reader.stop()

    def __enter__(self) -> OrderedConsumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"OrderedConsumer(stream {self.stream_name!r})"


class _Maker:
    """Creates and deletes the consumers of one OrderedConsumer. A class of its own so that a reader
    does not refer to the OrderedConsumer, which refers to the reader: that cycle would keep both
    alive."""

    def __init__(self, api: API, stream: str, config: ConsumerConfig, name_prefix: str) -> None:
        self._api = api
        self._stream = stream
        self._name_prefix = name_prefix + "_" if name_prefix else ""
        self._config = config
        self._process = 0
        self._prefix = ""
        self._made = 0
        self._since: datetime | None = None  # the stream was created no later

    def make(self, start_seq: int | None, timeout: float) -> CreatedConsumer:
        until = monotonic() + timeout
        config, replaced = self._config, False
        if start_seq is not None:
            config, replaced = self._going_on(start_seq, timeout)
        if self._process != os.getpid():  # a forked child must not take the names of its parent
            self._process = os.getpid()
            self._prefix = self._name_prefix + self._api.core.new_inbox().rpartition(".")[2]
        self._made += 1
        config = replace(config, name=f"{self._prefix}_{self._made}")
        left = max(0.1, until - monotonic()) if start_seq is not None else timeout
        try:
            info = create_consumer(self._api, self._stream, config, timeout=left)
        except (RequestTimeoutError, ConnectionReconnectingError):  # it may exist nevertheless
            with suppress(Error):
                self.delete(config.name)
            raise
        self._since = self._since or info.created
        start = info.delivered.stream_seq
        # With `last_per_subject`, the first message does not tell where the others are; but if none
        # is pending, all later messages are wanted.
        scattered = config.deliver_policy == "last_per_subject" and info.num_pending > 0
        before = None if scattered else start
        return CreatedConsumer(consumer_ref(self._api, info), before, info.num_pending, replaced)

    def _going_on(self, start_seq: int, timeout: float) -> tuple[ConsumerConfig, bool]:
        """Returns the configuration of the next consumer, and whether it begins elsewhere than at
        `start_seq`. A server (2.15.1) sends a consumer nothing until the stream reaches its start
        sequence: a reader of a stream that was created again would miss all messages before
        that."""
        call = f"STREAM.INFO.{self._stream}"
        first = start_seq
        try:
            info = StreamInfo.from_json(self._api.request(call, timeout=timeout), call)
        except (JetStreamNotEnabledError, PermissionsViolationError):
            pass  # a client that may only read cannot ask
        else:
            if self._since and info.created and info.created > self._since:
                last_of_each = self._config.deliver_policy == "last_per_subject"
                policy: DeliverPolicy = "last_per_subject" if last_of_each else "all"
                new = replace(
                    self._config, deliver_policy=policy, opt_start_seq=0, opt_start_time=None
                )
                self._since = info.created
                return new, True
            first = min(start_seq, info.state.last_seq + 1)
        config = replace(
            self._config,
            deliver_policy="by_start_sequence",
            opt_start_seq=max(1, first),
            opt_start_time=None,
        )
        return config, first < start_seq

    def delete(self, name: str) -> None:
        # No reply: if this fails, the server removes the consumer after `inactive_threshold`.
        self._api.core.publish(self._api.subject(f"CONSUMER.DELETE.{self._stream}.{name}"))
