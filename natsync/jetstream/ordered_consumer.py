"""`OrderedConsumer`: reads a stream in order, without acknowledgements; loses nothing, and gives
nothing twice.

The consumers that it makes on the server live in memory, have one copy, and go by themselves when
nobody reads (ADR-17).
"""

from __future__ import annotations

from dataclasses import replace
from time import monotonic

from .._checks import check_call, check_count, check_seconds
from ..errors import NextMsgTimeoutError, OptionError
from .api import API, TIMEOUT, Timeout
from .configs import ConsumerConfig
from .consumer import pull_source
from .consumers import create_consumer
from .consuming import ConsumeContext, JetStreamHandler, check_handler
from .fetch import MessageBatch
from .message import JetStreamMsg
from .messages import OnError
from .names import check_stream_name
from .ordered import Made, OrderedMessages
from .pull import PullPlan

__all__ = ["OrderedConsumer"]

_INACTIVE = 300.0  # seconds after which the server removes a consumer that nobody reads (nats.go)


class OrderedConsumer:
    """The messages of `stream` in order, from the place where `config` says.

    Readers follow each other: one begins after the last message that was taken from the reader
    before it. For one reader at a time, on any thread.
    """

    def __init__(self, api: API, stream: str, config: ConsumerConfig) -> None:
        for field in ("durable_name", "name", "deliver_subject", "deliver_group"):
            if getattr(config, field):
                raise OptionError(field, "cannot be chosen for an ordered consumer")
        filtered = config.filter_subject or config.filter_subjects
        if config.deliver_policy == "last_per_subject" and not filtered:
            config = replace(config, filter_subject=">")  # the server demands one
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
        self._maker = _Maker(api, self.stream_name, config)
        self._reader: OrderedMessages | None = None

    def messages(
        self,
        *,
        max_msgs: int = 500,
        max_bytes: int = 0,
        expires: float = 30.0,
        heartbeat: float | None = None,
        on_error: OnError | None = None,
    ) -> OrderedMessages:
        """An iterator over the messages as they come, without end. It ends the reader before it, if
        there is one.

        The arguments are those of `Consumer.messages`; the sign of life comes every 5 seconds
        unless `heartbeat` says otherwise. `on_error` is called with the reason for each new
        consumer; they are logged without it. Raises StreamNotFoundError, RequestTimeoutError, and
        what else a consumer is refused with.
        """
        check_count(max_msgs=max_msgs, max_bytes=max_bytes)
        check_seconds(expires=expires, heartbeat=heartbeat or 0)
        check_call(on_error=on_error)
        beat = min(5.0, expires / 2) if heartbeat is None else heartbeat
        plan = PullPlan(max_msgs, max_bytes, expires, beat)
        before = self._reader
        if before:
            before.stop()
        self._reader = OrderedMessages(
            self.stream_name,
            self._maker.make,
            self._maker.delete,
            plan,
            on_error,
            before.last_seq if before else None,
        )
        return self._reader

    def consume(
        self,
        handler: JetStreamHandler,
        *,
        max_msgs: int = 500,
        max_bytes: int = 0,
        expires: float = 30.0,
        heartbeat: float | None = None,
        on_error: OnError | None = None,
    ) -> ConsumeContext:
        """Calls `handler` with each message in order, on one thread, until `stop` or `drain` of the
        result. Returns when the first consumer is made. What the handler raises goes to `on_error`;
        the message does not come again.
        """
        check_handler(handler)
        messages = self.messages(
            max_msgs=max_msgs,
            max_bytes=max_bytes,
            expires=expires,
            heartbeat=heartbeat,
            on_error=on_error,
        )
        return ConsumeContext(messages, handler, 1, on_error, self.stream_name)

    def fetch(self, batch: int = 1, *, timeout: Timeout = TIMEOUT) -> MessageBatch:
        """Up to `batch` messages: returns when it has them, or with those that came in `timeout`
        seconds; maybe none. With a timeout of None it waits until there is one at least."""
        check_count(batch=batch)
        if batch < 1:
            raise OptionError("batch", "must be at least 1")
        reader = self._reader or self.messages()
        until = monotonic() + self._api.seconds(timeout)
        found = MessageBatch()
        try:
            while len(found) < batch:
                if found and timeout is None:
                    until = monotonic()
                found.append(reader.next(max(0.0, until - monotonic())))
        except NextMsgTimeoutError:
            pass
        return found

    def next(self, timeout: Timeout = TIMEOUT) -> JetStreamMsg:
        """The next message. Raises NextMsgTimeoutError where none comes in `timeout` seconds."""
        reader = self._reader or self.messages()
        return reader.next(self._api.seconds(timeout))

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
    """Makes the consumers of one OrderedConsumer, and deletes them. Apart from that: its readers
    refer to this, and would otherwise live as long as each other."""

    def __init__(self, api: API, stream: str, config: ConsumerConfig) -> None:
        self._api = api
        self._stream = stream
        self._config = config
        self._prefix = api.core.new_inbox().rpartition(".")[2]
        self._made = 0

    def make(self, start_seq: int | None, timeout: float) -> Made:
        self._made += 1
        config = replace(self._config, name=f"{self._prefix}_{self._made}")
        if start_seq is not None:
            config = replace(
                config,
                deliver_policy="by_start_sequence",
                opt_start_seq=max(1, start_seq),
                opt_start_time=None,
            )
        info = create_consumer(self._api, self._stream, config, timeout=timeout)
        start = info.delivered.stream_seq
        # Where the last message of each subject is wanted, what comes first says nothing of the
        # others.
        before = None if config.deliver_policy == "last_per_subject" else start
        return Made(pull_source(self._api, info), before, info.num_pending)

    def delete(self, name: str) -> None:
        # No reply: where it fails, the server removes the consumer after `inactive_threshold`.
        self._api.core.publish(self._api.subject(f"CONSUMER.DELETE.{self._stream}.{name}"))
