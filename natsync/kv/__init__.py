"""Key-value buckets on JetStream: values by key, with history, conditional writes and watches (ADR-8).

>>> kv = nc.jetstream().create_key_value(KeyValueConfig("settings", history=5))
>>> kv.put("colour", b"blue")
1
>>> kv.get("colour").value
b'blue'
>>> kv.update("colour", b"green", revision=1)
2
"""

from .bucket import KeyValue, KeyValueStatus
from .config import MAX_HISTORY, KeyValueConfig
from .entry import Entry, Operation
from .errors import (
    BadBucketError,
    BucketExistsError,
    BucketNotFoundError,
    InvalidBucketNameError,
    InvalidKeyError,
    KeyDeletedError,
    KeyExistsError,
    KeyNotFoundError,
    KeyValueError,
    WrongLastRevisionError,
)
from .mapping import BucketMapping
from .watch import Watcher

__all__ = [
    "BadBucketError",
    "BucketExistsError",
    "BucketMapping",
    "BucketNotFoundError",
    "Entry",
    "InvalidBucketNameError",
    "InvalidKeyError",
    "KeyDeletedError",
    "KeyExistsError",
    "KeyNotFoundError",
    "KeyValue",
    "KeyValueConfig",
    "KeyValueError",
    "KeyValueStatus",
    "MAX_HISTORY",
    "Operation",
    "Watcher",
    "WrongLastRevisionError",
]
