"""`BucketMapping`: a bucket with the interface of a mutable mapping.

Each call asks the server; other clients may write in between. Iteration, `items` and `values` read
the current bucket once; `len` reads all keys to count them.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, MutableMapping, ValuesView

from ..core import DrainStage
from .bucket import KeyValue
from .errors import InvalidKeyError, KeyNotFoundError

__all__ = ["BucketMapping"]


class BucketMapping(MutableMapping[str, bytes]):
    """The keys and values of a bucket: `BucketMapping(kv)["colour"]`. KeyNotFoundError is a KeyError."""

    def __init__(self, bucket: KeyValue) -> None:
        self.bucket = bucket
        """The bucket of the mapping."""

    def __getitem__(self, key: str) -> bytes:
        return self.bucket.get(key).value

    def __setitem__(self, key: str, value: bytes) -> None:
        self.bucket.put(key, value)

    def __delitem__(self, key: str) -> None:
        """Deletes the current value. If another client writes meanwhile, its value stays, and this raises."""
        self.bucket.delete(key, revision=self.bucket.get(key).revision)

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str):
            return False
        try:
            self.bucket.get(key)
        except (KeyNotFoundError, InvalidKeyError):
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return self.bucket.keys()

    def __len__(self) -> int:
        return sum(1 for _ in self.bucket.keys())

    def items(self) -> ItemsView[str, bytes]:
        """Keys and values, read together."""
        return _Items(self)

    def values(self) -> ValuesView[bytes]:
        """Values, read together."""
        return _Values(self)

    def scan(self) -> Iterator[tuple[str, bytes]]:
        """Keys and values one by one, in the order in which the server sends them."""
        found: dict[str, bytes] = {}
        with self.bucket._watch((), DrainStage.CALL, ignore_deletes=True) as watcher:
            for entry in watcher.initial(self.bucket._api.timeout):
                if entry.key not in found:
                    found[entry.key] = b""
                    yield entry.key, entry.value

    def __repr__(self) -> str:
        return f"BucketMapping({self.bucket.bucket!r})"


class _Items(ItemsView[str, bytes]):
    def __init__(self, mapping: BucketMapping) -> None:
        super().__init__(mapping)
        self._scan = mapping.scan

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        return self._scan()


class _Values(ValuesView[bytes]):
    def __init__(self, mapping: BucketMapping) -> None:
        super().__init__(mapping)
        self._scan = mapping.scan

    def __iter__(self) -> Iterator[bytes]:
        return (value for _, value in self._scan())
