"""`JetStream`: streams, consumers and publishing over one connection.

https://docs.nats.io/nats-concepts/jetstream. Every call is a request to the server and may be made
from any thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from .._checks import check_kind
from .._json import check_pattern
from .._late import late_import
from ..core import Core
from ..message import Data, HeadersLike
from ..options import REQUEST_TIMEOUT
from .api import API, TIMEOUT, Timeout, check_kept
from .batches import FLOW, AtomicBatch, FastBatch
from .configs import ConsumerConfig, StreamConfig
from .consumer import Consumer
from .consumers import consumer_info
from .errors import StreamNotFoundError
from .infos import AccountInfo, StreamInfo
from .names import check_stream_name
from .ordered_consumer import OrderedConsumer
from .publish_window import PublishWindow
from .publishing import PubAck, PublishOptions, publish
from .push import PushConsumer
from .snapshots import restore_stream
from .stream import Stream, read_name, stream_info

if TYPE_CHECKING:
    from concurrent.futures import Future

    from typing_extensions import Unpack

    from ..kv import KeyValue, KeyValueConfig, KeyValueStatus
    from ..object_store import ObjectStore, ObjectStoreConfig, ObjectStoreStatus

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
        return self._configure("CREATE", config)

    def update_stream(self, config: StreamConfig) -> Stream:
        """Replaces the whole configuration of a stream. To change some fields, pass
        `stream.info().config` changed with `dataclasses.replace`. Raises StreamNotFoundError."""
        return self._configure("UPDATE", config)

    def create_or_update_stream(self, config: StreamConfig) -> Stream:
        """Creates a stream, or replaces the configuration of an existing one."""
        try:
            return self.update_stream(config)
        except StreamNotFoundError:
            return self.create_stream(config)

    def stream(self, name: str) -> Stream:
        """Returns the stream of that name. Raises StreamNotFoundError."""
        return Stream(self._api, stream_info(self._api, name))

    def delete_stream(self, name: str) -> None:
        """Deletes a stream with its messages and consumers. Raises StreamNotFoundError."""
        self._api.request(f"STREAM.DELETE.{check_stream_name(name)}")

    def restore_stream(
        self, info: StreamInfo, file: BinaryIO, *, timeout: Timeout = TIMEOUT
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
        check_pattern(subject or ">")
        body = {"subject": subject} if subject else {}
        return self._api.pages("STREAM.LIST", "streams", StreamInfo.from_json, **body)

    def stream_names(self, subject: str = "") -> Iterator[str]:
        """Iterates over the names of all streams, or those with a subject that overlaps
        `subject`."""
        check_pattern(subject or ">")
        body = {"subject": subject} if subject else {}
        return self._api.pages("STREAM.NAMES", "streams", read_name, **body)

    def publish(
        self,
        subject: str,
        data: Data = b"",
        *,
        headers: HeadersLike | None = None,
        timeout: Timeout = TIMEOUT,
        **options: Unpack[PublishOptions],
    ) -> PubAck:
        """Publishes a message, and returns when its stream has stored it. For `options` see
        PublishOptions.

        Raises APIError, or a subclass for its err_code, if the stream refuses the message, which is
        then not stored; NoStreamResponseError if no stream has the subject, after two more
        attempts; InvalidPubAckError if something other than JetStream answers; and the errors of
        `Client.request`. After RequestTimeoutError and ConnectionReconnectingError the message may
        or may not be stored: publish it again with the same `msg_id`.

        A message with a `msg_id` is published again until the timeout while there is no connection,
        or while the server lists a stream for its subject but that stream has no leader. If the
        stream then refuses it because an expectation does not hold, an earlier attempt may be the
        cause, as it may have been stored: the error of that attempt is raised.
        """
        return publish(self._api, subject, data, headers, timeout, options)

    def publish_async(
        self,
        subject: str,
        data: Data = b"",
        *,
        headers: HeadersLike | None = None,
        timeout: Timeout = TIMEOUT,
        **options: Unpack[PublishOptions],
    ) -> Future[PubAck]:
        """Publishes a message, and returns the future of its acknowledgement. For `options` see
        PublishOptions.

        While `publish_window` messages are unacknowledged, it waits up to `publish_stall` seconds,
        then raises TooManyStalledMsgsError. The future fails with the errors of `publish`. If the
        connection is lost, all unacknowledged messages without a `msg_id` fail; those with a
        `msg_id` are published again until their timeout. Functions passed to `add_done_callback`
        run on the callback thread.
        """
        return self._window.publish(subject, data, headers, timeout, options)

    @property
    def publish_async_pending(self) -> int:
        """The number of messages of `publish_async` that have neither an acknowledgement nor an
        error."""
        return self._window.pending

    def wait_all(self, timeout: Timeout = TIMEOUT) -> bool:
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

    def consumer(self, stream: str, name: str) -> Consumer:
        """Returns an existing consumer. Raises ConsumerNotFoundError and StreamNotFoundError."""
        return Consumer(self._api, consumer_info(self._api, stream, name))

    def ordered_consumer(
        self, stream: str, config: ConsumerConfig | None = None
    ) -> OrderedConsumer:
        """Returns a reader that delivers the messages of a stream in order, without
        acknowledgements. `config` says where it begins and selects subjects; it must not name the
        consumer. Sends no request."""
        config = ConsumerConfig() if config is None else config
        check_kind(ConsumerConfig, config=config)
        return OrderedConsumer(self._api, stream, config)

    def push_consumer(self, stream: str, name: str) -> PushConsumer:
        """Returns an existing consumer that has a deliver subject. Raises ConsumerNotFoundError and
        NotPushConsumerError."""
        return PushConsumer(self._api, consumer_info(self._api, stream, name))

    # Key-value buckets and object stores build on this class: they are imported when first used.

    def key_value(self, bucket: str) -> KeyValue:
        """Returns the key-value bucket of that name. Raises `natsync.kv.BucketNotFoundError`."""
        with late_import:
            from ..kv import open_bucket

        return open_bucket(self, bucket)

    def create_key_value(self, config: KeyValueConfig | str) -> KeyValue:
        """Creates a key-value bucket, or returns the existing one if it has the same configuration.
        A name alone stands for a configuration of defaults. Raises `natsync.kv.BucketExistsError`
        if the configuration differs."""
        with late_import:
            from ..kv import create_bucket

        return create_bucket(self, config)

    def update_key_value(self, config: KeyValueConfig) -> KeyValue:
        """Replaces the configuration of a key-value bucket. Raises
        `natsync.kv.BucketNotFoundError`."""
        with late_import:
            from ..kv import update_bucket

        return update_bucket(self, config)

    def create_or_update_key_value(self, config: KeyValueConfig | str) -> KeyValue:
        """Creates a key-value bucket, or replaces the configuration of an existing one."""
        with late_import:
            from ..kv import create_or_update_bucket

        return create_or_update_bucket(self, config)

    def delete_key_value(self, bucket: str) -> None:
        """Deletes a key-value bucket. Raises `natsync.kv.BucketNotFoundError`."""
        with late_import:
            from ..kv import delete_bucket

        delete_bucket(self, bucket)

    def key_values(self) -> Iterator[KeyValueStatus]:
        """Iterates over the statuses of all key-value buckets, mirrors included."""
        with late_import:
            from ..kv import bucket_statuses

        return bucket_statuses(self)

    def key_value_names(self) -> Iterator[str]:
        """Iterates over the names of all key-value buckets, mirrors included."""
        with late_import:
            from ..kv import bucket_names

        return bucket_names(self)

    def object_store(self, store: str) -> ObjectStore:
        """Returns the object store of that name. Raises
        `natsync.object_store.StoreNotFoundError`."""
        with late_import:
            from ..object_store import open_store

        return open_store(self, store)

    def create_object_store(self, config: ObjectStoreConfig | str) -> ObjectStore:
        """Creates an object store, or returns the existing one if it has the same configuration. A
        name alone stands for a configuration of defaults. Raises
        `natsync.object_store.StoreExistsError` if the configuration differs."""
        with late_import:
            from ..object_store import create_store

        return create_store(self, config)

    def update_object_store(self, config: ObjectStoreConfig) -> ObjectStore:
        """Replaces the configuration of an object store. Raises
        `natsync.object_store.StoreNotFoundError`."""
        with late_import:
            from ..object_store import update_store

        return update_store(self, config)

    def create_or_update_object_store(self, config: ObjectStoreConfig | str) -> ObjectStore:
        """Creates an object store, or replaces the configuration of an existing one."""
        with late_import:
            from ..object_store import create_or_update_store

        return create_or_update_store(self, config)

    def delete_object_store(self, store: str) -> None:
        """Deletes an object store. Raises `natsync.object_store.StoreNotFoundError`."""
        with late_import:
            from ..object_store import delete_store

        delete_store(self, store)

    def object_stores(self) -> Iterator[ObjectStoreStatus]:
        """Iterates over the statuses of all object stores."""
        with late_import:
            from ..object_store import store_statuses

        return store_statuses(self)

    def object_store_names(self) -> Iterator[str]:
        """Iterates over the names of all object stores."""
        with late_import:
            from ..object_store import store_names

        return store_names(self)

    def _configure(self, verb: str, config: StreamConfig) -> Stream:
        check_kind(StreamConfig, config=config)
        self._api.check_supported(config)
        call = f"STREAM.{verb}.{check_stream_name(config.name)}"
        response = self._api.request(call, config.to_json())
        response.pop("did_create", None)  # true even if the stream already existed
        info = StreamInfo.from_json(response, self._api.subject(call))
        check_kept(config, info.config)
        return Stream(self._api, info)

    def __repr__(self) -> str:
        return f"JetStream({self._api.prefix!r})"
