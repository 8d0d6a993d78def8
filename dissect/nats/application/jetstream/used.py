"""The streams or consumers that a session uses: one row each, which is complete when the session ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

from ...schema.anomalies import Anomaly
from ...schema.records import Record
from ..recent import Recent
from ..rows import Marked, mark
from .api import ApiRecord
from .deliveries import DeliveryRecord
from .publishes import PublishRecord
from .pulls import PullRecord
from .subjects import ConsumerKey

_USED = 4096  # of a session whose rows are not complete yet


Named = ApiRecord | PublishRecord | DeliveryRecord | PullRecord
"""A row that names a stream."""


class _SharedColumns(Marked, Protocol):
    number: int
    ts_ns: int
    last_ns: int
    domain: str | None


class OpenRow(Protocol):
    """A row that is not complete yet."""

    @property
    def row(self) -> _SharedColumns:
        """The row so far."""

    def finish(self) -> Record:
        """The complete row."""


_E = TypeVar("_E", bound=OpenRow)


class Used(Generic[_E]):
    """The streams or consumers that one session uses. If there are too many, the row of the one that was not
    used for longest is added to `early`. `start` makes an entry."""

    def __init__(self, start: Callable[[Named, int, str, str], _E], early: list[Record]) -> None:
        self._start = start
        self._early = early
        self._entries = Recent[ConsumerKey, _E](_USED)

    def use(self, named_by: Named, ts_ns: int, stream: str, consumer: str = "") -> _E:
        """The entry of a stream or consumer that a row names, and that a frame at `ts_ns` concerns."""
        key = named_by.account, stream, consumer
        entry = self._entries.get(key)
        if entry is None:
            entry = self._start(named_by, ts_ns, stream, consumer)
            if forgotten := self._entries.put(key, entry):
                self._forget(forgotten)
        row = entry.row
        if named_by.number < row.number:
            row.number, row.ts_ns = named_by.number, named_by.ts_ns
        if ts_ns > row.last_ns:
            row.last_ns = ts_ns
        row.domain = row.domain or named_by.domain
        return entry

    def _forget(self, entry: _E) -> None:
        mark(entry.row, Anomaly.FORGOTTEN.value)
        self._early.append(entry.finish())

    def finish(self) -> Iterator[Record]:
        """The remaining rows, in order."""
        for entry in sorted(self._entries.values(), key=attrgetter("row.number")):
            yield entry.finish()
