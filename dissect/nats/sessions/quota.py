"""How much all sessions together may remember."""

from __future__ import annotations

# A subscription takes about 500 bytes, an open request about 200.
_ENTRIES = 1 << 18


class EntryQuota:
    """Places for subscriptions and open requests, taken and given back by number.

    Real servers have hundreds of thousands; a capture that was made to fill the memory has more.
    """

    __slots__ = ("left",)

    def __init__(self, entries: int = _ENTRIES) -> None:
        self.left = entries

    def acquire(self, entries: int) -> bool:
        """Whether there were as many."""
        if entries > self.left:
            return False
        self.left -= entries
        return True

    def charge(self, entries: int) -> None:
        """They are taken, whether there are as many or not."""
        self.left -= entries

    def release(self, entries: int) -> None:
        """They are free again."""
        self.left += entries
