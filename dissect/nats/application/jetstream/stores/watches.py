"""The open watches of buckets or object stores: consumers whose messages are counted in one row each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from ....schema.anomalies import Anomaly
from ...rows import Marked, mark
from ..subjects import ConsumerKey

_R = TypeVar("_R", bound=Marked)


class Watches(Generic[_R]):
    """The rows of at most `limit` watches by consumer. If there are more, the oldest one is given up."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rows: dict[ConsumerKey, _R] = {}
        # The number of messages that came before the answer that names their watch.
        self._early: dict[ConsumerKey, int] = {}

    def of_message(self, key: ConsumerKey) -> _R | None:
        """The row of the watch to which a message was delivered. If there is none yet, counts the message
        for `take_early`."""
        row = self._rows.get(key)
        if row is None and (key in self._early or len(self._early) < self._limit):
            self._early[key] = self._early.get(key, 0) + 1
        return row

    def take_early(self, key: ConsumerKey) -> int:
        """The number of messages that came before the watch."""
        return self._early.pop(key, 0)

    def begin(self, key: ConsumerKey, row: _R) -> Iterator[_R]:
        """Adds a watch; yields the row of one that ends: an earlier one of the same name, or the oldest."""
        before = self._rows.pop(key, None)
        if before:
            yield before
        elif len(self._rows) >= self._limit:
            oldest = self._rows.pop(next(iter(self._rows)))
            mark(oldest, Anomaly.FORGOTTEN.value)
            yield oldest
        self._rows[key] = row

    def end(self, key: ConsumerKey) -> Iterator[_R]:
        """Ends a watch; yields its row, if there is one."""
        row = self._rows.pop(key, None)
        if row:
            yield row

    def finish(self) -> Iterator[_R]:
        """The rows of the watches that are open at the end of the session."""
        yield from self._rows.values()
