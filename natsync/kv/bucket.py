"""`KeyValue`, a bucket of values by key, with plain and conditional writes and watches (ADR-8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from .._checks import check_count, check_seconds
from ..errors import OptionError
from ..jetstream import (
    JetStream,
    NoStreamResponseError,
    StreamInfo,
    StreamNotFoundError,
    WrongLastSequenceError,
)
from ..jetstream.publishing import PublishOptions, raise_if_gone
from ..message import Data, HeadersLike
from .config import KeyValueConfig, bucket_config
from .entry import Entry, Operation
from .errors import (
    BadBucketError,
    BucketNotFoundError,
    KeyDeletedError,
    KeyExistsError,
    KeyNotFoundError,
    WrongLastRevisionError,
)
from .naming import STREAM_PREFIX, check_filter, check_key
from .reading import BucketReader
from .watch import Watcher, watch_config

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["KeyValue", "KeyValueStatus"]

_PUT = Operation.PUT
_LOCAL = "$JS.API"
_MARKERS_KEPT = 1800.0  # nats.go: kvDefaultPurgeDeletesMarkerThreshold


@dataclass(frozen=True)
class KeyValueStatus:
    """A bucket at one moment. `values` counts history and deletes, too; times are seconds."""

    bucket: str
    values: int
    bytes: int
    history: int
    ttl: float
    limit_marker_ttl: float
    compressed: bool
    info: StreamInfo
    backing_store: str = "JetStream"

    @property
    def config(self) -> KeyValueConfig:
        """Its configuration: change it with `dataclasses.replace`, for `update_key_value`."""
        return bucket_config(self.info.config)

    @classmethod
    def of(cls, info: StreamInfo) -> KeyValueStatus:
        """What the stream of a bucket says."""
        config = info.config
        return cls(
            config.name.removeprefix(STREAM_PREFIX),
            info.state.messages,
            info.state.bytes,
            config.max_msgs_per_subject,
            config.max_age,
            config.subject_delete_marker_ttl,
            config.compression != "none",
            info,
        )


class KeyValue:
    """A bucket, for any number of threads. Made by `JetStream.key_value` and `create_key_value`.

    Keys are letters A-Z and a-z, digits and `-/_=`, in tokens with dots in between; another key
    raises InvalidKeyError. Values are bytes. Every call waits for the server as long as the context
    says, and raises RequestTimeoutError then; BucketNotFoundError where the bucket is gone; and
    `natsync.jetstream.APIError` for what else the server refuses.
    """

    def __init__(self, js: JetStream, info: StreamInfo) -> None:
        config = info.config
        self.bucket = config.name.removeprefix(STREAM_PREFIX)
        """Its name."""
        if config.max_msgs_per_subject < 1:
            raise BadBucketError(self.bucket, "it has no limit of messages per subject")
        self._js = js
        self._stream = config.name
        origin = config.mirror.name.removeprefix(STREAM_PREFIX) if config.mirror else self.bucket
        # A mirror keeps the subjects of its origin, and what is written goes there.
        self._prefix = self._target = f"$KV.{origin}."
        if config.mirror and config.mirror.external:
            self._target = f"{config.mirror.external.api}.{self._prefix}"
        elif js.api.prefix != _LOCAL:
            self._target = f"{js.api.prefix}.{self._prefix}"
        direct = config.allow_direct or config.mirror_direct
        self._reader = BucketReader(js.api, self.bucket, self._stream, self._prefix, direct)

    def get(self, key: str, *, revision: int | None = None) -> Entry:
        """The value of `key`, or the one it had at `revision`.

        Raises KeyNotFoundError; KeyDeletedError, which is one, where the last entry, or that of the
        revision, is a delete or purge. A bucket that is read directly may be behind the last write
        by another client.
        """
        check_key(key)
        if revision is None:
            entry = self._reader.last(key)
        else:  # 0 stands for a key without a value
            entry = self._reader.at(key, revision) if _revision(revision) else None
        if entry is None:
            raise KeyNotFoundError(self.bucket, key)
        if entry.operation is not _PUT:
            raise KeyDeletedError(self.bucket, key, entry.revision, entry.operation.value)
        return entry

    def put(self, key: str, value: Data) -> int:
        """Sets the value of `key` unconditionally; returns its revision."""
        return self._write(check_key(key), value)

    def create(self, key: str, value: Data, *, ttl: float | None = None) -> int:
        """Sets the value of `key` if it has none: it is new, was deleted, was purged or has
        expired. Returns its revision; else raises KeyExistsError.

        It expires after `ttl` seconds, in a bucket with `limit_marker_ttl`; MessageTTLError in others.
        """
        check_key(key)
        options: PublishOptions = {"expected_last_subject_seq": 0}
        if ttl is not None:
            options["ttl"] = ttl
        try:
            return self._write(key, value, **options)
        except WrongLastSequenceError as error:
            # The leader's word: a server that is behind might not know of the delete.
            last = self._reader.last(key, latest=True)
            if last and last.operation is _PUT:
                raise KeyExistsError(self.bucket, key) from error
        options["expected_last_subject_seq"] = last.revision if last else 0
        try:
            return self._write(key, value, **options)
        except WrongLastSequenceError as error:  # somebody else was faster
            raise KeyExistsError(self.bucket, key) from error

    def update(self, key: str, value: Data, revision: int) -> int:
        """Sets the value of `key` if its last revision is `revision` (0: it has none); returns the
        new one. Else raises WrongLastRevisionError."""
        return self._write_over(check_key(key), value, None, revision)

    def delete(self, key: str, *, revision: int | None = None) -> None:
        """Deletes the value of `key`; its history stays. With `revision`, only if that is its last
        one, else raises WrongLastRevisionError. Whether there was a value is not asked."""
        self._write_over(check_key(key), b"", {"KV-Operation": "DEL"}, revision)

    def purge(self, key: str, *, revision: int | None = None, ttl: float | None = None) -> None:
        """As `delete`, and deletes its history. The entry that tells of the purge goes after `ttl`
        seconds, in a bucket with `limit_marker_ttl`."""
        options: PublishOptions = {"rollup": "sub"}
        if ttl is not None:
            options["ttl"] = ttl
        self._write_over(check_key(key), b"", {"KV-Operation": "PURGE"}, revision, **options)

    def keys(self, *filters: str) -> Iterator[str]:
        """The keys that have a value, or those that match any of `filters`, as they come; each
        once. The bucket may change meanwhile."""
        return _keys_of(
            self.watch(*filters, ignore_deletes=True, meta_only=True), self._js.api.timeout
        )

    def history(self, key: str) -> list[Entry]:
        """The entries of `key` that are kept, deletes included, the oldest first. Raises
        KeyNotFoundError."""
        with self.watch(check_key(key), include_history=True) as watcher:
            found = list(watcher.initial(self._js.api.timeout))
        if not found:
            raise KeyNotFoundError(self.bucket, key)
        return found

    def watch(
        self,
        *keys: str,
        include_history: bool = False,
        updates_only: bool = False,
        ignore_deletes: bool = False,
        meta_only: bool = False,
        resume_from_revision: int | None = None,
    ) -> Watcher:
        """The last entry of every key, or of those that match any of `keys`; then None; then each
        change, as it comes. In a key to match, `*` is any token and a last `>` any tokens.

        `include_history` begins with all entries that are kept, `resume_from_revision` with the
        first one that is not older; `updates_only` with the None. `ignore_deletes` leaves deletes
        and purges out, `meta_only` the values.
        """
        config = watch_config(
            [self._prefix + check_filter(pattern) for pattern in keys or (">",)],
            include_history=include_history,
            updates_only=updates_only,
            meta_only=meta_only,
            first=None if resume_from_revision is None else _revision(resume_from_revision),
        )
        try:
            messages = self._js.ordered_consumer(self._stream, config).messages()
        except StreamNotFoundError as error:
            raise BucketNotFoundError(self.bucket) from error
        return Watcher(
            self._js.api,
            self.bucket,
            self._prefix,
            messages,
            ignore_deletes=ignore_deletes,
            updates_only=updates_only,
        )

    def purge_deletes(self, *, older_than: float = _MARKERS_KEPT) -> int:
        """Removes what is left of deleted and purged keys; returns how many keys that were.

        Entries that tell of a delete less than `older_than` seconds ago stay, so that watchers
        which are away hear of it; a negative number removes all of them.
        """
        check_seconds(older_than=older_than)
        with self.watch(meta_only=True) as watcher:
            entries = watcher.initial(self._js.api.timeout)
            gone = [entry for entry in entries if entry.operation is not _PUT]
        limit = datetime.now(timezone.utc) - timedelta(seconds=older_than)
        stream = self._js.stream(self._stream)
        for entry in gone:
            keep = older_than >= 0 and entry.created > limit
            # By sequence: the key may have a new value by now, which stays.
            stream.purge(subject=self._prefix + entry.key, seq=entry.revision + (not keep))
        return len(gone)

    def status(self) -> KeyValueStatus:
        """How full it is, and how it is configured."""
        try:
            return KeyValueStatus.of(self._js.stream(self._stream).cached_info)
        except StreamNotFoundError as error:
            raise BucketNotFoundError(self.bucket) from error

    def _write_over(
        self,
        key: str,
        value: Data,
        headers: HeadersLike | None,
        revision: int | None,
        **options: Unpack[PublishOptions],
    ) -> int:
        if revision is None:
            return self._write(key, value, headers, **options)
        options["expected_last_subject_seq"] = _revision(revision)
        try:
            return self._write(key, value, headers, **options)
        except WrongLastSequenceError as error:
            raise WrongLastRevisionError(self.bucket, key, revision, error.last_seq) from error

    def _write(
        self,
        key: str,
        value: Data,
        headers: HeadersLike | None = None,
        **options: Unpack[PublishOptions],
    ) -> int:
        try:
            return self._js.publish(self._target + key, value, headers=headers, **options).seq
        except NoStreamResponseError as error:
            raise_if_gone(self.status, BucketNotFoundError, error)
            raise

    def __repr__(self) -> str:
        return f"KeyValue({self.bucket!r})"


def _keys_of(watcher: Watcher, timeout: float) -> Iterator[str]:
    seen: set[str] = set()  # a key that is written meanwhile comes again
    with watcher:
        for entry in watcher.initial(timeout):
            if entry.key not in seen:
                seen.add(entry.key)
                yield entry.key


def _revision(revision: int) -> int:
    check_count(revision=revision)
    if revision < 0:
        raise OptionError("revision", "must not be negative")
    return revision
