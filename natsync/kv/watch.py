"""`Watcher`: the current entries of a bucket and all changes, in order, across lost connections
(ADR-8).

It reads an ordered consumer, so that no entry is lost or delivered twice.
"""

from __future__ import annotations

import re

from .._engine.log import logger
from ..errors import OptionError, ProtocolError
from ..jetstream.configs import ConsumerConfig, DeliverPolicy
from ..jetstream.message import JetStreamMsg, MsgMetadata
from ..jetstream.watching import Watch
from ..message import Headers
from .entry import Entry, Operation, operation_of
from .errors import BucketNotFoundError

__all__ = ["Watcher", "watch_config"]

_SIZE_ALONE = re.compile(rb"NATS/1\.0\r\nNats-Msg-Size: (\d{1,20})\r\n\r\n")
"""The headers of a message whose value a watch left out (headers_only)."""


def watch_config(
    subjects: list[str],
    *,
    include_history: bool,
    updates_only: bool,
    meta_only: bool,
    first: int | None,
) -> ConsumerConfig:
    """The configuration of the consumer of a watch. Raises OptionError for contradictory options."""
    if include_history + updates_only + (first is not None) > 1:
        raise OptionError(
            "watch", "include_history, updates_only and resume_from_revision exclude each other"
        )
    policy: DeliverPolicy = "last_per_subject"
    if include_history:
        policy = "all"
    elif updates_only:
        policy = "new"
    elif first:
        policy = "by_start_sequence"
    elif first == 0:
        policy = "all"
    one = len(subjects) == 1
    return ConsumerConfig(
        deliver_policy=policy,
        opt_start_seq=first or 0,
        headers_only=meta_only,
        filter_subject=subjects[0] if one else "",
        filter_subjects=() if one else tuple(dict.fromkeys(subjects)),
    )


class Watcher(Watch[Entry]):
    """An iterator over entries. It yields None once, after the entries that existed when it began. Made
    by `KeyValue.watch`."""

    def _read(self, msg: JetStreamMsg, origin: MsgMetadata) -> Entry | None:
        value = msg.data
        operation, size = Operation.PUT, len(value)
        block = msg.header_block
        alone = _SIZE_ALONE.fullmatch(block) if block else None
        if alone:
            size = int(alone[1])
        elif block:
            headers = self._headers_of(msg, origin)
            operation = operation_of(headers)
            if self._ignore_deletes and operation is not Operation.PUT:
                return None
            text = headers.get("Nats-Msg-Size") or ""
            size = int(text) if text.isdecimal() and not value else size
        return Entry(
            self._bucket,
            msg.subject[len(self._prefix) :],
            value,
            origin.stream_seq,
            origin.num_pending,
            operation,
            size,
            origin.timestamp_ns,
        )

    def _gone(self) -> BucketNotFoundError:
        return BucketNotFoundError(self._bucket)

    def _headers_of(self, msg: JetStreamMsg, origin: MsgMetadata) -> Headers:
        """The headers of an entry; none, with a warning, if they cannot be read: the entry is then a value,
        as for nats.go. One such message must not end every watch of the bucket."""
        try:
            return msg.headers
        except ProtocolError as error:
            logger().warning(
                "entry %r of bucket %s, revision %d, has headers that cannot be read: %s",
                msg.subject[len(self._prefix) :],
                self._bucket,
                origin.stream_seq,
                error,
            )
            return Headers()

    def __repr__(self) -> str:
        return f"Watcher(bucket {self._bucket!r})"
