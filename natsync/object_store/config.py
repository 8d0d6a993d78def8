"""`ObjectStoreConfig`: an object store, and the configuration of the stream that it becomes (ADR-20)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import get_args

from .._checks import INT64, check_count, check_kind, check_range, check_seconds, check_word
from ..errors import OptionError
from ..jetstream.configs import Placement, StorageType, StreamConfig
from .naming import STREAM_PREFIX, check_store_name, stream_name

__all__ = ["ObjectStoreConfig", "store_config", "stream_config"]


@dataclass(frozen=True)
class ObjectStoreConfig:
    """The configuration of an object store. Objects expire `ttl` seconds later; 0 and -1 mean no limit."""

    store: str
    _: KW_ONLY
    description: str = ""
    ttl: float = 0.0
    max_bytes: int = -1
    storage: StorageType = "file"
    replicas: int = 1
    placement: Placement | None = None
    compression: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_store_name(self.store)
        check_count(max_bytes=self.max_bytes, replicas=self.replicas)
        check_seconds(ttl=self.ttl)
        check_word(get_args(StorageType), "storage", self.storage)
        check_range(0, INT64, "replicas", self.replicas)
        check_range(-1, INT64, "max_bytes", self.max_bytes)
        if self.ttl < 0:
            raise OptionError("ttl", "must not be negative")


def stream_config(config: ObjectStoreConfig) -> StreamConfig:
    """The stream of an object store."""
    check_kind(ObjectStoreConfig, config=config)
    store = check_store_name(config.store)
    return StreamConfig(
        stream_name(store),
        description=config.description,
        subjects=(f"$O.{store}.C.>", f"$O.{store}.M.>"),
        max_age=config.ttl,
        max_bytes=config.max_bytes or -1,
        discard="new",
        storage=config.storage,
        num_replicas=config.replicas,
        placement=config.placement,
        allow_rollup_hdrs=True,
        allow_direct=True,
        compression="s2" if config.compression else "none",
        metadata=config.metadata,
    )


def store_config(config: StreamConfig) -> ObjectStoreConfig:
    """The store configuration that makes this stream, without metadata that the server adds (ADR-44)."""
    own = {key: value for key, value in config.metadata.items() if not key.startswith("_nats.")}
    return ObjectStoreConfig(
        config.name.removeprefix(STREAM_PREFIX),
        description=config.description,
        ttl=config.max_age,
        max_bytes=config.max_bytes,
        storage=config.storage,
        replicas=config.num_replicas,
        placement=config.placement,
        compression=config.compression != "none",
        metadata=own,
    )
