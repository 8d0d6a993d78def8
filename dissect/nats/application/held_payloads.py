"""Limits the size of the payloads that incomplete rows of a table hold."""

from __future__ import annotations

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
