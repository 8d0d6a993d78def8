"""`Results`: the key-value bucket of `ResultBackend`, in NATS's terms.

A read of one key asks the leader of the stream, because a copy may not have what another worker wrote just
before, and Celery takes a group that it does not find for one that is gone. With a server of 2.11 or later,
each value expires by itself. An older one has one time for all keys, which counts from the last write.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

from ..client import Client
from ..errors import NextMsgTimeoutError
from ..jetstream import (
    JetStream,
    MessageNotFoundError,
    NoDirectGetError,
    StoredMsg,
    UnsupportedError,
)
from ..kv import (
    BucketExistsError,
    BucketNotFoundError,
    KeyValue,
    KeyValueConfig,
    Operation,
    Watcher,
)
from ..kv.entry import operation_of
from .naming import encode

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..jetstream import PublishOptions

__all__ = ["Changes", "Last", "Results"]

_MARKER = 1.0  # seconds, the least: nobody reads that a key has expired
_AT_ONCE = 1000  # keys a request: servers refuse more than 1024


class Last(NamedTuple):
    """The last entry of a key: its value, None without one; its revision; the seconds until it expires."""

    value: bytes | None
    revision: int = 0
    remaining: float | None = None


class Results:
    """One bucket, for any thread. It is made if it does not exist; with a server before 2.11, values expire
    after `lifetime` seconds (0: never). Methods raise the errors of JetStream."""

    def __init__(
        self, client: Client, domain: str | None, config: KeyValueConfig, lifetime: float
    ) -> None:
        self.client = client
        self._js = client.jetstream(domain=domain)
        self._bucket = _open(self._js, config, lifetime)
        info = self._bucket.status().info.config
        self._stream = self._js.stream(info.name)
        self._subjects = f"$KV.{config.bucket}."
        prefix = self._js.api.prefix
        self._target = self._subjects if prefix == "$JS.API" else f"{prefix}.{self._subjects}"
        self.expiring: bool = info.allow_msg_ttl
        """Whether each value has a time of its own."""

    def last(self, key: str) -> Last:
        """Returns the last entry of a key."""
        try:
            return _last(self._stream.get_last_msg(self._subjects + encode(key)))
        except MessageNotFoundError:
            return Last(None)

    def values(self, keys: Sequence[str]) -> list[bytes | None]:
        """Returns the values of several keys; those that were written just before may be missing."""
        found: dict[str, bytes | None] = {}
        try:
            for first in range(0, len(keys), _AT_ONCE):
                some = [self._subjects + encode(key) for key in keys[first : first + _AT_ONCE]]
                try:
                    for msg in self._stream.get_last_msgs(some):
                        found[msg.subject] = _last(msg).value
                except MessageNotFoundError:  # none of them
                    pass
        except (NoDirectGetError, UnsupportedError):
            return [self.last(key).value for key in keys]
        return [found.get(self._subjects + encode(key)) for key in keys]

    def write(
        self, key: str, value: bytes, expires: float | None, **options: Unpack[PublishOptions]
    ) -> None:
        """Sets the value of a key for `expires` seconds (0, None: for ever)."""
        if self.expiring and expires:
            options["ttl"] = max(1.0, expires)
        self._js.publish(self._target + encode(key), value, **options)

    def has(self, msg_id: str) -> bool:
        """Returns whether a write with this id was stored, even if its key was written again since: within
        a stream, an id that is used again is a duplicate, whatever the key."""
        token = f"id={msg_id}"
        ack = self._js.publish(self._target + token, b"", msg_id=msg_id)
        if not ack.duplicate:
            self._purge(token)
        return bool(ack.duplicate)

    def delete(self, key: str) -> None:
        """Deletes the value of a key."""
        self._purge(encode(key))

    def _purge(self, token: str) -> None:
        self._bucket.purge(token, ttl=_MARKER if self.expiring else None)

    def changes(self, key: str) -> Changes:
        """Returns what waits for changes of a key; it begins with the present value."""
        return Changes(self._bucket.watch(encode(key), meta_only=True))


class Changes:
    """Waits for changes of a key."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def wait(self, timeout: float) -> bool:
        """Waits up to `timeout` seconds for a change."""
        try:
            return self._watcher.next(timeout) is not None
        except NextMsgTimeoutError:
            return False

    def close(self) -> None:
        """Ends the watch."""
        self._watcher.stop()


def _open(js: JetStream, config: KeyValueConfig, lifetime: float) -> KeyValue:
    try:
        return js.key_value(config.bucket)
    except BucketNotFoundError:
        pass
    expiring = KeyValueConfig(
        config.bucket,
        storage=config.storage,
        replicas=config.replicas,
        limit_marker_ttl=_MARKER,
    )
    lasting = KeyValueConfig(
        config.bucket, storage=config.storage, replicas=config.replicas, ttl=lifetime
    )
    try:
        try:
            return js.create_key_value(expiring)
        except UnsupportedError:
            return js.create_key_value(lasting)
    except BucketExistsError:  # another process was faster
        return js.key_value(config.bucket)


def _last(msg: StoredMsg) -> Last:
    value = msg.data if operation_of(msg.headers) is Operation.PUT else None
    ttl = msg.headers.get("Nats-TTL")
    remaining = None
    if ttl and ttl.rstrip("s").isdigit():  # whole seconds, as this module writes them
        age = (datetime.now(timezone.utc) - msg.time).total_seconds()
        remaining = float(ttl.rstrip("s")) - age
    return Last(value, msg.seq, remaining)
