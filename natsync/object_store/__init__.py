"""Object stores on JetStream: contents of any size, in chunks, checked when they are read (ADR-20).

>>> store = nc.jetstream().create_object_store("reports")
>>> store.put("2026/summary.pdf", open("summary.pdf", "rb")).size
1843200
>>> with store.get("2026/summary.pdf") as file:
...     head = file.read(1024)
"""

from .config import ObjectStoreConfig, ObjectStoreStatus
from .errors import (
    BadObjectMetaError,
    CannotGetBucketLinkError,
    DigestMismatchError,
    InvalidObjectNameError,
    InvalidStoreNameError,
    LinkNotAllowedError,
    ObjectExistsError,
    ObjectNotFoundError,
    ObjectStoreError,
    StoreExistsError,
    StoreNotFoundError,
    TruncatedObjectError,
    UpdateMetaDeletedError,
)
from .info import DEFAULT_CHUNK_SIZE, ObjectInfo, ObjectLink, ObjectMeta, ObjectOptions
from .reading import ObjectReader
from .store import ObjectStore
from .watch import ObjectWatcher

__all__ = [
    "BadObjectMetaError",
    "CannotGetBucketLinkError",
    "DEFAULT_CHUNK_SIZE",
    "DigestMismatchError",
    "InvalidObjectNameError",
    "InvalidStoreNameError",
    "LinkNotAllowedError",
    "ObjectExistsError",
    "ObjectInfo",
    "ObjectLink",
    "ObjectMeta",
    "ObjectNotFoundError",
    "ObjectOptions",
    "ObjectReader",
    "ObjectStore",
    "ObjectStoreConfig",
    "ObjectStoreError",
    "ObjectStoreStatus",
    "ObjectWatcher",
    "StoreExistsError",
    "StoreNotFoundError",
    "TruncatedObjectError",
    "UpdateMetaDeletedError",
]
