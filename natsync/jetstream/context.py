"""`JetStream`: streams, consumers and publishing, by way of one connection.

https://docs.nats.io/nats-concepts/jetstream. Every call is a request to the server and may be made from
any thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from .._checks import check_kind
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
"""Messages without acknowledgement (nats.go: defaultAsyncPubAckInflight)."""


class JetStream:
    """JetStream of one account, for any number of threads. Made by `Client.jetstream`.

    A request raises APIError, or a subclass for its err_code, for what the server refuses;
    JetStreamNotEnabledError where there is no JetStream; RequestTimeoutError; and what `Client.request`
    raises. Making one costs nothing: another timeout is another context.
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
        """The requests themselves, for what stands on JetStream."""
        return self._api

    def account_info(self) -> AccountInfo:
        """What the account uses, and may use."""
        return AccountInfo.from_json(self._api.request("INFO"), self._api.subject("INFO"))

    def create_stream(self, config: StreamConfig) -> Stream:
        """A new stream, or the one that is there with the same configuration; StreamNameInUseError where
        it has another one."""
        return self._configure("CREATE", config)

    def update_stream(self, config: StreamConfig) -> Stream:
        """The stream of that name with this configuration, which replaces all of the old one: change
        `stream.info().config` with `dataclasses.replace`. Raises StreamNotFoundError."""
        return self._configure("UPDATE", config)

    def create_or_update_stream(self, config: StreamConfig) -> Stream:
        """The stream of that name with this configuration, whether it was there or not."""
        try:
            return self.update_stream(config)
        except StreamNotFoundError:
            return self.create_stream(config)

    def stream(self, name: str) -> Stream:
        """The stream of that name. Raises StreamNotFoundError."""
        return Stream(self._api, stream_info(self._api, name))

    def delete_stream(self, name: str) -> None:
        """Deletes a stream with its messages and consumers. Raises StreamNotFoundError."""
        self._api.request(f"STREAM.DELETE.{check_stream_name(name)}")

    def restore_stream(
        self, info: StreamInfo, file: BinaryIO, *, timeout: Timeout = TIMEOUT
    ) -> Stream:
        """A new stream from a snapshot: from its binary file, and the `info` that `Stream.snapshot`
        returned, of which configuration and state count.

        `timeout` is the longest wait for each answer; the last one comes when all is stored. Raises
        APIError where the stream exists, or the file is damaged or cut short; in that case servers may
        keep the part of the stream that they have read.
        """
        return Stream(self._api, restore_stream(self._api, info, file, timeout))

    def streams(self, subject: str = "") -> Iterator[StreamInfo]:
        """Every stream, or every one with a subject that overlaps with `subject`; asked for in pages, as
        the iteration goes on. Those that have no leader at the moment are not among them, other than in
        `stream_names`."""
        body = {"subject": subject} if subject else {}
        return self._api.pages("STREAM.LIST", "streams", StreamInfo.from_json, **body)

    def stream_names(self, subject: str = "") -> Iterator[str]:
        """The names of the same streams."""
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

        Raises APIError, or a subclass for its err_code, for what the stream refuses: nothing is stored
        then; NoStreamResponseError where no stream has the subject, after two more attempts;
        InvalidPubAckError where somebody else answers; and what `Client.request` raises. After
        RequestTimeoutError and ConnectionReconnectingError the message may be stored or not: publish it
        again, with the same `msg_id`. With one, it is published again until the timeout, while there is
        no connection, or the server lists a stream that takes it and the stream has no leader. Where the
        stream then has something else than what is expected, that may be the message itself: the first of
        the two errors is raised.
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

        While `publish_window` messages are not acknowledged it waits, up to `publish_stall` seconds, then
        it raises TooManyStalledMsgsError. The future fails with what `publish` raises; a lost connection
        fails all that have no `msg_id`, while those that have one are published again until their
        timeout. Functions passed to `add_done_callback` run on the callback thread.
        """
        return self._window.publish(subject, data, headers, timeout, options)

    @property
    def publish_async_pending(self) -> int:
        """How many messages of `publish_async` have neither an acknowledgement nor an error."""
        return self._window.pending

    def wait_all(self, timeout: Timeout = TIMEOUT) -> bool:
        """Waits until every message of `publish_async` has an acknowledgement or an error, up to
        `timeout` seconds; returns whether that is so. The futures say what became of each."""
        return self._window.wait(self._api.seconds(timeout))

    def atomic_batch(self) -> AtomicBatch:
        """A batch of up to 1000 messages that one stream stores together or not at all (server 2.12; stream
        `allow_atomic`)."""
        return AtomicBatch(self._api)

    def fast_batch(self, flow: int = FLOW) -> FastBatch:
        """A batch of any number of messages that one stream stores as they come, with one acknowledgement
        for up to `flow` of them (server 2.14; stream `allow_batched`)."""
        return FastBatch(self._api, flow)

    def consumer(self, stream: str, name: str) -> Consumer:
        """A consumer that exists. Raises ConsumerNotFoundError, StreamNotFoundError."""
        return Consumer(self._api, consumer_info(self._api, stream, name))

    def ordered_consumer(
        self, stream: str, config: ConsumerConfig | None = None
    ) -> OrderedConsumer:
        """A reader of a stream that keeps the order and needs no acknowledgements. `config` says where it
        begins, and selects subjects; it has no name. Asks nobody yet."""
        return OrderedConsumer(self._api, stream, config or ConsumerConfig())

    def push_consumer(self, stream: str, name: str) -> PushConsumer:
        """A consumer that exists and has a deliver subject. Raises ConsumerNotFoundError,
        NotPushConsumerError."""
        return PushConsumer(self._api, consumer_info(self._api, stream, name))

    # Key-value buckets and object stores stand on this; they are imported by who uses them.

    def key_value(self, bucket: str) -> KeyValue:
        """The key-value bucket of that name. Raises `natsync.kv.BucketNotFoundError`."""
        with late_import:
            from ..kv import open_bucket

        return open_bucket(self, bucket)

    def create_key_value(self, config: KeyValueConfig | str) -> KeyValue:
        """A new key-value bucket, or the one that is there with the same configuration; a name stands for
        one with all defaults. Raises `natsync.kv.BucketExistsError` where it has another one."""
        with late_import:
            from ..kv import create_bucket

        return create_bucket(self, config)

    def update_key_value(self, config: KeyValueConfig) -> KeyValue:
        """The key-value bucket of that name with this configuration, which replaces the old one. Raises
        `natsync.kv.BucketNotFoundError`."""
        with late_import:
            from ..kv import update_bucket

        return update_bucket(self, config)

    def create_or_update_key_value(self, config: KeyValueConfig | str) -> KeyValue:
        """The key-value bucket of that name with this configuration, whether it was there or not."""
        with late_import:
            from ..kv import create_or_update_bucket

        return create_or_update_bucket(self, config)

    def delete_key_value(self, bucket: str) -> None:
        """Deletes a key-value bucket. Raises `natsync.kv.BucketNotFoundError`."""
        with late_import:
            from ..kv import delete_bucket

        delete_bucket(self, bucket)

    def key_values(self) -> Iterator[KeyValueStatus]:
        """The status of every key-value bucket, mirrors included."""
        with late_import:
            from ..kv import bucket_statuses

        return bucket_statuses(self)

    def key_value_names(self) -> Iterator[str]:
        """The names of the same buckets."""
        with late_import:
            from ..kv import bucket_names

        return bucket_names(self)

    def object_store(self, store: str) -> ObjectStore:
        """The object store of that name. Raises `natsync.object_store.StoreNotFoundError`."""
        with late_import:
            from ..object_store import open_store

        return open_store(self, store)

    def create_object_store(self, config: ObjectStoreConfig | str) -> ObjectStore:
        """A new object store, or the one that is there with the same configuration; a name stands for one
        with all defaults. Raises `natsync.object_store.StoreExistsError` where it has another one.
        """
        with late_import:
            from ..object_store import create_store

        return create_store(self, config)

    def update_object_store(self, config: ObjectStoreConfig) -> ObjectStore:
        """The object store of that name with this configuration, which replaces the old one. Raises
        `natsync.object_store.StoreNotFoundError`."""
        with late_import:
            from ..object_store import update_store

        return update_store(self, config)

    def create_or_update_object_store(self, config: ObjectStoreConfig | str) -> ObjectStore:
        """The object store of that name with this configuration, whether it was there or not."""
        with late_import:
            from ..object_store import create_or_update_store

        return create_or_update_store(self, config)

    def delete_object_store(self, store: str) -> None:
        """Deletes an object store. Raises `natsync.object_store.StoreNotFoundError`."""
        with late_import:
            from ..object_store import delete_store

        delete_store(self, store)

    def object_stores(self) -> Iterator[ObjectStoreStatus]:
        """The status of every object store."""
        with late_import:
            from ..object_store import store_statuses

        return store_statuses(self)

    def object_store_names(self) -> Iterator[str]:
        """The names of the same stores."""
        with late_import:
            from ..object_store import store_names

        return store_names(self)

    def _configure(self, verb: str, config: StreamConfig) -> Stream:
        check_kind(StreamConfig, config=config)
        self._api.check_supported(config)
        call = f"STREAM.{verb}.{check_stream_name(config.name)}"
        response = self._api.request(call, config.to_json())
        response.pop("did_create", None)  # it is true where the stream was there before, too
        info = StreamInfo.from_json(response, self._api.subject(call))
        check_kept(config, info.config)
        return Stream(self._api, info)

    def __repr__(self) -> str:
        return f"JetStream({self._api.prefix!r})"
