"""The bytes of an input, in large blocks from which `pcap` and `pcapng` read records.

Reading is fast because a file object is read in blocks of many records, never record by record. An input that
is still being written (a pipe) returns the bytes that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ..errors import reason_of
from ..types import PacketPlace, Packets
from .report import FileReport

# Large enough that the cost of reading a block does not matter, small enough for a processor's cache and for
# hundreds of open files.
BLOCK = 1 << 17


# A position after the end of any file.
NOWHERE = 1 << 63


class Pieces(Protocol):
    """A file that is open at some position."""

    def read1(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Ended:
    """The state at the end of reading. `next_record` is the position where the next record begins, or would
    begin. `context` has the bytes that turn the rest of the file into a capture when they are put before it.
    For pcapng, `sections` is the number of sections that began, `described` is the number of interfaces that
    were described, and `borrows_time` is whether a packet without a timestamp got the time of an earlier one.
    """

    next_record: int
    context: bytes
    sections: int = 0
    described: int = 0
    borrows_time: bool = False


Reading = Generator[Packets, None, Ended]


class RecordForm(NamedTuple):
    """The form of records that follow each other: the byte `order`, and how times are made: `times`
    nanoseconds for each unit, added to `offset_ns`. In pcap files, the unit is that of a time's fraction,
    `header` is the size of a record's header, and no packet has more than `largest` bytes; in pcapng files,
    `interface` is the number of the packets' interface."""

    order: str
    times: int
    offset_ns: int = 0
    header: int = 0
    largest: int = 0
    interface: int = 0


class Records(NamedTuple):
    """Packets of records that follow each other. `at` is where the first record begins that was not read;
    `claimed` are the bytes of its packet, if its header was read, otherwise 0. `captured` and `missing` are
    the bytes of all packets, in the file and beyond what is there; `cut` is the number of packets that miss
    any. Times are as for `FileReport.saw`; `least_ns` is true only if the times go back, or in pcapng.
    """

    places: Sequence[PacketPlace]
    at: int
    claimed: int
    latest_ns: int
    least_ns: int
    back_ns: int
    captured: int
    missing: int
    cut: int


ReadRecords = Callable[[bytes, int, int, RecordForm], Records]
"""Reads records of a block from a position on, those that begin at another position at the latest."""


@dataclass(slots=True)
class RecordReaders:
    """Faster readers of records than those of plain Python, and the size of a block for them. They may be set
    while a file is read; from the next block on, they are used."""

    block: int = 0
    pcap: ReadRecords | None = None
    enhanced: ReadRecords | None = None


class PackedError(Exception):
    """Compressed data cannot be unpacked further; the text says why."""


class Blocks:
    """A buffer over an input: `data[at:]` are the bytes that were not consumed yet, and `fill` adds more.

    `fault` is the reason why the input could not be read to its end; empty if there is none. `place` is the
    position in the whole input at which the pieces begin.
    """

    def __init__(self, pieces: Iterator[bytes], place: int = 0) -> None:
        self.data = b""
        self.at = 0
        self.fault = ""
        self._pieces = pieces
        self._dropped = place

    @property
    def position(self) -> int:
        """The position of `at` in the whole input."""
        return self._dropped + self.at

    def fill(self, need: int) -> bool:
        """Reads until there are `need` bytes from `at` on; returns whether there are.

        If it reads, it drops the bytes before `at`. It stops as soon as it has enough bytes, because a pipe
        may have no more for a long time.
        """
        have = len(self.data) - self.at
        if have >= need:
            return True
        parts = [self.data[self.at :]]
        while have < need:
            piece = self._next_piece()
            if not piece:
                break
            parts.append(piece)
            have += len(piece)
        self._dropped += self.at
        self.data = b"".join(parts)
        self.at = 0
        return have >= need

    def put_before(self, context: bytes) -> None:
        """Inserts bytes that are read next but are not part of the input."""
        place = self.position - len(context)
        self.data = context + self.data[self.at :]
        self.at = 0
        self._dropped = place

    def _next_piece(self) -> bytes:
        try:
            return next(self._pieces, b"")
        except PackedError as error:
            self.fault = str(error)
        except OSError as error:
            self.fault = f"it cannot be read further ({reason_of(error)})"
        return b""


def pieces_of(
    opened: AbstractContextManager[Pieces], report: FileReport, readers: RecordReaders | None = None
) -> Generator[bytes, None, None]:
    """The bytes of a file as they arrive, at most one block at a time. The file is closed at its end, or when
    this generator is closed. `report` gets the position."""
    with opened as file:
        while piece := file.read1(readers and readers.block or BLOCK):
            report.position += len(piece)
            yield piece
