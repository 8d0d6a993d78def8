"""Entries read one by one: by key, or by revision.

A bucket that allows direct reads is read from any of its servers or mirrors, which is fast, but may
not show the last write yet (ADR-8, "Consistency Guarantees"; ADR-31). Otherwise, and if the latest
entry is required, the leader of its stream answers.
"""

from __future__ import annotations

from ..jetstream.api import API
from ..jetstream.errors import MessageNotFoundError, NoDirectGetError, StreamNotFoundError
from ..jetstream.stored import PLAIN, StoredMsg, ask_directly, direct_get, get_msg, read_stored
from .entry import Entry, Operation, operation_of
from .errors import BucketNotFoundError

__all__ = ["BucketReader"]

_PUT = Operation.PUT  # a look-up in the Enum takes longer


class BucketReader:
    """Reads one bucket. The subjects of its keys begin with `prefix`. For any thread."""

    def __init__(self, api: API, bucket: str, stream: str, prefix: str, direct: bool) -> None:
        self._api = api
        self._bucket = bucket
        self._stream = stream
        self._prefix = prefix
        self._direct = direct
        self._last = api.subject(f"DIRECT.GET.{stream}.{prefix}")

    def last(self, key: str, *, latest: bool = False) -> Entry | None:
        """The last entry of `key`, whatever its operation; with `latest`, the leader is asked."""
        try:
            if self._direct and not latest:
                try:
                    return self._last_directly(key)
                except NoDirectGetError:
                    # The bucket is gone or no longer allows direct reads: the leader knows.
                    self._direct = False
            request = {"last_by_subj": self._prefix + key}
            return self._entry(get_msg(self._api, self._stream, request))
        except MessageNotFoundError:
            return None
        except StreamNotFoundError as error:
            raise BucketNotFoundError(self._bucket) from error

    def _last_directly(self, key: str) -> Entry:
        wire = self._last + key
        msg = ask_directly(self._api, self._stream, wire, b"")
        plain = PLAIN.fullmatch(msg.header_block)
        if not plain:
            return self._entry(read_stored(msg, wire))
        data = msg.data  # a message without headers of its own is a value
        created = plain[4].decode()
        return Entry(self._bucket, key, data, int(plain[3]), 0, _PUT, len(data), created)

    def at(self, key: str, revision: int) -> Entry | None:
        """The entry of `key` with this revision; None if the revision does not exist or has another key."""
        request = {"seq": revision}
        try:
            if self._direct:
                try:
                    return self._entry_of(key, direct_get(self._api, self._stream, request))
                except NoDirectGetError:
                    self._direct = False
            return self._entry_of(key, get_msg(self._api, self._stream, request))
        except MessageNotFoundError:
            return None
        except StreamNotFoundError as error:
            raise BucketNotFoundError(self._bucket) from error

    def _entry_of(self, key: str, msg: StoredMsg) -> Entry | None:
        return self._entry(msg) if msg.subject == self._prefix + key else None

    def _entry(self, msg: StoredMsg) -> Entry:
        return Entry(
            self._bucket,
            msg.subject[len(self._prefix) :],
            msg.data,
            msg.seq,
            0,
            operation_of(msg.headers),
            len(msg.data),
            msg.time,
        )
