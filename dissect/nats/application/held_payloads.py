"""A limit on the payloads in the rows of a table that are not complete yet."""

from __future__ import annotations

HELD_BYTES = 32 << 20
"""The size of the payloads that the rows of one state may hold together."""


class HeldPayloads:
    """The size of the payloads of rows that wait. Pass the payload of a row that begins to wait to `add`, and
    the payload of one that no longer waits to `remove`."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = 0

    def add(self, payload: str | None) -> None:
        """A row with this payload begins to wait."""
        if payload:
            self._bytes += len(payload)

    def remove(self, payload: str | None) -> None:
        """A row with this payload no longer waits."""
        if payload:
            self._bytes -= len(payload)

    @property
    def are_too_many(self) -> bool:
        """Whether incomplete rows have to be emitted early."""
        return self._bytes > HELD_BYTES

    def are_too_many_with(self, payload: str | None) -> bool:
        """Whether incomplete rows have to be emitted early before a row with this payload can wait."""
        return bool(payload) and self._bytes + len(payload or "") > HELD_BYTES
