"""`Queues`: each kombu queue is a stream with retention `workqueue`, and one durable consumer.

Arguments of a queue become limits of its stream: `x-message-ttl` (ms), `x-max-length`,
`x-max-length-bytes`, and `x-overflow` for what happens at a limit. A queue with `x-expires` (ms),
or that is exclusive or auto-deleted, is transient: once nobody has used it for that long, the next
process that declares a transient queue deletes its stream. Queues that are exclusive, auto-deleted
or not durable are kept in memory.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

from .._checks import check_seconds
from ..errors import OptionError
from ..jetstream import (
    Consumer,
    ConsumerConfig,
    ConsumerNotFoundError,
    JetStream,
    JetStreamMsg,
    NoStreamResponseError,
    Stream,
    StreamConfig,
    StreamInfo,
    StreamNameInUseError,
    StreamNotFoundError,
)
from ..jetstream.configs import StorageType
from .bindings import Bindings
from .naming import CONSUMER, Names

__all__ = ["QueueOptions", "Queues"]

_log = logging.getLogger("natsync.kombu")

_SHORTEST = 0.5  # seconds: on a busy machine a thread may not run for as long as this
_UNUSED = 3600.0  # seconds that a transient queue without `x-expires` is kept
_SWEPT_AFTER = timedelta(seconds=60)  # a queue's consumer is created shortly after its stream
_TRANSIENT = (
    "a transient queue of kombu"  # not in the metadata, which servers before 2.10 do not keep
)
_KNOWN = {"x-expires", "x-max-length", "x-max-length-bytes", "x-message-ttl", "x-overflow"}


@dataclass(frozen=True)
class QueueOptions:
    """How all queues of a broker are stored."""

    replicas: int = 1
    storage: StorageType = "file"
    visibility_timeout: float = 60.0
    """Seconds after which the messages of a worker that has died go to another worker."""

    def __post_init__(self) -> None:
        check_seconds(visibility_timeout=self.visibility_timeout)
        if self.visibility_timeout < _SHORTEST:
            raise OptionError("visibility_timeout", f"must be at least {_SHORTEST} s")


class Queues:
    """The queues of one broker, for any number of threads. Methods raise the errors of
    `JetStream`."""

    def __init__(
        self, js: JetStream, names: Names, options: QueueOptions, bindings: Bindings
    ) -> None:
        self.names = names
        self._js = js
        self._options = options
        self._bindings = bindings
        self._consumers: dict[str, Consumer] = {}
        self._declared: dict[str, tuple[StreamConfig, ConsumerConfig]] = {}
        self._swept = False

    def declare(
        self,
        queue: str,
        *,
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Mapping[str, object] | None = None,
    ) -> None:
        """Declares a queue. An existing queue stays as it is; a warning is logged if its arguments
        differ."""
        values = dict(arguments or {})
        expires = _milliseconds(values, "x-expires")
        transient = exclusive or auto_delete or bool(expires)
        for name in sorted(set(values) - _KNOWN):
            _log.warning("queue %r: JetStream has nothing like the argument %s", queue, name)
        in_memory = exclusive or auto_delete or not durable
        stream = StreamConfig(
            self.names.stream(queue),
            description=_TRANSIENT if transient else "",
            subjects=(self.names.subject(queue),),
            retention="workqueue",
            max_msgs=_count(values, "x-max-length"),
            max_bytes=_count(values, "x-max-length-bytes"),
            max_age=_milliseconds(values, "x-message-ttl"),
            discard="old" if values.get("x-overflow", "drop-head") == "drop-head" else "new",
            storage="memory" if in_memory else self._options.storage,
            num_replicas=self._options.replicas,
        )
        consumer = ConsumerConfig(
            durable_name=CONSUMER,
            ack_wait=self._options.visibility_timeout,
            max_ack_pending=-1,  # any number of tasks with an ETA may wait in workers
            inactive_threshold=(expires or _UNUSED) if transient else 0.0,
        )
        if transient:
            self._sweep()
        self._make(queue, stream, consumer)
        self._declared[queue] = stream, consumer

    def declare_again(self, queue: str) -> None:
        """Creates and binds a missing queue again if this process has declared it."""
        self._consumers.pop(queue, None)
        if queue in self._declared:
            self._make(queue, *self._declared[queue])
            self._bindings.restore(queue)

    def exists(self, queue: str) -> bool:
        """Returns whether the queue exists."""
        try:
            self._js.stream(self.names.stream(queue))
        except StreamNotFoundError:
            return False
        return True

    def put(self, queue: str, body: bytes, message_id: str) -> None:
        """Appends a message, and returns when it is stored. If the queue is missing, it is created
        again if this process has declared it; otherwise the message is dropped, as a broker drops
        messages without a queue. Raises NoStreamResponseError if the queue has no leader."""
        subject = self.names.subject(queue)
        try:
            self._js.publish(subject, body, msg_id=message_id)
        except NoStreamResponseError:
            if self.exists(queue):
                raise
            if queue not in self._declared:
                _log.warning("a message for the queue %r, which does not exist, is dropped", queue)
                self._bindings.remove_queue(queue)
                return
            self.declare_again(queue)
            self._js.publish(subject, body, msg_id=message_id)

    def get(self, queue: str) -> JetStreamMsg | None:
        """Returns the first message of a queue, or None."""
        try:
            messages = self._consumer(queue).fetch_no_wait(1)
        except (StreamNotFoundError, ConsumerNotFoundError):
            return None
        if messages.error:
            self._consumers.pop(queue, None)
            raise messages.error
        return messages[0] if messages else None

    def size(self, queue: str) -> int:
        """Returns the number of messages in a queue that no worker holds. The server counts a new
        message for the consumer a few moments after it has stored it."""
        try:
            return self._consumer(queue).info().num_pending
        except (StreamNotFoundError, ConsumerNotFoundError):
            self._consumers.pop(queue, None)
            return 0

    def is_used(self, queue: str) -> bool:
        """Returns whether anybody waits for messages of a queue, or holds some."""
        try:
            info = self._consumer(queue).info()
            return info.num_waiting > 0 or info.num_ack_pending > 0
        except (StreamNotFoundError, ConsumerNotFoundError):
            self._consumers.pop(queue, None)
            return False

    def is_empty(self, queue: str) -> bool:
        """Returns whether a queue has no messages, including those that workers hold."""
        try:
            return not self._js.stream(self.names.stream(queue)).cached_info.state.messages
        except StreamNotFoundError:
            return True

    def purge(self, queue: str) -> int:
        """Deletes the messages of a queue that no worker holds, and returns how many there were."""
        try:
            stream = self._js.stream(self.names.stream(queue))
            info = self._consumer(queue).info()
        except (StreamNotFoundError, ConsumerNotFoundError):
            return 0
        return self._take_waiting(stream) if info.num_ack_pending else stream.purge()

    def delete(self, queue: str) -> None:
        """Deletes a queue with its messages and bindings."""
        self._declared.pop(queue, None)
        self._consumers.pop(queue, None)
        self._bindings.remove_queue(queue)
        with suppress(StreamNotFoundError):
            self._js.delete_stream(self.names.stream(queue))

    def _take_waiting(self, stream: Stream) -> int:
        """Takes and acknowledges the messages that no worker holds; a purge would also delete those
        that workers hold."""
        count = 0
        consumer = stream.consumer(CONSUMER)
        while messages := consumer.fetch_no_wait(500):
            for message in messages:
                message.ack()
            count += len(messages)
        return count

    def _make(self, queue: str, stream: StreamConfig, consumer: ConsumerConfig) -> None:
        try:
            made = self._js.create_stream(stream)
        except StreamNameInUseError:
            made = self._js.stream(stream.name)
            _log.warning("queue %r exists with other arguments, which it keeps", queue)
            with suppress(ConsumerNotFoundError):
                kept = self._js.consumer(stream.name, CONSUMER).config.inactive_threshold
                consumer = replace(consumer, inactive_threshold=kept)
        self._consumers[queue] = made.create_or_update_consumer(consumer)

    def _consumer(self, queue: str) -> Consumer:
        consumer = self._consumers.get(queue)
        if consumer is None:
            consumer = self._js.consumer(self.names.stream(queue), CONSUMER)
            self._consumers[queue] = consumer
        return consumer

    def _sweep(self) -> None:
        """Deletes transient queues that nobody has used for so long that the server has deleted
        their consumers. Runs once per process, which is enough: such queues come from processes
        that have ended."""
        if self._swept:
            return
        self._swept = True
        made_before = datetime.now(timezone.utc) - _SWEPT_AFTER
        for info in list(self._js.streams(self.names.subjects)):
            if _is_unused(info, made_before):
                with suppress(StreamNotFoundError):
                    self._js.delete_stream(info.config.name)


def _is_unused(info: StreamInfo, made_before: datetime) -> bool:
    old = info.created is not None and info.created < made_before
    return info.config.description == _TRANSIENT and not info.state.consumer_count and old


def _milliseconds(arguments: Mapping[str, object], name: str) -> float:
    """Returns an argument in milliseconds as seconds, 0 if it is not given."""
    value = arguments.get(name) or 0
    if not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of milliseconds, not {value!r}")
    return value / 1000


def _count(arguments: Mapping[str, object], name: str) -> int:
    value = arguments.get(name)
    if value is None:
        return -1
    if not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    return value
