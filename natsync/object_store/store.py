"""`ObjectStore`: contents of any size under names of any kind, in chunks on a stream (ADR-20)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone

from .._checks import check_kind
from ..core import DrainStage
from ..errors import (
    ConnectionReconnectingError,
    Error,
    NoRespondersError,
    OptionError,
    RequestTimeoutError,
)
from ..jetstream.api import API
from ..jetstream.configs import ConsumerConfig, DeliverPolicy
from ..jetstream.errors import (
    MessageNotFoundError,
    NoDirectGetError,
    NoStreamResponseError,
    StreamNotFoundError,
    WrongLastSequenceError,
)
from ..jetstream.infos import StreamInfo
from ..jetstream.ordered_consumer import OrderedConsumer
from ..jetstream.ordered_reader import OrderedMessages
from ..jetstream.publishing import PublishOptions, publish, raise_if_gone
from ..jetstream.stored import direct_get, get_msg
from ..jetstream.stream import configure_stream, purge_stream, stream_info
from ..options import DEFAULT
from .config import ObjectStoreStatus
from .errors import (
    BadObjectMetaError,
    CannotGetBucketLinkError,
    LinkNotAllowedError,
    ObjectExistsError,
    ObjectNotFoundError,
    StoreNotFoundError,
    UpdateMetaDeletedError,
)
from .info import ObjectInfo, ObjectLink, ObjectMeta, ObjectOptions, digest_of, read_info
from .naming import (
    STREAM_PREFIX,
    check_object_name,
    check_store_name,
    chunk_subject,
    meta_subject,
    stream_name,
)
from .reading import ObjectReader, whole_file
from .upload import Source, upload
from .watch import ObjectWatcher

__all__ = ["ObjectStore", "open_store"]

IN_FLIGHT = 8 << 20
"""The number of bytes that a reader requests at a time."""

_UNSURE = (RequestTimeoutError, ConnectionReconnectingError)
"""Errors after which a published message may be stored."""


class ObjectStore:
    """An object store, for any number of threads. Made by `JetStream.object_store` and
    `create_object_store`.

    Every call waits for the server, at most for the timeout of the JetStream context, and then raises
    RequestTimeoutError. It raises StoreNotFoundError if the store is gone, StreamSealedError if a sealed
    store is changed, and `natsync.jetstream.APIError` for other refusals of the server.
    """

    def __init__(self, api: API, info: StreamInfo) -> None:
        self.bucket = info.config.name.removeprefix(STREAM_PREFIX)
        """Its name."""
        self._api = api
        self._stream = info.config.name
        self._direct = info.config.allow_direct or info.config.mirror_direct

    def put(self, meta: ObjectMeta | str, content: Source) -> ObjectInfo:
        """Stores `content` under a name, and returns its description when the server has all of it.

        `content` is bytes, a file open for reading bytes, or an iterable of bytes. Files and iterables are
        read as fast as the server stores them, so that an object of any size needs little memory. The new
        object replaces one of the same name when it is complete. If anything fails, the stored part of the
        new object is removed. After RequestTimeoutError and ConnectionReconnectingError, all of it may be
        stored, or chunks that no description names. No chunk is larger than the server's `max_payload`.
        """
        meta = ObjectMeta(meta) if isinstance(meta, str) else meta
        check_kind(ObjectMeta, meta=meta)
        nuid = self._new_id()
        chunks = chunk_subject(self.bucket, nuid)
        try:
            found = upload(self._api, chunks, content, meta.max_chunk_size)
        except BaseException as failure:
            with suppress(Error):  # the first of the two errors says more
                self._purge(chunks)
            if isinstance(failure, NoRespondersError):
                raise_if_gone(self._stream_info, StoreNotFoundError, failure)
            raise
        info = ObjectInfo(
            meta.name,
            self.bucket,
            nuid,
            size=found.size,
            chunks=found.chunks,
            digest=digest_of(found.sha256),
            description=meta.description,
            headers=meta.headers,
            metadata=meta.metadata,
            options=ObjectOptions(max_chunk_size=meta.max_chunk_size),
        )
        try:
            stored, before = self._replace(info)
        except Error as failure:
            if not isinstance(failure, _UNSURE):
                with suppress(Error):
                    self._purge(chunks)
            raise
        if before and before.nuid and not before.deleted:
            self._purge(chunk_subject(self.bucket, before.nuid))
        return stored

    def put_file(self, path: str | os.PathLike[str], meta: ObjectMeta | str = "") -> ObjectInfo:
        """Stores the content of a file, as `put` does. Without `meta`, the name is that of the file."""
        path = os.fspath(path)  # `open` would take a number for a descriptor, and close it
        with open(path, "rb") as file:
            return self.put(meta or os.path.basename(path), file)

    def get(self, name: str) -> ObjectReader:
        """Opens the content of an object, or of the target of a link, as a file for reading.

        Raises ObjectNotFoundError; CannotGetBucketLinkError for a link to a whole store.
        """
        info = self.info(name)
        if info.link is None:
            return self._open(info)
        if not info.link.name:
            raise CannotGetBucketLinkError(self.bucket, name, info.link.bucket)
        target = (
            self if info.link.bucket == self.bucket else open_store(self._api, info.link.bucket)
        )
        found = target.info(info.link.name)
        if found.link:  # after the link was made
            raise LinkNotAllowedError(target.bucket, found.name, "it is a link itself")
        return target._open(found)

    def get_bytes(self, name: str) -> bytes:
        """The whole content of an object, after the check."""
        with self.get(name) as reader:
            return reader.readall()

    def get_file(self, name: str, path: str | os.PathLike[str]) -> ObjectInfo:
        """Writes the content of an object to a file, which appears under `path` only when it is complete
        and checked. It replaces an existing file and keeps its permissions. A device, pipe or other special
        file is written to directly."""
        with self.get(name) as reader:
            with whole_file(path) as file:
                for chunk in reader.chunks():
                    file.write(chunk)
            return reader.info

    def info(self, name: str, *, show_deleted: bool = False) -> ObjectInfo:
        """The description of an object or link. Raises ObjectNotFoundError, for deleted objects also,
        unless `show_deleted`."""
        check_object_name(name)
        found = self._last(name)
        if found is None or found.deleted and not show_deleted:
            raise ObjectNotFoundError(self.bucket, name)
        return found

    def _latest(self, name: str) -> ObjectInfo:
        """The description of an object, deleted or not, from the leader, before a change."""
        check_object_name(name)
        found = self._last(name, latest=True)
        if found is None:
            raise ObjectNotFoundError(self.bucket, name)
        return found

    def update_meta(self, name: str, meta: ObjectMeta) -> ObjectInfo:
        """Replaces name, description, headers and metadata of an object or link; its content stays.

        Raises ObjectNotFoundError, UpdateMetaDeletedError, and ObjectExistsError if the new name is taken.
        """
        check_kind(ObjectMeta, meta=meta)
        old = self._latest(name)
        if old.deleted:
            raise UpdateMetaDeletedError(self.bucket, name)
        if not (old.nuid or old.link):
            raise BadObjectMetaError(self.bucket, name, "nuid is wrong")
        new = replace(
            old,
            name=meta.name,
            description=meta.description,
            headers=meta.headers,
            metadata=meta.metadata,
        )
        if meta.name == name:
            return self._write(new, old.revision)
        taken = self._last(meta.name, latest=True)
        if taken and not taken.deleted:
            raise ObjectExistsError(self.bucket, meta.name)
        stored = self._write(new, taken.revision if taken else 0)
        self._purge(meta_subject(self.bucket, name), old.revision)
        return stored

    def delete(self, name: str) -> ObjectInfo:
        """Deletes an object or link, and returns the description that remains. Raises ObjectNotFoundError.
        Deleting it a second time is no error."""
        found = self._latest(name)
        if found.deleted:
            return found
        gone = replace(found, deleted=True, size=0, chunks=0, digest="")
        stored = self._write(gone, found.revision)
        if found.nuid:
            self._purge(chunk_subject(self.bucket, found.nuid))
        return stored

    def add_link(self, name: str, target: ObjectInfo) -> ObjectInfo:
        """Creates a link to an object of this store or of another one. It may replace a link or a deleted
        object.

        Raises LinkNotAllowedError if the target is deleted or a link; ObjectExistsError.
        """
        check_kind(ObjectInfo, target=target)
        if target.deleted:
            raise LinkNotAllowedError(target.bucket, target.name, "it was deleted")
        if target.link:
            raise LinkNotAllowedError(target.bucket, target.name, "it is a link itself")
        return self._add_link(name, ObjectLink(target.bucket, target.name))

    def add_bucket_link(self, name: str, target: ObjectStore) -> ObjectInfo:
        """Creates a link to a whole store. Raises ObjectExistsError."""
        check_kind(ObjectStore, target=target)
        return self._add_link(name, ObjectLink(target.bucket))

    def list(self, *, show_deleted: bool = False) -> Iterator[ObjectInfo]:
        """Iterates over the objects and links; with `show_deleted`, over deleted ones, too. A message that
        describes no object is left out and logged; `delete` removes it."""
        watcher = self._watch("last_per_subject", DrainStage.CALL, not show_deleted)
        return _list(self._api, watcher)

    def watch(
        self,
        *,
        include_history: bool = False,
        updates_only: bool = False,
        ignore_deletes: bool = False,
    ) -> ObjectWatcher:
        """Watches the store: yields all objects and links, then None, then each change when it happens.
        `ignore_deletes` leaves out deleted ones; `updates_only` begins with the None. A store keeps one
        description per object, so that `include_history` yields no more of them, but in the order of the
        changes.
        """
        if include_history and updates_only:
            raise OptionError("watch", "include_history and updates_only exclude each other")
        policy: DeliverPolicy = "last_per_subject"
        if include_history or updates_only:
            policy = "all" if include_history else "new"
        return self._watch(policy, None, ignore_deletes, updates_only)

    def _watch(
        self,
        policy: DeliverPolicy,
        stage: DrainStage | None,
        ignore_deletes: bool,
        updates_only: bool = False,
    ) -> ObjectWatcher:
        """Watches as `watch` does; a drain of the connection ends it in `stage`."""
        messages = self._messages(f"$O.{self.bucket}.M.>", policy, stage)
        return ObjectWatcher(
            self._api,
            self.bucket,
            self._stream,
            messages,
            ignore_deletes=ignore_deletes,
            updates_only=updates_only,
        )

    def seal(self) -> None:
        """Makes the store read-only, for ever."""
        config = self._stream_info().config
        configure_stream(self._api, "UPDATE", replace(config, sealed=True))

    def status(self) -> ObjectStoreStatus:
        """The configuration and the fill level of the store."""
        return ObjectStoreStatus.of(self._stream_info())

    def _add_link(self, name: str, link: ObjectLink) -> ObjectInfo:
        check_object_name(name)
        before = self._last(name, latest=True)
        if before and not before.deleted and before.link is None:
            raise ObjectExistsError(self.bucket, name)
        info = ObjectInfo(name, self.bucket, self._new_id(), options=ObjectOptions(link=link))
        return self._write(info, before.revision if before else 0)

    def _open(self, info: ObjectInfo, *, latest: bool = False) -> ObjectReader:
        """A reader of the content that `info` describes. `latest`: `info` came from the leader."""
        if not info.nuid:
            raise BadObjectMetaError(self.bucket, info.name, "nuid is wrong")
        api = self._api
        if not info.size and not info.chunks:
            return ObjectReader(api, self.bucket, info, None)
        most = max(2, IN_FLIGHT // max(1, info.size // max(1, info.chunks)))
        subject = chunk_subject(self.bucket, info.nuid)
        messages = self._messages(subject, "all", DrainStage.CALL, min(most, 500))
        if messages.num_pending < info.chunks and self._direct and not latest:
            # Another server than the leader may have described an object that was replaced since.
            found = self._latest(info.name)
            if found.deleted or found.nuid not in ("", info.nuid):
                messages.stop()
                if found.deleted:
                    raise ObjectNotFoundError(self.bucket, info.name)
                return self._open(found, latest=True)
        return ObjectReader(api, self.bucket, info, messages)

    def _messages(
        self, subject: str, policy: DeliverPolicy, stage: DrainStage | None, most: int = 500
    ) -> OrderedMessages:
        config = ConsumerConfig(deliver_policy=policy, filter_subject=subject)
        try:
            consumer = OrderedConsumer(self._api, self._stream, config, stage)
            return consumer.messages(max_msgs=most)
        except StreamNotFoundError as error:
            raise StoreNotFoundError(self.bucket) from error

    def _last(self, name: str, *, latest: bool = False) -> ObjectInfo | None:
        """The description of an object, deleted or not. With `latest`, before a change, the leader is asked,
        and a message that describes no object is logged and counts as an object without content, which can be
        replaced and deleted."""
        subject = meta_subject(self.bucket, name)
        api = self._api
        try:
            try:
                if latest or not self._direct:
                    raise NoDirectGetError(self._stream)
                found = direct_get(api, self._stream, {}, subject)
            except NoDirectGetError:  # the store is gone or refuses direct reads: the leader knows
                found = get_msg(api, self._stream, {"last_by_subj": subject})
        except MessageNotFoundError:
            return None
        except StreamNotFoundError as error:
            raise StoreNotFoundError(self.bucket) from error
        try:
            return read_info(self.bucket, subject, found.data, found.time, found.seq)
        except BadObjectMetaError as error:
            if not latest:
                raise
            api.core.report_error(error)
            return ObjectInfo(name, self.bucket, "", revision=found.seq)

    def _replace(self, info: ObjectInfo) -> tuple[ObjectInfo, ObjectInfo | None]:
        """Stores a description in place of the last one; returns both. The client that replaces a
        description, and no other, removes its chunks."""
        before = self._last(info.name, latest=True)
        while True:
            try:
                return self._write(info, before.revision if before else 0), before
            except (WrongLastSequenceError, *_UNSURE) as error:
                last = self._last(info.name, latest=True)
                if last and last.nuid == info.nuid:  # only the acknowledgement was lost
                    return last, before
                if isinstance(error, _UNSURE):
                    raise
                before = last  # another client was faster

    def _write(self, info: ObjectInfo, before: int) -> ObjectInfo:
        """Stores a description, if `before` is the last revision of that name."""
        subject = meta_subject(self.bucket, info.name)
        data = json.dumps(info.to_json()).encode()
        options: PublishOptions = {"rollup": "sub", "expected_last_subject_seq": before}
        try:
            ack = publish(self._api, subject, data, None, DEFAULT, options)
        except NoStreamResponseError as error:
            raise_if_gone(self._stream_info, StoreNotFoundError, error)
            raise
        return replace(info, revision=ack.seq, mtime=datetime.now(timezone.utc))

    def _purge(self, subject: str, last: int = 0) -> None:
        """Removes the messages on `subject`; with `last`, up to that sequence."""
        purge_stream(self._api, self._stream, subject=subject, seq=last + 1 if last else 0)

    def _new_id(self) -> str:
        return self._api.core.new_inbox().rpartition(".")[2]

    def _stream_info(self) -> StreamInfo:
        try:
            return stream_info(self._api, self._stream)
        except StreamNotFoundError as error:
            raise StoreNotFoundError(self.bucket) from error

    def __repr__(self) -> str:
        return f"ObjectStore({self.bucket!r})"


def open_store(api: API, bucket: str) -> ObjectStore:
    """The object store of that name. Raises StoreNotFoundError."""
    try:
        return ObjectStore(api, stream_info(api, stream_name(check_store_name(bucket))))
    except StreamNotFoundError as error:
        raise StoreNotFoundError(bucket) from error


def _list(api: API, watcher: ObjectWatcher) -> Iterator[ObjectInfo]:
    with watcher:
        while True:
            try:
                yield from watcher.initial(api.timeout)
                return
            except BadObjectMetaError as error:  # it must not hide the other objects
                api.core.report_error(error)
