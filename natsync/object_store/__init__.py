"""Object stores on JetStream: contents of any size, in chunks, checked when they are read (ADR-20).

>>> store = nc.jetstream().create_object_store("reports")
>>> store.put("2026/summary.pdf", open("summary.pdf", "rb")).size
1843200
>>> with store.get("2026/summary.pdf") as file:
...     head = file.read(1024)
"""

from .config import ObjectStoreConfig
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
from .management import (
    create_or_update_store,
    create_store,
    delete_store,
    store_names,
    store_statuses,
    update_store,
)
from .reading import ObjectReader
from .status import ObjectStoreStatus
from .store import ObjectStore, open_store
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
    "create_or_update_store",
    "create_store",
    "delete_store",
    "open_store",
    "store_names",
    "store_statuses",
    "update_store",
]
