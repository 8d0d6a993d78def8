"""`JetStream`: streams, consumers and publishing over one connection.

https://docs.nats.io/nats-concepts/jetstream. Every call is a request to the server and may be made
from any thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from .._checks import check_kind
from .._late import late_import
from ..core import Core
from ..message import Data, HeadersLike, Msg, request_parts
from ..options import DEFAULT, REQUEST_TIMEOUT
from .api import API, Timeout
from .batches import FLOW, AtomicBatch, FastBatch
from .configs import ConsumerConfig, StreamConfig
from .consumer import Consumer
from .consumer_api import consumer_info
from .errors import StreamNotFoundError
from .infos import AccountInfo, ConsumerInfo, StreamInfo
from .names import check_consumer_name, check_stream_name
from .ordered_consumer import OrderedConsumer
from .publish_window import PublishWindow
from .publishing import RETRIES, RETRY_WAIT, PubAck, PublishOptions, check_retries, publish
from .push import PushConsumer
from .snapshots import restore_stream
from .stream import (
    Stream,
    configure_stream,
    delete_stream,
    list_streams,
    stream_info,
    stream_names,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

    from typing_extensions import Unpack

    from ..kv.bucket import KeyValue, KeyValueStatus
    from ..kv.config import KeyValueConfig
    from ..kv.management import Buckets
    from ..object_store.config import ObjectStoreConfig, ObjectStoreStatus
    from ..object_store.management import Stores
    from ..object_store.store import ObjectStore

__all__ = ["JetStream"]


PUBLISH_WINDOW = 4000
"""The most messages that may wait for their acknowledgement (nats.go:
defaultAsyncPubAckInflight)."""


class JetStream:
    """The JetStream of one account. Any number of threads may use it. Made by `Client.jetstream`.

    A request raises APIError, or a subclass for its err_code, if the server refuses it;
    JetStreamNotEnabledError if there is no JetStream; RequestTimeoutError; and the errors of
    `Client.request`. A context is cheap to make: for another timeout, make another context.
    """

    def __init__(
        self,
        core: Core,
        *,
        domain: str | None = None,
        prefix: str | None = None,
        timeout: float | None = REQUEST_TIMEOUT,
        publish_window: int = PUBLISH_WINDOW,
        publish_stall: float | None = REQUEST_TIMEOUT,
    ) -> None:
        self._api = API(core, domain, prefix, timeout)
        self._window = PublishWindow(self._api, publish_window, publish_stall)

    @property
    def api(self) -> API:
        """The JetStream API, for classes that build on JetStream."""
        return self._api

    def account_info(self) -> AccountInfo:
        """Asks the server for the account's usage and limits."""
        return AccountInfo.from_json(self._api.request("INFO"), self._api.subject("INFO"))

    def create_stream(self, config: StreamConfig) -> Stream:
        """Creates a stream, or returns the existing one if it has the same configuration. Raises
        StreamNameInUseError if its configuration differs."""
        return Stream(self._api, configure_stream(self._api, "CREATE", config))

    def update_stream(self, config: StreamConfig) -> Stream:
        """Replaces the whole configuration of a stream. To change some fields, pass
        `stream.info().config` changed with `dataclasses.replace`. Raises StreamNotFoundError."""
        return Stream(self._api, configure_stream(self._api, "UPDATE", config))

    def create_or_update_stream(self, config: StreamConfig) -> Stream:
        """Creates a stream, or replaces the configuration of an existing one."""
        try:
            return self.update_stream(config)
        except StreamNotFoundError:
            return self.create_stream(config)

    def stream(self, name: str) -> Stream:
        """Returns the stream of that name. Raises StreamNotFoundError."""
        return Stream(self._api, stream_info(self._api, name))

    def bind_stream(self, name: str) -> Stream:
        """Returns the stream of that name without a request, for users who may not ask about it.
        `cached_info` has nothing but the name until `info` is called."""
        return Stream(self._api, StreamInfo(StreamConfig(check_stream_name(name))))

    def delete_stream(self, name: str) -> None:
        """Deletes a stream with its messages and consumers. Raises StreamNotFoundError."""
        delete_stream(self._api, name)

    def restore_stream(
        self, info: StreamInfo, file: BinaryIO, *, timeout: Timeout = DEFAULT
    ) -> Stream:
        """Creates a stream from a snapshot: its binary file, and the `info` that `Stream.snapshot`
        returned, of which only the configuration and state are used.

        `timeout` limits the wait for each response; the last one arrives when everything is stored.
        Raises APIError if the stream exists, or if the file is damaged or truncated; in the latter
        case servers may keep the part of the stream that they have read. Raises SnapshotError if the
        server gives up, as where reading the next part of the file takes too long.
        """
        return Stream(self._api, restore_stream(self._api, info, file, timeout))

    def streams(self, subject: str = "") -> Iterator[StreamInfo]:
        """Iterates over all streams, or those with a subject that overlaps `subject`; requests each
        page when the iteration reaches it. Streams without a leader at the moment are left out;
        `stream_names` includes them."""
        return list_streams(self._api, subject)

    def stream_names(self, subject: str = "") -> Iterator[str]:
        """Iterates over the names of all streams, or those with a subject that overlaps
        `subject`."""
        return stream_names(self._api, subject)

    def publish(
        self,
        subject: str | Msg,
        data: Data = b"",
        *,
        headers: HeadersLike | None = None,
        timeout: Timeout = DEFAULT,
        retry_attempts: int = RETRIES,
        retry_wait: float = RETRY_WAIT,
        **options: Unpack[PublishOptions],
    ) -> PubAck:
        """Publishes `data` on `subject`, or a complete `Msg`, and returns when its stream has stored
        it. For `options` see PublishOptions. The reply subject of a `Msg` is not used.

        Raises APIError, or a subclass for its err_code, if the stream refuses the message, which is
        then not stored; NoStreamResponseError if no stream has the subject, after `retry_attempts`
        more attempts, `retry_wait` seconds apart; InvalidPubAckError if something other than
        JetStream answers; and the errors of `Client.request`. After RequestTimeoutError and
        ConnectionReconnectingError the message may or may not be stored: publish it again with the
        same `msg_id`.

        A message with a `msg_id` is published again until the timeout while there is no connection,
        or while the server lists a stream for its subject but that stream has no leader. If the
        stream then refuses it because an expectation does not hold, an earlier attempt may be the
        cause, as it may have been stored: the error of that attempt is raised.
        """
        if subject.__class__ is not str:
            subject, data, headers = request_parts(subject, data, headers)
        if retry_attempts is not RETRIES or retry_wait is not RETRY_WAIT:
            check_retries(retry_attempts, retry_wait)
        return publish(
            self._api, subject, data, headers, timeout, options, retry_attempts, retry_wait
        )

    def publish_async(
        self,
        subject: str | Msg,
        data: Data = b"",
        *,
        headers: HeadersLike | None = None,
        timeout: Timeout = DEFAULT,
        retry_attempts: int | None = None,
        retry_wait: float = RETRY_WAIT,
        **options: Unpack[PublishOptions],
    ) -> Future[PubAck]:
        """Publishes as `publish` does, and returns the future of its acknowledgement. For `options` see
        PublishOptions.

        While `publish_window` messages are unacknowledged, it waits up to `publish_stall` seconds,
        then raises TooManyStalledMsgsError. The future fails with the errors of `publish`. If the
        connection is lost, all unacknowledged messages without a `msg_id` fail; those with a
        `msg_id` are published again until their timeout. Where no stream has the subject, a message
        is published again up to `retry_attempts` times, `retry_wait` seconds apart: unless given
        twice with a `msg_id`, and never without. Such a message comes after those that were published
        meanwhile. Functions passed to `add_done_callback`
        run on the callback thread.
        """
        if subject.__class__ is not str:
            subject, data, headers = request_parts(subject, data, headers)
        if retry_attempts is None and retry_wait is RETRY_WAIT:
            return self._window.publish(subject, data, headers, timeout, options)
        check_retries(RETRIES if retry_attempts is None else retry_attempts, retry_wait)
        return self._window.publish(
            subject, data, headers, timeout, options, retry_attempts, retry_wait
        )

    @property
    def publish_async_pending(self) -> int:
        """The number of messages of `publish_async` that have neither an acknowledgement nor an
        error."""
        return self._window.pending

    def wait_all(self, timeout: Timeout = DEFAULT) -> bool:
        """Waits up to `timeout` seconds until every message of `publish_async` has an
        acknowledgement or an error; returns whether all have. The futures hold the individual
        results."""
        return self._window.wait(self._api.seconds(timeout))

    def atomic_batch(self) -> AtomicBatch:
        """Returns an empty batch of up to 1000 messages, which one stream stores all together or
        not at all (server 2.12; stream `allow_atomic`)."""
        return AtomicBatch(self._api)

    def fast_batch(self, flow: int = FLOW) -> FastBatch:
        """Returns an empty batch of any number of messages, which one stream stores as they arrive,
        with one acknowledgement for up to `flow` messages (server 2.14; stream `allow_batched`)."""
        return FastBatch(self._api, flow)

    def create_consumer(self, stream: str, config: ConsumerConfig) -> Consumer:
        """Creates a consumer: see `Stream.create_consumer`. Sends this request alone."""
        return self.bind_stream(stream).create_consumer(config)

    def update_consumer(self, stream: str, config: ConsumerConfig) -> Consumer:
        """Replaces the configuration of a consumer: see `Stream.update_consumer`."""
        return self.bind_stream(stream).update_consumer(config)

    def create_or_update_consumer(self, stream: str, config: ConsumerConfig) -> Consumer:
        """Creates a consumer, or replaces the configuration of an existing one."""
        return self.bind_stream(stream).create_or_update_consumer(config)

    def delete_consumer(self, stream: str, name: str) -> None:
        """Deletes a consumer. Raises ConsumerNotFoundError and StreamNotFoundError."""
        self.bind_stream(stream).delete_consumer(name)

    def bind_consumer(
        self, stream: str, name: str, config: ConsumerConfig | None = None
    ) -> Consumer:
        """Returns a consumer that exists, without a request, for users who may not ask about it.

        `config` is its configuration, as far as it is known. Without it, limits of the consumer for
        requests (`max_batch`, `max_expires`) are not kept to, a group must be in `config`, and the
        time that a message may wait (`ack_wait`) is not watched. Reading raises
        ConsumerDeletedError, or waits, if there is no such consumer.
        """
        return Consumer(self._api, _bound(stream, name, config or ConsumerConfig()))

    def bind_push_consumer(self, stream: str, name: str, config: ConsumerConfig) -> PushConsumer:
        """Returns a push consumer that exists, without a request; `config` has at least its deliver
        subject, and its deliver group and heartbeat if it has them."""
        return PushConsumer(self._api, _bound(stream, name, config))

    def consumer(self, stream: str, name: str) -> Consumer:
        """Returns an existing consumer. Raises ConsumerNotFoundError and StreamNotFoundError."""
        return Consumer(self._api, consumer_info(self._api, stream, name))

    def ordered_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        name_prefix: str = "",
        max_reset_attempts: int | None = None,
    ) -> OrderedConsumer:
        """Returns a reader that delivers the messages of a stream in order, without
        acknowledgements. `config` says where it begins and selects subjects; it must not name the
        consumer. Sends no request.

        The names of its consumers begin with `name_prefix`, and go on with a unique text. After
        `max_reset_attempts` attempts in a row to create another consumer, the error of the last one
        ends the reader; unless given, it tries for ever."""
        config = ConsumerConfig() if config is None else config
        check_kind(ConsumerConfig, config=config)
        return OrderedConsumer(
            self._api,
            stream,
            config,
            name_prefix=name_prefix,
            max_reset_attempts=max_reset_attempts,
        )

    def push_consumer(self, stream: str, name: str) -> PushConsumer:
        """Returns an existing consumer that has a deliver subject. Raises ConsumerNotFoundError and
        NotPushConsumerError."""
        return PushConsumer(self._api, consumer_info(self._api, stream, name))

    @property
    def _buckets(self) -> Buckets:
        with late_import:  # most programs have no key-value buckets
            from ..kv.management import Buckets

        return Buckets(self._api)

    @property
    def _stores(self) -> Stores:
        with late_import:
            from ..object_store.management import Stores

        return Stores(self._api)

    def key_value(self, bucket: str) -> KeyValue:
        """Returns the key-value bucket of that name. Raises `natsync.kv.BucketNotFoundError`."""
        return self._buckets.open(bucket)

    def bind_key_value(self, bucket: str) -> KeyValue:
        """Returns a key-value bucket that exists and is no mirror, without a request, for users who
        may not ask about its stream. It is taken for one that allows direct reads, as all clients
        make them."""
        return self._buckets.bind(bucket)

    def create_key_value(self, config: KeyValueConfig | str) -> KeyValue:
        """Creates a key-value bucket, or returns the existing one if it has the same configuration.
        A name alone stands for a configuration of defaults. Raises `natsync.kv.BucketExistsError`
        if the configuration differs."""
        return self._buckets.create(config)

    def update_key_value(self, config: KeyValueConfig) -> KeyValue:
        """Replaces the configuration of a key-value bucket. Raises
        `natsync.kv.BucketNotFoundError`."""
        return self._buckets.update(config)

    def create_or_update_key_value(self, config: KeyValueConfig | str) -> KeyValue:
        """Creates a key-value bucket, or replaces the configuration of an existing one."""
        return self._buckets.create_or_update(config)

    def delete_key_value(self, bucket: str) -> None:
        """Deletes a key-value bucket with its content. Raises `natsync.kv.BucketNotFoundError`."""
        self._buckets.delete(bucket)

    def key_values(self) -> Iterator[KeyValueStatus]:
        """Iterates over the statuses of all key-value buckets, mirrors included."""
        return self._buckets.statuses()

    def key_value_names(self) -> Iterator[str]:
        """Iterates over the names of all key-value buckets, mirrors included."""
        return self._buckets.names()

    def object_store(self, bucket: str) -> ObjectStore:
        """Returns the object store of that name. Raises
        `natsync.object_store.StoreNotFoundError`."""
        return self._stores.open(bucket)

    def bind_object_store(self, bucket: str) -> ObjectStore:
        """Returns an object store that exists, without a request, for users who may not ask about
        its stream. It is taken for one that allows direct reads, as all clients make them."""
        return self._stores.bind(bucket)

    def create_object_store(self, config: ObjectStoreConfig | str) -> ObjectStore:
        """Creates an object store, or returns the existing one if it has the same configuration. A
        name alone stands for a configuration of defaults. Raises
        `natsync.object_store.StoreExistsError` if the configuration differs."""
        return self._stores.create(config)

    def update_object_store(self, config: ObjectStoreConfig) -> ObjectStore:
        """Replaces the configuration of an object store. Raises
        `natsync.object_store.StoreNotFoundError`."""
        return self._stores.update(config)

    def create_or_update_object_store(self, config: ObjectStoreConfig | str) -> ObjectStore:
        """Creates an object store, or replaces the configuration of an existing one."""
        return self._stores.create_or_update(config)

    def delete_object_store(self, bucket: str) -> None:
        """Deletes an object store with its content. Raises `natsync.object_store.StoreNotFoundError`."""
        self._stores.delete(bucket)

    def object_stores(self) -> Iterator[ObjectStoreStatus]:
        """Iterates over the statuses of all object stores."""
        return self._stores.statuses()

    def object_store_names(self) -> Iterator[str]:
        """Iterates over the names of all object stores."""
        return self._stores.names()

    def __repr__(self) -> str:
        return f"JetStream({self._api.prefix!r})"


def _bound(stream: str, name: str, config: ConsumerConfig) -> ConsumerInfo:
    check_kind(ConsumerConfig, config=config)
    return ConsumerInfo(check_stream_name(stream), check_consumer_name(name), config=config)
