"""Packets of a block, found by compiled functions and kept in an array. This module imports numba."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast, overload

import numpy as np

from ..capture import reader
from ..capture.reader import RecordForm, RecordReaders, Records
from ..durations import CLOCK_STEP_NS
from ..types import PacketPlace
from . import record_headers as headers
from .jit import Array

# A block for the kernel is larger than one for Python: each takes as long as reading a hundred packets.
_TIMES_LARGER = 4
_MOST = 1 << 14  # packets that are found at once


class PacketPlaces(Sequence[PacketPlace]):
    """`Packets.places` in an array with a row for each packet."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, index: int) -> PacketPlace: ...

    @overload
    def __getitem__(self, index: slice) -> PacketPlaces: ...

    def __getitem__(self, index: int | slice) -> PacketPlace | PacketPlaces:
        if isinstance(index, slice):
            return PacketPlaces(self.array[index])
        return cast(PacketPlace, tuple(self.array[index].tolist()))

    def __iter__(self) -> Iterator[PacketPlace]:
        return map(tuple, self.array.tolist())


class CompiledReaders:
    """Reads records with compiled functions."""

    def __init__(self) -> None:
        self._found = np.zeros((_MOST, 4), np.int64)
        self._sums = np.zeros(headers.R_WIDTH, np.int64)

    def join(self, readers: RecordReaders) -> None:
        """Makes `readers` use these functions from now on."""
        readers.block = _TIMES_LARGER * reader.BLOCK
        readers.pcap, readers.enhanced = self.pcap, self.enhanced

    def pcap(self, data: bytes, at: int, last: int, form: RecordForm) -> Records:
        """Reads records of a pcap file."""
        text = np.frombuffer(data, np.uint8)
        sizes = form.times, form.header, form.largest, CLOCK_STEP_NS
        places = at, min(last, len(data)), form.order == ">", *sizes
        return self._records(headers.read_pcap(text, *places, self._found, self._sums))

    def enhanced(self, data: bytes, at: int, last: int, form: RecordForm) -> Records:
        """Reads enhanced packet blocks of a pcapng file."""
        text = np.frombuffer(data, np.uint8)
        times = form.interface, form.times, form.offset_ns, CLOCK_STEP_NS
        places = at, min(last, len(data)), form.order == ">", *times
        return self._records(headers.read_enhanced(text, *places, self._found, self._sums))

    def _records(self, count: int) -> Records:
        places = PacketPlaces(self._found[:count].copy())
        return Records(places, *self._sums.tolist())
