"""`ObjectStoreStatus`: how an object store is configured, and how full it is."""

from __future__ import annotations

from dataclasses import dataclass

from ..jetstream import StreamInfo
from .config import ObjectStoreConfig, store_config

__all__ = ["ObjectStoreStatus"]


@dataclass(frozen=True)
class ObjectStoreStatus:
    """An object store at one moment. `size` is bytes on disk or in memory. `config` can be changed with
    `dataclasses.replace`, for `update_object_store`."""

    store: str
    size: int
    sealed: bool
    config: ObjectStoreConfig
    info: StreamInfo
    backing_store: str = "JetStream"

    @classmethod
    def of(cls, info: StreamInfo) -> ObjectStoreStatus:
        """What the stream of a store says."""
        config = store_config(info.config)
        return cls(config.store, info.state.bytes, info.config.sealed, config, info)
