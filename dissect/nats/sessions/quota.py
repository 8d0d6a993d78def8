"""A limit on the entries that all sessions of a capture store together."""

from __future__ import annotations

# A subscription takes about 500 bytes, an open request about 200.
_ENTRIES = 1 << 18


class EntryQuota:
    """Counts entries: subscriptions and open requests. `left` is the number that may still be stored.

    Real servers have hundreds of thousands of them. A hostile capture may have any number.
    """

    __slots__ = ("left",)

    def __init__(self, entries: int = _ENTRIES) -> None:
        self.left = entries

    def acquire(self, entries: int) -> bool:
        """Takes entries and returns True, or returns False if fewer are left."""
        if entries > self.left:
            return False
        self.left -= entries
        return True

    def charge(self, entries: int) -> None:
        """Takes entries, even if fewer are left."""
        self.left -= entries

    def release(self, entries: int) -> None:
        """Returns entries."""
        self.left += entries
