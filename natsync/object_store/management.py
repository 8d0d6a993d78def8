"""`Stores`: opens, creates, changes, deletes and lists object stores, for the methods of `JetStream`."""

from __future__ import annotations

from collections.abc import Iterator

from ..jetstream.api import API
from ..jetstream.errors import StreamNameInUseError, StreamNotFoundError
from ..jetstream.infos import StreamInfo
from ..jetstream.stream import configure_stream, delete_stream, list_streams, stream_names
from .config import ObjectStoreConfig, ObjectStoreStatus, stream_config
from .errors import StoreExistsError, StoreNotFoundError
from .naming import STREAM_PREFIX, check_store_name, stream_name
from .store import ObjectStore, open_store

__all__ = ["Stores"]


class Stores:
    """The object stores that the JetStream API `api` reaches. `JetStream` documents the methods."""

    def __init__(self, api: API) -> None:
        self._api = api

    def open(self, bucket: str) -> ObjectStore:
        """See `JetStream.object_store`."""
        return open_store(self._api, bucket)

    def bind(self, bucket: str) -> ObjectStore:
        """See `JetStream.bind_object_store`."""
        return ObjectStore(self._api, StreamInfo(stream_config(ObjectStoreConfig(bucket))))

    def create(self, config: ObjectStoreConfig | str) -> ObjectStore:
        """See `JetStream.create_object_store`."""
        config = _config(config)
        try:
            return ObjectStore(
                self._api, configure_stream(self._api, "CREATE", stream_config(config))
            )
        except StreamNameInUseError as error:
            raise StoreExistsError(config.bucket) from error

    def update(self, config: ObjectStoreConfig) -> ObjectStore:
        """See `JetStream.update_object_store`."""
        try:
            return ObjectStore(
                self._api, configure_stream(self._api, "UPDATE", stream_config(config))
            )
        except StreamNotFoundError as error:
            raise StoreNotFoundError(config.bucket) from error

    def create_or_update(self, config: ObjectStoreConfig | str) -> ObjectStore:
        """See `JetStream.create_or_update_object_store`."""
        try:
            return self.update(_config(config))
        except StoreNotFoundError:
            return self.create(config)

    def delete(self, bucket: str) -> None:
        """See `JetStream.delete_object_store`."""
        try:
            delete_stream(self._api, stream_name(check_store_name(bucket)))
        except StreamNotFoundError as error:
            raise StoreNotFoundError(bucket) from error

    def names(self) -> Iterator[str]:
        """See `JetStream.object_store_names`."""
        for name in stream_names(self._api, "$O.*.C.>"):
            if name.startswith(STREAM_PREFIX):
                yield name.removeprefix(STREAM_PREFIX)

    def statuses(self) -> Iterator[ObjectStoreStatus]:
        """See `JetStream.object_stores`."""
        for info in list_streams(self._api, "$O.*.C.>"):
            if info.config.name.startswith(STREAM_PREFIX):
                yield ObjectStoreStatus.of(info)


def _config(config: ObjectStoreConfig | str) -> ObjectStoreConfig:
    return ObjectStoreConfig(config) if isinstance(config, str) else config
