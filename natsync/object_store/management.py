"""Creates, changes, deletes and lists object stores, for the methods of `JetStream`."""

from __future__ import annotations

from collections.abc import Iterator

from ..jetstream import JetStream, StreamNameInUseError, StreamNotFoundError
from .config import ObjectStoreConfig, stream_config
from .errors import StoreExistsError, StoreNotFoundError
from .naming import STREAM_PREFIX, check_store_name, stream_name
from .status import ObjectStoreStatus
from .store import ObjectStore

__all__ = [
    "create_or_update_store",
    "create_store",
    "delete_store",
    "store_names",
    "store_statuses",
    "update_store",
]


def create_store(js: JetStream, config: ObjectStoreConfig | str) -> ObjectStore:
    """Creates a store, or returns the existing one with the same configuration. Raises StoreExistsError."""
    config = ObjectStoreConfig(config) if isinstance(config, str) else config
    try:
        return ObjectStore(js, js.create_stream(stream_config(config)).cached_info)
    except StreamNameInUseError as error:
        raise StoreExistsError(config.store) from error


def update_store(js: JetStream, config: ObjectStoreConfig) -> ObjectStore:
    """Replaces the configuration of the store of that name. Raises StoreNotFoundError."""
    try:
        return ObjectStore(js, js.update_stream(stream_config(config)).cached_info)
    except StreamNotFoundError as error:
        raise StoreNotFoundError(config.store) from error


def create_or_update_store(js: JetStream, config: ObjectStoreConfig | str) -> ObjectStore:
    """Creates the store, or replaces the configuration of the existing one."""
    config = ObjectStoreConfig(config) if isinstance(config, str) else config
    try:
        return update_store(js, config)
    except StoreNotFoundError:
        return create_store(js, config)


def delete_store(js: JetStream, store: str) -> None:
    """Deletes a store with its content. Raises StoreNotFoundError."""
    try:
        js.delete_stream(stream_name(check_store_name(store)))
    except StreamNotFoundError as error:
        raise StoreNotFoundError(store) from error


def store_names(js: JetStream) -> Iterator[str]:
    """The names of all stores."""
    for name in js.stream_names("$O.*.C.>"):
        if name.startswith(STREAM_PREFIX):
            yield name.removeprefix(STREAM_PREFIX)


def store_statuses(js: JetStream) -> Iterator[ObjectStoreStatus]:
    """The status of every store."""
    for info in js.streams("$O.*.C.>"):
        if info.config.name.startswith(STREAM_PREFIX):
            yield ObjectStoreStatus.of(info)
