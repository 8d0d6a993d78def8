"""`ObjectStoreStatus`: how an object store is configured, and how full it is."""

from __future__ import annotations

from dataclasses import dataclass

from ..jetstream import StreamInfo
from .naming import STREAM_PREFIX

__all__ = ["ObjectStoreStatus"]


@dataclass(frozen=True)
class ObjectStoreStatus:
    """An object store at one moment. `size` is bytes on disk or in memory, `ttl` seconds."""

    store: str
    description: str
    size: int
    ttl: float
    storage: str
    replicas: int
    sealed: bool
    compressed: bool
    metadata: dict[str, str]
    info: StreamInfo
    backing_store: str = "JetStream"

    @classmethod
    def of(cls, info: StreamInfo) -> ObjectStoreStatus:
        """What the stream of a store says."""
        config = info.config
        return cls(
            config.name.removeprefix(STREAM_PREFIX),
            config.description,
            info.state.bytes,
            config.max_age,
            config.storage,
            config.num_replicas,
            config.sealed,
            config.compression != "none",
            {key: value for key, value in config.metadata.items() if not key.startswith("_nats.")},
            info,
        )
