"""`ObjectStoreConfig`: an object store, and the configuration of the stream that it becomes (ADR-20)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import get_args

from .._checks import INT64, check_count, check_kind, check_range, check_seconds, check_word
from ..errors import OptionError
from ..jetstream.configs import Placement, StorageType, StreamConfig
from ..jetstream.infos import StreamInfo
from .naming import STREAM_PREFIX, check_store_name, stream_name

__all__ = ["ObjectStoreConfig", "ObjectStoreStatus", "store_config", "stream_config"]


@dataclass(frozen=True)
class ObjectStoreConfig:
    """The configuration of an object store. Objects expire `ttl` seconds later; 0 and -1 mean no limit."""

    bucket: str
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
        check_store_name(self.bucket)
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
    bucket = check_store_name(config.bucket)
    return StreamConfig(
        stream_name(bucket),
        description=config.description,
        subjects=(f"$O.{bucket}.C.>", f"$O.{bucket}.M.>"),
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


@dataclass(frozen=True)
class ObjectStoreStatus:
    """An object store at one moment. `size` is bytes on disk or in memory. `config` can be changed with
    `dataclasses.replace`, for `update_object_store`."""

    bucket: str
    size: int
    sealed: bool
    config: ObjectStoreConfig
    info: StreamInfo
    backing_store: str = "JetStream"

    @classmethod
    def of(cls, info: StreamInfo) -> ObjectStoreStatus:
        """The status in the information about the stream of a store."""
        config = store_config(info.config)
        return cls(config.bucket, info.state.bytes, info.config.sealed, config, info)
