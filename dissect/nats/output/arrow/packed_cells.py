"""The waiting cells of a column, packed into few bytes that become an Arrow array at once.

A number takes 8 bytes and a text its own bytes and 4, and neither is an object that the garbage collector or
the processor's caches would have to visit again. Needs pyarrow, the extra `parquet`, for the arrays.
"""

from __future__ import annotations

from array import array as packed
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from ...schema.declaration import Type
from ...schema.records import Value
from .types import array, clamped, pyarrow, wire_texts

if TYPE_CHECKING:
    import pyarrow as pa


Cells = Sequence[Value | bytes] | Sequence[Value] | Sequence[int] | Sequence[bytes]


class PackedCells(Protocol):
    """The cells of one column."""

    def add(self, cells: Cells) -> None:
        """Adds cells, whose type is that of the column."""

    def array(self) -> pa.Array:
        """All cells, after the last `add`."""


class Numbers:
    """Numbers, none of which is absent."""

    def __init__(self) -> None:
        self._cells = packed("q")

    def add(self, cells: Cells) -> None:
        """Adds numbers; one beyond 64 bits becomes the nearest that fits."""
        numbers = cast("Sequence[int]", cells)
        try:
            self._cells += packed("q", numbers)
        except OverflowError:
            self._cells += packed("q", map(clamped, numbers))

    def array(self) -> pa.Array:
        """All numbers, after the last `add`."""
        arrow = pyarrow()
        data = arrow.py_buffer(self._cells)
        return arrow.Array.from_buffers(arrow.int64(), len(self._cells), [None, data])


class Texts:
    """Texts of the wire; an empty one is absent."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._sizes = packed("i")

    def __len__(self) -> int:
        return len(self._bytes)

    def add(self, cells: Cells) -> None:
        """Adds texts."""
        texts = cast("Sequence[bytes]", cells)
        self._bytes += b"".join(texts)
        self._sizes += packed("i", list(map(len, texts)))

    def array(self) -> pa.Array:
        """All texts, after the last `add`."""
        arrow = pyarrow()
        compute: Any = import_module("pyarrow.compute")
        number = arrow.int32()
        count = len(self._sizes)
        sizes = arrow.Array.from_buffers(number, count, [None, arrow.py_buffer(self._sizes)])
        ends = arrow.concat_arrays([arrow.array([0], number), compute.cumulative_sum(sizes)])
        _, present = compute.greater(sizes, 0).buffers()
        buffers = [present, ends.buffers()[1], arrow.py_buffer(self._bytes)]
        found = arrow.Array.from_buffers(arrow.binary(), count, buffers)
        try:
            return found.cast(arrow.string())
        except arrow.ArrowInvalid:  # some are not UTF-8
            return wire_texts(found.to_pylist())


class Values:
    """Values of any type. They are not packed, because few frames have them."""

    def __init__(self, type_: Type) -> None:
        self._type = type_
        self._cells: list[Value] = []

    def __bool__(self) -> bool:
        return bool(self._cells)

    def add(self, cells: Cells) -> None:
        """Adds values."""
        self._cells += cast("Sequence[Value]", cells)

    def array(self) -> pa.Array:
        """All values, after the last `add`."""
        return array(self._type, self._cells)
