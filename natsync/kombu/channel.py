"""The `Channel` and `QoS` of kombu, built on the queues, bindings and deliveries of a
connection."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from queue import Empty
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

try:
    from kombu.transport import virtual
    from kombu.transport.base import to_rabbitmq_queue_arguments
    from kombu.utils.json import dumps, loads
except ModuleNotFoundError as error:
    from .._extras import pip_install

    needs = f"natsync.kombu needs kombu: {pip_install('kombu')}"
    raise ModuleNotFoundError(needs, name=error.name) from error

from ..errors import ConnectionClosedError, Error
from .bindings import Binding
from .deliveries import Delivery

if TYPE_CHECKING:
    from .transport import Transport

__all__ = ["Channel", "QoS"]

_log = logging.getLogger("natsync.kombu")

Payload: TypeAlias = dict[str, Any]
"""A message in the form of kombu's virtual channels; queues hold it as JSON."""

_AT_ONCE = 64
"""The number of messages to request if the program sets no prefetch count."""


class QoS(virtual.QoS):
    """Tracks the messages that the consumers of a channel hold. JetStream keeps them until they are
    acknowledged, so nothing is ever stored again from here."""

    channel: Channel

    def ack(self, delivery_tag: str) -> None:
        """Deletes the message from its queue. Any thread may call this."""
        super().ack(delivery_tag)
        self.channel.settle(delivery_tag, self.channel.connection.deliveries.ack)
        self.channel.ask()  # the waiting thread may have reached its prefetch count

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Has the message delivered again if `requeue` is true, else deletes it. Any thread may
        call this."""
        super().ack(delivery_tag)
        deliveries = self.channel.connection.deliveries
        self.channel.settle(delivery_tag, deliveries.requeue if requeue else deliveries.reject)
        self.channel.ask()

    def restore_unacked(self) -> list[object]:
        """Returns all unacknowledged messages to their queues."""
        self._flush()
        with suppress(Error):  # without a connection, the server delivers them again anyway
            for delivery_tag in list(self._delivered):
                self.reject(delivery_tag, requeue=True)
        self._flush()
        return []


class Channel(virtual.Channel):
    """A kombu channel on NATS, for one thread; any thread may acknowledge messages."""

    QoS = QoS
    supports_fanout = True
    connection: Transport

    def __init__(self, connection: Transport, **options: object) -> None:
        super().__init__(connection, **options)
        self._unsettled: dict[str, Delivery] = {}
        self._without_ack: set[str] = set()

    # The methods that kombu requires of a virtual channel.

    def basic_publish(
        self, message: Payload, exchange: str, routing_key: str, **options: object
    ) -> None:
        """Publishes a message. Raises ConnectionClosedError if the channel was closed, as after a lost
        connection: kombu then tries again on another one."""
        if self.closed:
            raise ConnectionClosedError("the channel is closed")
        super().basic_publish(message, exchange, routing_key, **options)

    def prepare_queue_arguments(self, arguments: Mapping[str, object], **limits: object) -> Payload:
        """Returns the arguments of a queue, together with the attributes of kombu's `Queue` in the
        form of arguments: `message_ttl` becomes `x-message-ttl`."""
        prepared: Payload = to_rabbitmq_queue_arguments(arguments, **limits)
        return prepared

    def queue_declare(
        self, queue: str | None = None, passive: bool = False, **options: object
    ) -> tuple[str, int, int]:
        """Declares a queue; with `passive`, changes nothing, and raises ChannelError if the queue
        does not exist."""
        declared: tuple[str, int, int] = super().queue_declare(
            queue, passive, exists=passive, **options
        )
        return declared

    def _new_queue(self, queue: str, **options: object) -> None:
        if options.get("exists"):
            return
        known = ("durable", "exclusive", "auto_delete", "arguments")
        asked: dict[str, Any] = {name: options[name] for name in known if options.get(name)}
        if options.get("durable") is False:
            asked["durable"] = False
        self.connection.queues.declare(queue, **asked)

    def _has_queue(self, queue: str, **options: object) -> bool:
        return self.connection.queues.exists(queue)

    def _size(self, queue: str) -> int:
        return self.connection.queues.size(queue)

    def _purge(self, queue: str) -> int:
        return self.connection.queues.purge(queue)

    def _put(self, queue: str, message: Payload, **options: object) -> None:
        body = dumps(message).encode()
        self.connection.queues.put(queue, body, uuid4().hex)

    def _put_fanout(
        self, exchange: str, message: Payload, routing_key: str, **options: object
    ) -> None:
        for queue in self._lookup(exchange, routing_key):
            self._put(queue, message)

    def _get(self, queue: str, timeout: float | None = None) -> Payload:
        while (msg := self.connection.queues.get(queue)) is not None:
            delivery = Delivery(queue, msg, msg.metadata.num_delivered > 1)
            self.connection.deliveries.hold(delivery)
            payload = self._payload(delivery)
            if payload is not None:
                return payload
        raise Empty

    # Virtual channels keep these tables in process memory; this one shares them with all processes.

    def get_table(self, exchange: str) -> list[tuple[str, str | None, str]]:
        """Returns the bindings of `exchange` from all processes."""
        return [binding[:3] for binding in self.connection.bindings.of(exchange)]

    def typeof(self, exchange: str, default: str = "direct") -> virtual.exchange.ExchangeType:
        """Returns the type of an exchange: as this channel's connection has declared it, else as
        the connections have that bound queues to it."""
        if exchange not in self.state.exchanges:
            kinds = (binding.kind for binding in self.connection.bindings.of(exchange))
            default = next(filter(None, kinds), default)
        kind: virtual.exchange.ExchangeType = super().typeof(exchange, default)
        return kind

    def _lookup(self, exchange: str, routing_key: str, default: str | None = None) -> Iterable[str]:
        kind = self.typeof(exchange)
        if exchange and not kind.lookup(self.get_table(exchange), exchange, routing_key, None):
            self.connection.bindings.refresh()  # another process may have just bound a queue
        found: Iterable[str] = super()._lookup(exchange, routing_key, default)
        return found

    def queue_bind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: object = None,
        **options: object,
    ) -> None:
        """Binds a queue, even if it was bound before and another process has deleted it since."""
        exchange = exchange or "amq.direct"
        kind = self.typeof(exchange)
        key, pattern, _ = kind.prepare_bind(queue, exchange, routing_key, arguments)
        self.connection.bindings.add(exchange, Binding(key, pattern, queue, str(kind.type)))

    def exchange_delete(self, exchange: str, if_unused: bool = False, nowait: bool = False) -> None:
        """Deletes the bindings of an exchange, but no queue; with `if_unused`, only if it has no
        bindings."""
        bindings = self.connection.bindings
        bindings.refresh()
        rows = bindings.of(exchange)
        if if_unused and rows:
            return
        for binding in rows:
            bindings.remove(exchange, binding)
        self.state.exchanges.pop(exchange, None)

    def queue_unbind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: object = None,
        **options: object,
    ) -> None:
        """Removes a binding."""
        exchange = exchange or "amq.direct"
        meta = self.typeof(exchange).prepare_bind(queue, exchange, routing_key, arguments)
        self.connection.bindings.remove(exchange, Binding(*meta))

    def queue_delete(
        self, queue: str, if_unused: bool = False, if_empty: bool = False, **options: object
    ) -> None:
        """Deletes a queue, its messages and its bindings; with `if_unused`, only if nobody waits
        for its messages, with `if_empty`, only if it has no messages. A message that a worker holds
        counts for both."""
        queues = self.connection.queues
        is_consumed = any(channel.consumes(queue) for channel in self.connection.channels)
        if if_unused and (is_consumed or queues.is_used(queue)):
            return
        if if_empty and not queues.is_empty(queue):
            return
        queues.delete(queue)

    # Consumers.

    def basic_consume(
        self,
        queue: str,
        no_ack: bool,
        callback: Callable[..., object],
        consumer_tag: str,
        **options: object,
    ) -> None:
        """Registers `callback`: `Transport.drain_events` calls it with the messages of a queue."""
        super().basic_consume(queue, no_ack, callback, consumer_tag, **options)
        if no_ack:
            self._without_ack.add(queue)

    def basic_cancel(self, consumer_tag: str) -> None:
        """Ends a consumer. Messages that it has received stay with it until they are
        acknowledged."""
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        if queue is not None and queue not in self._active_queues:
            self._without_ack.discard(queue)
            self.connection.deliveries.cancel(queue)

    def basic_get(
        self, queue: str, no_ack: bool = False, **options: object
    ) -> virtual.Message | None:
        """Returns the first message of a queue, or None."""
        message: virtual.Message | None = super().basic_get(queue, no_ack=no_ack, **options)
        if message is not None and no_ack:
            self.settle(message.delivery_tag, self.connection.deliveries.ack)
        return message

    def ask(self) -> None:
        """Requests as many messages as the consumers of this channel may take now. Any thread may
        call this."""
        if not self.closed and self._active_queues and self.qos.can_consume():
            free = self.qos.can_consume_max_estimate() or _AT_ONCE
            each = max(1, free // len(self._active_queues))
            for queue in self._active_queues:
                self.connection.deliveries.ask(queue, each)

    def take(self, delivery: Delivery) -> None:
        """Passes a delivery to its consumer, or returns it to the queue if the channel already
        holds as many as it may."""
        if not self.qos.can_consume():
            self.connection.deliveries.requeue(delivery)
            return
        payload = self._payload(delivery)
        if payload is None:
            return
        if delivery.queue in self._without_ack:
            self.settle(payload["properties"]["delivery_tag"], self.connection.deliveries.ack)
        self.connection._deliver(payload, delivery.queue)

    def consumes(self, queue: str) -> bool:
        """Returns whether this channel has a consumer of that queue."""
        return queue in self._active_queues

    def settle(self, delivery_tag: str, how: Callable[[Delivery], None]) -> None:
        """Acknowledges, rejects or requeues a delivery, at most once."""
        delivery = self._unsettled.pop(delivery_tag, None)
        if delivery is not None:
            how(delivery)

    def _payload(self, delivery: Delivery) -> Payload | None:
        """Returns the message of a delivery. If it is not a kombu message, deletes it and returns
        None, since every worker would fail on it."""
        tag = uuid4().hex
        try:
            payload: Payload = loads(delivery.msg.data)
            payload["properties"]["delivery_tag"] = tag
            payload["properties"]["delivery_info"]["redelivered"] = delivery.redelivered
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError):
            subject, size = delivery.msg.subject, len(delivery.msg.data)
            _log.error("%d bytes on %s are no message of kombu, and are deleted", size, subject)
            self.connection.deliveries.reject(delivery)
            return None
        self._unsettled[tag] = delivery
        return payload
