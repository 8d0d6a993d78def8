"""Errors of key-value buckets; all are `natsync.Error`, exported from `natsync.kv`.

Names follow nats.go (jetstream/errors.go). Other refusals of the server remain
`natsync.jetstream.APIError`.
"""

from __future__ import annotations

from ..errors import Facts

__all__ = [
    "BadBucketError",
    "BucketExistsError",
    "BucketNotFoundError",
    "InvalidBucketNameError",
    "InvalidKeyError",
    "KeyDeletedError",
    "KeyExistsError",
    "KeyNotFoundError",
    "KeyValueError",
    "WrongLastRevisionError",
]

_SHOWN = 64


class KeyValueError(Facts):
    """The base of all errors of `natsync.kv`."""


class InvalidBucketNameError(KeyValueError, ValueError):
    """The name is not valid for a bucket; nothing was sent."""

    bucket: str

    def __str__(self) -> str:
        shown = self.bucket[:_SHOWN]
        return f"invalid bucket name {shown!r}: it may have letters A-Z and a-z, digits, '-' and '_' only"


class InvalidKeyError(KeyValueError, ValueError):
    """The key, or the filter of keys, is not valid; nothing was sent."""

    key: str
    reason: str

    def __str__(self) -> str:
        return f"invalid key {self.key[:_SHOWN]!r}: {self.reason}"


class BucketNotFoundError(KeyValueError):
    """The bucket does not exist."""

    bucket: str

    _text = "bucket {bucket} not found"


class BucketExistsError(KeyValueError):
    """A bucket of that name exists with another configuration."""

    bucket: str

    _text = "bucket {bucket} exists with another configuration"


class BadBucketError(KeyValueError):
    """The stream has the name of a bucket, but is not one."""

    bucket: str
    reason: str

    _text = "stream KV_{bucket} is not a key-value bucket: {reason}"


class KeyNotFoundError(KeyValueError, KeyError):
    """The key has no value, or does not have the `revision` that was asked for."""

    bucket: str
    key: str
    revision: int | None = None

    def __str__(self) -> str:
        if self.revision:
            return f"key {self.key} has no revision {self.revision} in bucket {self.bucket}"
        return f"key {self.key} not found in bucket {self.bucket}"


class KeyDeletedError(KeyNotFoundError):
    """The last operation on the key was a delete or purge, at this `revision`."""

    revision: int
    operation: str

    def __str__(self) -> str:
        return (
            f"key {self.key} not found in bucket {self.bucket}: "
            f"{self.operation} at revision {self.revision}"
        )


class WrongLastRevisionError(KeyValueError):
    """The last revision of the key is not the expected one, because another client has written it.
    `actual` is the last revision, if the server reports it; servers do not for replicated buckets.
    """

    bucket: str
    key: str
    expected: int
    actual: int | None = None

    def __str__(self) -> str:
        actual = "" if self.actual is None else f", it is {self.actual}"
        return f"last revision of key {self.key} in bucket {self.bucket} is not {self.expected}{actual}"


class KeyExistsError(KeyValueError):
    """`create` was called for a key that has a value."""

    bucket: str
    key: str

    _text = "key {key} exists in bucket {bucket}"
