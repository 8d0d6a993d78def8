"""What limits the memory of a session: the entries that it keeps, and the payloads that its rows hold."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, ItemsView, ValuesView
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Recent(Generic[_K, _V]):
    """At most `limit` entries by key. If there are more, the one that was not used for longest is forgotten:
    a session may have any number of clients, streams or consumers, of which many have ended."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[_K, _V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: _K, value: _V) -> _V | None:
        """Adds or replaces an entry. Returns the one that is forgotten for it, if any."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._limit:
            return self._entries.popitem(last=False)[1]
        return None

    def get(self, key: _K) -> _V | None:
        """Uses an entry; None if there is none."""
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
        return found

    def peek(self, key: _K) -> _V | None:
        """As `get`, but does not count as a use."""
        return self._entries.get(key)

    def take(self, key: _K) -> _V | None:
        """Removes and returns an entry; None if there is none."""
        return self._entries.pop(key, None)

    def items(self) -> ItemsView[_K, _V]:
        """Keys and entries; the most recently used last."""
        return self._entries.items()

    def values(self) -> ValuesView[_V]:
        """The entries; the most recently used last."""
        return self._entries.values()


HELD_BYTES = 32 << 20
"""The limit on all payloads that the incomplete rows of one state hold."""


class HeldPayloads:
    """The total size of the payloads of waiting rows. Call `add` with the payload of a row that begins to
    wait, and `remove` with the payload of a row that no longer waits."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = 0

    def add(self, payload: str | None) -> None:
        """Adds the payload of a row that begins to wait."""
        if payload:
            self._bytes += len(payload)

    def remove(self, payload: str | None) -> None:
        """Removes the payload of a row that no longer waits."""
        if payload:
            self._bytes -= len(payload)

    @property
    def are_too_many(self) -> bool:
        """Whether incomplete rows have to be emitted early."""
        return self._bytes > HELD_BYTES

    def are_too_many_with(self, payload: str | None) -> bool:
        """Whether incomplete rows have to be emitted early before a row with this payload can wait."""
        return bool(payload) and self._bytes + len(payload or "") > HELD_BYTES
