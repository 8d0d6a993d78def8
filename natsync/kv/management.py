"""Creates, changes, deletes and lists buckets, for the methods of `JetStream`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..jetstream import JetStream, StreamNameInUseError, StreamNotFoundError
from .bucket import KeyValue, KeyValueStatus
from .config import KeyValueConfig, is_bucket, stream_config
from .errors import BucketExistsError, BucketNotFoundError
from .naming import check_bucket, stream_name

__all__ = [
    "bucket_names",
    "bucket_statuses",
    "create_bucket",
    "create_or_update_bucket",
    "delete_bucket",
    "open_bucket",
    "update_bucket",
]


def open_bucket(js: JetStream, bucket: str) -> KeyValue:
    """The bucket of that name. Raises BucketNotFoundError, BadBucketError."""
    try:
        return KeyValue(js, js.stream(stream_name(check_bucket(bucket))).cached_info)
    except StreamNotFoundError as error:
        raise BucketNotFoundError(bucket) from error


def create_bucket(js: JetStream, config: KeyValueConfig | str) -> KeyValue:
    """Creates a bucket, or returns the existing one with the same configuration. Raises BucketExistsError."""
    config = _config(config)
    wanted = stream_config(config)
    try:
        return KeyValue(js, js.create_stream(wanted).cached_info)
    except StreamNameInUseError as error:
        raise BucketExistsError(config.bucket) from error


def update_bucket(js: JetStream, config: KeyValueConfig) -> KeyValue:
    """Replaces the configuration of the bucket of that name. Raises BucketNotFoundError."""
    wanted = stream_config(config)
    try:
        # Direct reads may have been switched on or off out of band; an update keeps that (ADR-8).
        # Servers refuse to switch off times to live, which buckets of nats.py allow without markers.
        old = js.stream(wanted.name).cached_info.config
        ttl = wanted.allow_msg_ttl or old.allow_msg_ttl
        kept = replace(wanted, allow_direct=old.allow_direct, allow_msg_ttl=ttl)
        made = js.update_stream(kept)
    except StreamNotFoundError as error:
        raise BucketNotFoundError(config.bucket) from error
    return KeyValue(js, made.cached_info)


def create_or_update_bucket(js: JetStream, config: KeyValueConfig | str) -> KeyValue:
    """Creates the bucket, or replaces the configuration of the existing one."""
    try:
        return update_bucket(js, _config(config))
    except BucketNotFoundError:
        return create_bucket(js, config)


def delete_bucket(js: JetStream, bucket: str) -> None:
    """Deletes a bucket with its content. Raises BucketNotFoundError."""
    try:
        js.delete_stream(stream_name(check_bucket(bucket)))
    except StreamNotFoundError as error:
        raise BucketNotFoundError(bucket) from error


def bucket_names(js: JetStream) -> Iterator[str]:
    """The names of all buckets, including mirrors."""
    # A name does not prove that a stream is a bucket, and mirrors have no subjects to filter by.
    return (status.bucket for status in bucket_statuses(js))


def bucket_statuses(js: JetStream) -> Iterator[KeyValueStatus]:
    """The status of every bucket, including mirrors."""
    for info in js.streams():
        if is_bucket(info.config):
            yield KeyValueStatus.of(info)


def _config(config: KeyValueConfig | str) -> KeyValueConfig:
    return KeyValueConfig(config) if isinstance(config, str) else config
