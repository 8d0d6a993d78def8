"""`Entry`: one operation on a key, read from a stored message, however it was fetched (ADR-8).

The header `KV-Operation` says DEL or PURGE; without it, a message with `Nats-Marker-Reason` was
made by the server when the last value of a key expired or was removed by a limit (ADR-43); every
other message is a value.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from enum import Enum

from .._json import parse_time
from ..errors import InvalidResponseError
from ..message import Headers

__all__ = ["Entry", "Operation", "operation_of"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Operation(Enum):
    """An operation on a key. PURGE also stands for an expired value."""

    PUT = "PUT"
    DELETE = "DEL"
    PURGE = "PURGE"


_OPERATIONS = {"DEL": Operation.DELETE, "PURGE": Operation.PURGE}
# ADR-43, nats.go jetstream/kv.go.
_MARKERS = {
    "MaxAge": Operation.PURGE,
    "Purge": Operation.PURGE,
    "Remove": Operation.DELETE,
}


def operation_of(headers: Headers) -> Operation:
    """The operation that a stored message records."""
    reason = ""
    for name, value in headers.fields:
        if name == "KV-Operation":
            return _OPERATIONS.get(value, Operation.PUT)
        if name == "Nats-Marker-Reason":
            reason = reason or value
    return _MARKERS.get(reason, Operation.PUT) if reason else Operation.PUT


class Entry:
    """One operation on a key. `revision` is its sequence in the stream of the bucket; `delta` is the number
    of entries after it in this reading (0: the latest). `size` is the size of the value in bytes, even if
    a watch leaves the value out.
    """

    __slots__ = ("bucket", "key", "value", "revision", "delta", "operation", "size", "_created")

    def __init__(
        self,
        bucket: str,
        key: str,
        value: bytes,
        revision: int,
        delta: int,
        operation: Operation,
        size: int,
        created: datetime | int | str,
    ) -> None:
        self.bucket = bucket
        self.key = key
        self.value = value
        self.revision = revision
        self.delta = delta
        self.operation = operation
        self.size = size
        self._created = created

    @property
    def created(self) -> datetime:
        """The time when the server stored it, in UTC, truncated to microseconds. Raises
        InvalidResponseError if the server sent a date that does not exist."""
        created = self._created
        if isinstance(created, int):  # nanoseconds, from an ack subject
            return _EPOCH + timedelta(microseconds=created // 1000)
        if isinstance(created, str):  # RFC 3339, from a header: few programs need it
            try:
                return parse_time(created)
            except ValueError as error:
                raise InvalidResponseError(self.key, f"the time {created}") from error
        return created

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entry):
            return NotImplemented
        return self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash(self._facts())

    def _facts(self) -> tuple[str, str, int, bytes, Operation]:
        return self.bucket, self.key, self.revision, self.value, self.operation

    def __repr__(self) -> str:
        return (
            f"Entry({self.bucket!r}, {self.key!r}, revision={self.revision}, "
            f"{self.operation.value}, {self.size} bytes)"
        )
