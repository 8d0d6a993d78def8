"""Errors of object stores; all are `natsync.Error`, exported from `natsync.object_store`.

Names follow nats.go (jetstream/errors.go). Other refusals of the server remain
`natsync.jetstream.APIError`.
"""

from __future__ import annotations

from ..errors import Facts

__all__ = [
    "BadObjectMetaError",
    "CannotGetBucketLinkError",
    "DigestMismatchError",
    "InvalidObjectNameError",
    "InvalidStoreNameError",
    "LinkNotAllowedError",
    "ObjectExistsError",
    "ObjectNotFoundError",
    "ObjectStoreError",
    "StoreExistsError",
    "StoreNotFoundError",
    "TruncatedObjectError",
    "UpdateMetaDeletedError",
]

_SHOWN = 64


class ObjectStoreError(Facts):
    """The base of all errors of `natsync.object_store`."""


class InvalidStoreNameError(ObjectStoreError, ValueError):
    """The name is not valid for an object store; nothing was sent."""

    bucket: str

    def __str__(self) -> str:
        shown = self.bucket[:_SHOWN]
        allowed = "letters A-Z and a-z, digits, '-' and '_'"
        return f"invalid object store name {shown!r}: it may have {allowed} only"


class InvalidObjectNameError(ObjectStoreError, ValueError):
    """The name is empty, which no object may have; nothing was sent."""

    _text = "an object's name must not be empty"


class StoreNotFoundError(ObjectStoreError):
    """The object store does not exist."""

    bucket: str

    _text = "object store {bucket} not found"


class StoreExistsError(ObjectStoreError):
    """An object store of that name exists with another configuration."""

    bucket: str

    _text = "object store {bucket} exists with another configuration"


class _OfObject(ObjectStoreError):
    """The base of errors about one object."""

    bucket: str
    name: str

    @property
    def _what(self) -> str:
        return f"object {self.name[:_SHOWN]!r} in store {self.bucket}"


class ObjectNotFoundError(_OfObject, KeyError):
    """The object does not exist, or it was deleted."""

    _text = "{_what} not found"


class ObjectExistsError(_OfObject):
    """An object of that name exists; a rename or a link must not replace it."""

    _text = "{_what} exists"


class UpdateMetaDeletedError(_OfObject):
    """`update_meta` was called for a deleted object."""

    _text = "{_what} was deleted: its metadata cannot be updated"


class BadObjectMetaError(_OfObject):
    """The message stored under the name does not describe an object; `reason` says why."""

    reason: str

    _text = "{_what} has invalid metadata: {reason}"


class TruncatedObjectError(_OfObject):
    """Chunks of the object are missing: `chunks` of `all_chunks` came, with `size` of `full_size` bytes."""

    chunks: int
    all_chunks: int
    size: int
    full_size: int

    _text = "{_what} is truncated: {chunks} of {all_chunks} chunks, {size} of {full_size} bytes"


class DigestMismatchError(_OfObject):
    """The content differs from the one that was put: it has another SHA-256 or another size."""

    _text = "{_what} is corrupt: its digest does not match"


class LinkNotAllowedError(_OfObject):
    """The target of a link is a deleted object or another link; `reason` says which."""

    reason: str

    _text = "{_what} cannot be linked to: {reason}"


class CannotGetBucketLinkError(_OfObject):
    """`get` was called for a link to a whole store, `target`. Open that store instead."""

    target: str

    _text = "{_what} is a link to the store {target}, which is not an object"
