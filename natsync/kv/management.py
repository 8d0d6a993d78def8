"""`Buckets`: opens, creates, changes, deletes and lists buckets, for the methods of `JetStream`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..jetstream.api import API
from ..jetstream.errors import StreamNameInUseError, StreamNotFoundError
from ..jetstream.infos import StreamInfo
from ..jetstream.stream import configure_stream, delete_stream, list_streams, stream_info
from .bucket import KeyValue, KeyValueStatus
from .config import KeyValueConfig, is_bucket, stream_config
from .errors import BucketExistsError, BucketNotFoundError
from .naming import check_bucket, stream_name

__all__ = ["Buckets"]


class Buckets:
    """The buckets that the JetStream API `api` reaches. `JetStream` documents the methods."""

    def __init__(self, api: API) -> None:
        self._api = api

    def open(self, bucket: str) -> KeyValue:
        """See `JetStream.key_value`."""
        try:
            return KeyValue(self._api, stream_info(self._api, stream_name(check_bucket(bucket))))
        except StreamNotFoundError as error:
            raise BucketNotFoundError(bucket) from error

    def bind(self, bucket: str) -> KeyValue:
        """See `JetStream.bind_key_value`."""
        config = stream_config(KeyValueConfig(bucket))
        return KeyValue(self._api, StreamInfo(config))

    def create(self, config: KeyValueConfig | str) -> KeyValue:
        """See `JetStream.create_key_value`."""
        config = _config(config)
        try:
            return KeyValue(self._api, configure_stream(self._api, "CREATE", stream_config(config)))
        except StreamNameInUseError as error:
            raise BucketExistsError(config.bucket) from error

    def update(self, config: KeyValueConfig) -> KeyValue:
        """See `JetStream.update_key_value`."""
        wanted = stream_config(config)
        try:
            # Direct reads may have been switched on or off out of band; an update keeps that (ADR-8).
            # Servers refuse to switch off times to live, which buckets of nats.py allow without markers.
            old = stream_info(self._api, wanted.name).config
            ttl = wanted.allow_msg_ttl or old.allow_msg_ttl
            kept = replace(wanted, allow_direct=old.allow_direct, allow_msg_ttl=ttl)
            return KeyValue(self._api, configure_stream(self._api, "UPDATE", kept))
        except StreamNotFoundError as error:
            raise BucketNotFoundError(config.bucket) from error

    def create_or_update(self, config: KeyValueConfig | str) -> KeyValue:
        """See `JetStream.create_or_update_key_value`."""
        try:
            return self.update(_config(config))
        except BucketNotFoundError:
            return self.create(config)

    def delete(self, bucket: str) -> None:
        """See `JetStream.delete_key_value`."""
        try:
            delete_stream(self._api, stream_name(check_bucket(bucket)))
        except StreamNotFoundError as error:
            raise BucketNotFoundError(bucket) from error

    def names(self) -> Iterator[str]:
        """See `JetStream.key_value_names`."""
        # A name does not prove that a stream is a bucket, and mirrors have no subjects to filter by.
        return (status.bucket for status in self.statuses())

    def statuses(self) -> Iterator[KeyValueStatus]:
        """See `JetStream.key_values`."""
        for info in list_streams(self._api):
            if is_bucket(info.config):
                yield KeyValueStatus.of(info)


def _config(config: KeyValueConfig | str) -> KeyValueConfig:
    return KeyValueConfig(config) if isinstance(config, str) else config
