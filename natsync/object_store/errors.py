"""Errors of object stores; all are `natsync.Error`, exported from `natsync.object_store`.

Names follow nats.go (jetstream/errors.go). What else the server refuses stays a
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
    """A name that no object store can have; nothing was sent."""

    store: str

    def __str__(self) -> str:
        shown = self.store[:_SHOWN]
        allowed = "letters A-Z and a-z, digits, '-' and '_'"
        return f"invalid object store name {shown!r}: it may have {allowed} only"


class InvalidObjectNameError(ObjectStoreError, ValueError):
    """A name that no object can have: the empty one; nothing was sent."""

    def __str__(self) -> str:
        return "an object's name must not be empty"


class StoreNotFoundError(ObjectStoreError):
    """There is no such object store."""

    store: str

    def __str__(self) -> str:
        return f"object store {self.store} not found"


class StoreExistsError(ObjectStoreError):
    """There is an object store of that name with another configuration."""

    store: str

    def __str__(self) -> str:
        return f"object store {self.store} exists with another configuration"


class _OfObject(ObjectStoreError):
    """What the errors about one object share."""

    store: str
    name: str

    @property
    def _what(self) -> str:
        return f"object {self.name[:_SHOWN]!r} in store {self.store}"


class ObjectNotFoundError(_OfObject, KeyError):
    """There is no such object, or it was deleted."""

    def __str__(self) -> str:
        return f"{self._what} not found"


class ObjectExistsError(_OfObject):
    """There is an object of that name, and a rename or a link must not replace it."""

    def __str__(self) -> str:
        return f"{self._what} exists"


class UpdateMetaDeletedError(_OfObject):
    """`update_meta` of an object that was deleted."""

    def __str__(self) -> str:
        return f"{self._what} was deleted: its metadata cannot be updated"


class BadObjectMetaError(_OfObject):
    """What the store has under the name is not a description of an object, and why."""

    reason: str

    def __str__(self) -> str:
        return f"{self._what} has invalid metadata: {self.reason}"


class TruncatedObjectError(_OfObject):
    """Chunks of the object are missing: `chunks` of `all_chunks` came, with `size` of `full_size` bytes."""

    chunks: int
    all_chunks: int
    size: int
    full_size: int

    def __str__(self) -> str:
        return (
            f"{self._what} is truncated: {self.chunks} of {self.all_chunks} chunks, "
            f"{self.size} of {self.full_size} bytes"
        )


class DigestMismatchError(_OfObject):
    """The content of the object is not what was put: its SHA-256 or its size differ."""

    def __str__(self) -> str:
        return f"{self._what} is corrupt: its digest does not match"


class LinkNotAllowedError(_OfObject):
    """A link to what cannot be linked to, and why: a deleted object, or another link."""

    reason: str

    def __str__(self) -> str:
        return f"{self._what} cannot be linked to: {self.reason}"


class CannotGetBucketLinkError(_OfObject):
    """`get` of a link to a whole store, `target`: open that store."""

    target: str

    def __str__(self) -> str:
        return f"{self._what} is a link to the store {self.target}, which is not an object"
