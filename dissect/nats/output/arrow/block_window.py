"""Sorts frames that come as blocks of columns by time within a window, as `engine.time_order.TimeOrder` sorts
rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...engine.session_tables import ReleasedRows
from ...kernel.frame_block import FrameBlock, NumpyArray
from ...schema.declaration import Column
from ...schema.records import FrameRecord
from .block_columns import RowKeys, arrays_of_block, arrays_of_releases, keys_of
from .records import arrays_of
from .types import pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

RELEASED = 16_384  # rows that leave the window together
_TOGETHER = 512  # releases of Python's frames whose columns are made together


class BlockWindow:
    """Rows that wait, and rows in order that leave the window."""

    def __init__(self, columns: Sequence[Column], reach: int) -> None:
        self._columns = columns
        self._reach = reach
        self._np: Any = import_module("numpy")
        self._parts: list[list[pa.Array]] = []
        self._rows = 0  # of all parts
        none = self._np.zeros(0, self._np.int64)
        # Time, session, number and position in the parts of each row that waits.
        self._waiting: list[NumpyArray] = [none, none.astype(self._np.uint64), none, none]
        self._placed: list[NumpyArray] = []
        self._released = 0

    def begin(self, rows: Sequence[FrameRecord]) -> None:
        """Adds rows that already wait."""
        self._add(arrays_of(rows, self._columns))
        self._wait(keys_of(rows), 0, 0, len(rows))

    def in_order(self, source: Iterable[ReleasedRows]) -> Iterator[list[pa.Array]]:
        """The columns of all rows that `source` releases, at least RELEASED rows at a time."""
        some: list[ReleasedRows] = []
        for rows in source:
            block = rows.records[0]
            if isinstance(block, FrameBlock):
                if some:
                    yield from self._sorted(*arrays_of_releases(some, self._columns))
                    some = []
                yield from self._sorted(*arrays_of_block(block, self._columns))
                continue
            some.append(rows)
            if len(some) >= _TOGETHER:
                yield from self._sorted(*arrays_of_releases(some, self._columns))
                some = []
        if some:
            yield from self._sorted(*arrays_of_releases(some, self._columns))
        self._release(len(self._waiting[0]))
        if self._released:
            yield self._take()

    def _sorted(self, arrays: list[pa.Array], places: RowKeys) -> Iterator[list[pa.Array]]:
        first, begun, rows = self._rows, 0, len(places.numbers)
        self._add(arrays)
        while begun < rows:
            count = len(self._waiting[0])
            many = max(begun + self._reach - count, begun + 1)
            at = int(self._np.searchsorted(places.ends, many))
            if at == len(places.ends):
                self._wait(places, first, begun, rows)
                break
            end = int(places.ends[at])
            self._wait(places, first, begun, end)
            self._release((count + end - begun) // 2)
            begun = end
        if self._released >= RELEASED:
            yield self._take()

    def _add(self, arrays: list[pa.Array]) -> None:
        self._parts.append(arrays)
        self._rows += len(arrays[0])

    def _wait(self, places: RowKeys, first: int, begun: int, end: int) -> None:
        """Adds the rows `begun:end`, whose part begins at `first`."""
        np = self._np
        keys = [*(each[begun:end] for each in places[:3]), np.arange(first + begun, first + end)]
        self._waiting = [np.concatenate(pair) for pair in zip(self._waiting, keys)]

    def _release(self, count: int) -> None:
        """RowKeys the `count` earliest rows, in order of time."""
        order = self._order()
        self._waiting = [each[order] for each in self._waiting]
        self._placed.append(self._waiting[3][:count])
        self._released += count
        self._waiting = [each[count:] for each in self._waiting]

    def _order(self) -> NumpyArray:
        """The order of the rows that wait."""
        np = self._np
        times_ns, sessions, numbers, _ = self._waiting
        order = np.argsort(times_ns, kind="stable")  # fast, because they are nearly in order
        one, other = order[:-1], order[1:]
        later = (sessions[one] == sessions[other]) & (numbers[one] > numbers[other])
        wrong = (sessions[one] > sessions[other]) | later
        if (wrong & (times_ns[one] == times_ns[other])).any():
            return np.lexsort((numbers, sessions, times_ns))
        return order

    def _take(self) -> list[pa.Array]:
        """Removes and returns the placed rows, in order."""
        np, arrow = self._np, pyarrow()
        order = arrow.array(np.concatenate([*self._placed, self._waiting[3]]))
        count, self._released, self._placed = self._released, 0, []
        arrays = [arrow.concat_arrays(some).take(order) for some in zip(*self._parts)]
        self._parts, self._rows = [], 0
        self._add([each.slice(count) for each in arrays])
        self._waiting[3] = np.arange(self._rows)
        return [each.slice(0, count) for each in arrays]
