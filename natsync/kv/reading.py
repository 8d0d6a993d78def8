"""Entries read one by one: by key, or by revision.

A bucket that allows it is read directly: any of its servers or mirrors answers, which is fast, but
may be behind the last write (ADR-8, "Consistency Guarantees"; ADR-31). Else, and where the latest
word counts, the leader of its stream answers.
"""

from __future__ import annotations

from ..jetstream.api import API
from ..jetstream.errors import MessageNotFoundError, NoDirectGetError, StreamNotFoundError
from ..jetstream.stored import StoredMsg, direct_get, get_msg
from .entry import Entry, operation_of
from .errors import BucketNotFoundError

__all__ = ["BucketReader"]


class BucketReader:
    """Reads one bucket. `prefix` is what the subjects of its keys begin with. For any thread."""

    def __init__(self, api: API, bucket: str, stream: str, prefix: str, direct: bool) -> None:
        self._api = api
        self._bucket = bucket
        self._stream = stream
        self._prefix = prefix
        self._direct = direct

    def last(self, key: str, *, latest: bool = False) -> Entry | None:
        """The last entry of `key`, of whatever operation; with `latest`, the leader's word."""
        subject = self._prefix + key
        try:
            if self._direct and not latest:
                try:
                    return self._entry(direct_get(self._api, self._stream, {}, subject))
                except NoDirectGetError:
                    self._direct = (
                        False  # the bucket is gone, or allows it no more: the leader knows
                    )
            return self._entry(get_msg(self._api, self._stream, {"last_by_subj": subject}))
        except MessageNotFoundError:
            return None
        except StreamNotFoundError as error:
            raise BucketNotFoundError(self._bucket) from error

    def at(self, key: str, revision: int) -> Entry | None:
        """The entry of `key` with this revision; None if there is none, or it is another key's."""
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
