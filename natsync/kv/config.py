"""`KeyValueConfig`: a bucket, and the configuration of the stream that it becomes (ADR-8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import get_args

from .._checks import INT32, INT64, check_count, check_kind, check_range, check_seconds, check_word
from ..errors import OptionError
from ..jetstream.configs import (
    Placement,
    RePublish,
    StorageType,
    StreamConfig,
    StreamSource,
    SubjectTransform,
)
from .naming import STREAM_PREFIX, check_bucket, stream_name

__all__ = ["MAX_HISTORY", "KeyValueConfig", "bucket_config", "is_bucket", "stream_config"]

MAX_HISTORY = 64
_DUPLICATE_WINDOW = 120.0


@dataclass(frozen=True)
class KeyValueConfig:
    """The configuration of a bucket. Times are seconds; 0 and -1 mean no limit.

    The bucket keeps the last `history` values of each key, at most 64. Values expire after `ttl`.
    `limit_marker_ttl` (server 2.11) allows a time to live for single keys; when a key expires, a marker
    stays for that long, so that watchers see it. `mirror` makes this bucket a read-only copy of another
    one, `sources` copies the keys of others into it; both name buckets, with or without `KV_`.
    """

    bucket: str
    _: KW_ONLY
    description: str = ""
    history: int = 1
    ttl: float = 0.0
    limit_marker_ttl: float = 0.0
    max_bytes: int = -1
    max_value_size: int = -1
    storage: StorageType = "file"
    replicas: int = 1
    placement: Placement | None = None
    republish: RePublish | None = None
    mirror: StreamSource | None = None
    sources: Sequence[StreamSource] = ()
    compression: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_bucket(self.bucket)
        check_count(history=self.history, replicas=self.replicas)
        check_count(max_bytes=self.max_bytes, max_value_size=self.max_value_size)
        check_seconds(ttl=self.ttl, limit_marker_ttl=self.limit_marker_ttl)
        check_word(get_args(StorageType), "storage", self.storage)
        check_range(0, INT64, "replicas", self.replicas)
        check_range(-1, INT64, "max_bytes", self.max_bytes)
        check_range(-1, INT32, "max_value_size", self.max_value_size)
        if not 1 <= self.history <= MAX_HISTORY:
            raise OptionError("history", f"must be 1 to {MAX_HISTORY}, not {self.history}")
        if self.ttl < 0:
            raise OptionError("ttl", "must not be negative")
        if self.limit_marker_ttl and self.limit_marker_ttl < 1:
            raise OptionError("limit_marker_ttl", "must be at least 1 second")
        if self.mirror and self.sources:
            raise OptionError("sources", "excludes mirror")


def stream_config(config: KeyValueConfig) -> StreamConfig:
    """The stream of a bucket."""
    check_kind(KeyValueConfig, config=config)
    bucket = check_bucket(config.bucket)
    window = min(config.ttl, _DUPLICATE_WINDOW) if config.ttl else _DUPLICATE_WINDOW
    made = StreamConfig(
        stream_name(bucket),
        description=config.description,
        subjects=() if config.mirror else (f"$KV.{bucket}.>",),
        max_msgs_per_subject=config.history,
        max_age=config.ttl,
        max_bytes=config.max_bytes or -1,
        max_msg_size=config.max_value_size or -1,
        discard="new",
        storage=config.storage,
        num_replicas=config.replicas,
        duplicate_window=window,
        placement=config.placement,
        republish=config.republish,
        allow_rollup_hdrs=True,
        deny_delete=True,
        allow_direct=True,
        compression="s2" if config.compression else "none",
        metadata=config.metadata,
        allow_msg_ttl=bool(config.limit_marker_ttl),
        subject_delete_marker_ttl=config.limit_marker_ttl,
    )
    if config.mirror:
        return replace(made, mirror=_named(config.mirror), mirror_direct=True)
    return replace(made, sources=[_source(source, bucket) for source in config.sources])


def is_bucket(config: StreamConfig) -> bool:
    """Whether a stream can be a bucket. Other streams may have a name with the prefix of buckets."""
    if not config.name.startswith(STREAM_PREFIX) or config.max_msgs_per_subject < 1:
        return False
    return bool(config.mirror) or any(subject.startswith("$KV.") for subject in config.subjects)


def bucket_config(config: StreamConfig) -> KeyValueConfig:
    """The bucket configuration that makes this stream. Raises ValueError if no bucket can have it."""
    return KeyValueConfig(
        config.name.removeprefix(STREAM_PREFIX),
        description=config.description,
        history=config.max_msgs_per_subject,
        ttl=config.max_age,
        limit_marker_ttl=config.subject_delete_marker_ttl,
        max_bytes=config.max_bytes,
        max_value_size=config.max_msg_size,
        storage=config.storage,
        replicas=config.num_replicas,
        placement=config.placement,
        republish=config.republish,
        mirror=config.mirror,
        sources=config.sources,
        compression=config.compression != "none",
        metadata=_own_metadata(config),
    )


def _own_metadata(config: StreamConfig) -> dict[str, str]:
    """The metadata from the user, without what the server adds (ADR-44)."""
    return {key: value for key, value in config.metadata.items() if not key.startswith("_nats.")}


def _named(source: StreamSource) -> StreamSource:
    if source.name.startswith(STREAM_PREFIX):
        return source
    return replace(source, name=stream_name(check_bucket(source.name)))


def _source(source: StreamSource, bucket: str) -> StreamSource:
    """A bucket to copy from, with its keys moved to the subjects of `bucket`. A source with transforms of
    its own already has the name of a stream (ADR-57)."""
    if source.subject_transforms:
        return source
    named = _named(source)
    origin = named.name.removeprefix(STREAM_PREFIX)
    if named.external and origin == bucket:
        return named
    transform = SubjectTransform(f"$KV.{origin}.>", f"$KV.{bucket}.>")
    return replace(named, subject_transforms=[transform])
