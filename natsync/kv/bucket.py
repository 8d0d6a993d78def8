"""`KeyValue`, a bucket of values by key, with plain and conditional writes and watches (ADR-8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from .._checks import check_seconds, check_unsigned
from ..core import DrainStage
from ..errors import OptionError
from ..jetstream.api import API
from ..jetstream.errors import (
    MessageNotFoundError,
    NoDirectGetError,
    NoStreamResponseError,
    StreamNotFoundError,
    WrongLastSequenceError,
)
from ..jetstream.infos import StreamInfo
from ..jetstream.ordered_consumer import OrderedConsumer
from ..jetstream.publishing import PublishOptions, publish, raise_if_gone
from ..jetstream.stored import PLAIN, StoredMsg, ask_directly, direct_get, get_msg, read_stored
from ..jetstream.stream import purge_stream, stream_info
from ..message import Data, HeadersLike
from ..options import DEFAULT
from .config import KeyValueConfig, bucket_config
from .entry import Entry, Operation, operation_of
from .errors import (
    BadBucketError,
    BucketNotFoundError,
    KeyDeletedError,
    KeyExistsError,
    KeyNotFoundError,
    WrongLastRevisionError,
)
from .naming import STREAM_PREFIX, check_filter, check_key
from .watch import Watcher, watch_config

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["KeyValue", "KeyValueStatus"]

_PUT = Operation.PUT  # a look-up in the Enum takes longer
_LOCAL = "$JS.API"
_MARKERS_KEPT = 1800.0  # nats.go: kvDefaultPurgeDeletesMarkerThreshold


@dataclass(frozen=True)
class KeyValueStatus:
    """The state of a bucket at one time. `values` also counts history and deletes; times are seconds."""

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
        """To change it, pass a copy made by `dataclasses.replace` to `update_key_value`."""
        return bucket_config(self.info.config)

    @classmethod
    def of(cls, info: StreamInfo) -> KeyValueStatus:
        """The status in the information about the stream of a bucket."""
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

    Keys consist of the letters A-Z and a-z, digits and `-/_=`, in tokens separated by dots; any other key
    raises InvalidKeyError. Values are bytes. Every call waits for the server, at most for the timeout of
    the JetStream context, and then raises RequestTimeoutError. It raises BucketNotFoundError if the bucket
    is gone, and `natsync.jetstream.APIError` for other refusals of the server.
    """

    def __init__(self, api: API, info: StreamInfo) -> None:
        config = info.config
        self.bucket = config.name.removeprefix(STREAM_PREFIX)
        """Its name."""
        if config.max_msgs_per_subject < 1:
            raise BadBucketError(self.bucket, "it has no limit of messages per subject")
        self._api = api
        self._stream = config.name
        origin = config.mirror.name.removeprefix(STREAM_PREFIX) if config.mirror else self.bucket
        # A mirror has the subjects of its origin, and writes go to the origin.
        self._prefix = self._target = f"$KV.{origin}."
        if config.mirror and config.mirror.external:
            self._target = f"{config.mirror.external.api}.{self._prefix}"
        elif api.prefix != _LOCAL:
            self._target = f"{api.prefix}.{self._prefix}"
        self._direct = config.allow_direct or config.mirror_direct
        self._last_of = api.subject(f"DIRECT.GET.{self._stream}.{self._prefix}")

    def get(self, key: str, *, revision: int | None = None) -> Entry:
        """The value of `key`, or the one it had at `revision`.

        Raises KeyNotFoundError, or its subclass KeyDeletedError if the last entry, or the entry of that
        revision, is a delete or purge. A bucket that allows direct reads may not show the last write of
        another client yet.
        """
        check_key(key)
        if revision is None:
            entry = self._last(key)
        else:  # 0 stands for a key without a value
            entry = self._at(key, revision) if _revision(revision) else None
        if entry is None:
            raise KeyNotFoundError(self.bucket, key, revision)
        if entry.operation is not _PUT:
            raise KeyDeletedError(self.bucket, key, entry.revision, entry.operation.value)
        return entry

    def put(self, key: str, value: Data) -> int:
        """Sets the value of `key` unconditionally; returns its revision."""
        return self._write(check_key(key), value)

    def create(self, key: str, value: Data, *, ttl: float | None = None) -> int:
        """Sets the value of `key` if it has none, because it is new, deleted, purged or expired. Returns
        its revision. Raises KeyExistsError if the key has a value.

        With `ttl`, the value expires after that many seconds. This needs a bucket with `limit_marker_ttl`;
        others raise MessageTTLError.
        """
        check_key(key)
        options: PublishOptions = {"expected_last_subject_seq": 0}
        if ttl is not None:
            options["ttl"] = ttl
        try:
            return self._write(key, value, **options)
        except WrongLastSequenceError as error:
            # Ask the leader: another server may not know of the delete yet.
            last = self._last(key, latest=True)
            if last and last.operation is _PUT:
                raise KeyExistsError(self.bucket, key) from error
        options["expected_last_subject_seq"] = last.revision if last else 0
        try:
            return self._write(key, value, **options)
        except WrongLastSequenceError as error:  # another client was faster
            raise KeyExistsError(self.bucket, key) from error

    def update(self, key: str, value: Data, revision: int) -> int:
        """Sets the value of `key` if its last revision is `revision` (0: the key is new); returns the new
        revision. Otherwise raises WrongLastRevisionError."""
        return self._write_over(check_key(key), value, None, revision)

    def delete(self, key: str, *, revision: int | None = None) -> None:
        """Deletes the value of `key` and keeps its history. With `revision`, deletes it only if that is the
        last revision, and otherwise raises WrongLastRevisionError. Deleting a key without a value is no
        error."""
        self._write_over(check_key(key), b"", {"KV-Operation": "DEL"}, revision)

    def purge(self, key: str, *, revision: int | None = None, ttl: float | None = None) -> None:
        """Deletes the value of `key` as `delete` does, and also its history. In a bucket with
        `limit_marker_ttl`, the entry that records the purge expires after `ttl` seconds."""
        options: PublishOptions = {"rollup": "sub"}
        if ttl is not None:
            options["ttl"] = ttl
        self._write_over(check_key(key), b"", {"KV-Operation": "PURGE"}, revision, **options)

    def keys(self, *filters: str) -> Iterator[str]:
        """Iterates over the keys that have a value, or over those that match one of `filters`; yields each
        key once. The bucket may change meanwhile."""
        watcher = self._watch(filters, DrainStage.CALL, ignore_deletes=True, meta_only=True)
        return _keys_of(watcher, self._api.timeout)

    def history(self, key: str) -> list[Entry]:
        """The stored entries of `key`, including deletes, oldest first. Raises KeyNotFoundError."""
        with self._watch((check_key(key),), DrainStage.CALL, include_history=True) as watcher:
            found = list(watcher.initial(self._api.timeout))
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
        """Watches all keys, or those that match one of `keys`: yields the last entry of each key, then None,
        then each change when it happens. In `keys`, `*` stands for one token and a final `>` for one or more.

        `include_history` begins with all stored entries, `resume_from_revision` with the first entry that is
        not older than that revision, and `updates_only` with the None. `ignore_deletes` leaves out deletes
        and purges; `meta_only` leaves out the values.
        """
        return self._watch(
            keys,
            None,
            include_history=include_history,
            updates_only=updates_only,
            ignore_deletes=ignore_deletes,
            meta_only=meta_only,
            resume_from_revision=resume_from_revision,
        )

    def _watch(
        self,
        keys: tuple[str, ...],
        stage: DrainStage | None,
        *,
        include_history: bool = False,
        updates_only: bool = False,
        ignore_deletes: bool = False,
        meta_only: bool = False,
        resume_from_revision: int | None = None,
    ) -> Watcher:
        """Watches as `watch` does; a drain of the connection ends it in `stage`."""
        config = watch_config(
            [self._prefix + check_filter(pattern) for pattern in keys or (">",)],
            include_history=include_history,
            updates_only=updates_only,
            meta_only=meta_only,
            first=None if resume_from_revision is None else _revision(resume_from_revision),
        )
        try:
            messages = OrderedConsumer(self._api, self._stream, config, stage).messages()
        except StreamNotFoundError as error:
            raise BucketNotFoundError(self.bucket) from error
        return Watcher(
            self._api,
            self.bucket,
            self._stream,
            messages,
            prefix=self._prefix,
            ignore_deletes=ignore_deletes,
            updates_only=updates_only,
        )

    def purge_deletes(self, *, older_than: float = _MARKERS_KEPT) -> int:
        """Removes what is left of deleted and purged keys; returns the number of these keys.

        Entries that record a delete of the last `older_than` seconds stay, so that watchers which are
        disconnected now still see it; a negative number removes them, too.
        """
        check_seconds(older_than=older_than)
        try:
            limit = datetime.now(timezone.utc) - timedelta(seconds=older_than)
        except OverflowError:
            raise OptionError("older_than", "is out of the range of dates") from None
        with self._watch((), DrainStage.CALL, meta_only=True) as watcher:
            entries = watcher.initial(self._api.timeout)
            gone = [entry for entry in entries if entry.operation is not _PUT]
        for entry in gone:
            keep = older_than >= 0 and entry.created > limit
            # By sequence, so that a new value of the key stays.
            seq = entry.revision + (not keep)
            purge_stream(self._api, self._stream, subject=self._prefix + entry.key, seq=seq)
        return len(gone)

    def status(self) -> KeyValueStatus:
        """The fill level and the configuration of the bucket."""
        try:
            return KeyValueStatus.of(stream_info(self._api, self._stream))
        except StreamNotFoundError as error:
            raise BucketNotFoundError(self.bucket) from error

    # A bucket that allows direct reads is read from any of its servers or mirrors, which is fast, but may not
    # show the last write yet (ADR-8, "Consistency Guarantees"; ADR-31). Otherwise, and if the latest entry is
    # required, the leader of its stream answers.

    def _last(self, key: str, *, latest: bool = False) -> Entry | None:
        """The last entry of `key`, whatever its operation; with `latest`, the leader is asked."""
        try:
            if self._direct and not latest:
                try:
                    return self._last_directly(key)
                except NoDirectGetError:
                    # The bucket is gone or no longer allows direct reads: the leader knows.
                    self._direct = False
            return self._entry(
                get_msg(self._api, self._stream, {"last_by_subj": self._prefix + key})
            )
        except MessageNotFoundError:
            return None
        except StreamNotFoundError as error:
            raise BucketNotFoundError(self.bucket) from error

    def _last_directly(self, key: str) -> Entry:
        wire = self._last_of + key
        msg = ask_directly(self._api, self._stream, wire, b"")
        plain = PLAIN.fullmatch(msg.header_block)
        if not plain:
            return self._entry(read_stored(msg, wire))
        data = msg.data  # a message without headers of its own is a value
        created = plain[4].decode()
        return Entry(self.bucket, key, data, int(plain[3]), 0, _PUT, len(data), created)

    def _at(self, key: str, revision: int) -> Entry | None:
        """The entry of `key` with this revision; None if the revision does not exist or has another key."""
        request = {"seq": revision}
        try:
            try:
                if not self._direct:
                    raise NoDirectGetError(self._stream)
                msg = direct_get(self._api, self._stream, request)
            except NoDirectGetError:
                self._direct = False
                msg = get_msg(self._api, self._stream, request)
        except MessageNotFoundError:
            return None
        except StreamNotFoundError as error:
            raise BucketNotFoundError(self.bucket) from error
        return self._entry(msg) if msg.subject == self._prefix + key else None

    def _entry(self, msg: StoredMsg) -> Entry:
        key, operation = msg.subject[len(self._prefix) :], operation_of(msg.headers)
        return Entry(self.bucket, key, msg.data, msg.seq, 0, operation, len(msg.data), msg.time)

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
            return publish(self._api, self._target + key, value, headers, DEFAULT, options).seq
        except NoStreamResponseError as error:
            raise_if_gone(self.status, BucketNotFoundError, error)
            raise

    def __repr__(self) -> str:
        return f"KeyValue({self.bucket!r})"


def _keys_of(watcher: Watcher, timeout: float) -> Iterator[str]:
    seen: set[str] = set()  # a key that is written meanwhile appears again
    with watcher:
        for entry in watcher.initial(timeout):
            if entry.key not in seen:
                seen.add(entry.key)
                yield entry.key


def _revision(revision: int) -> int:
    check_unsigned(revision=revision)
    return revision
