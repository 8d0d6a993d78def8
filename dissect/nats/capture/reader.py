"""The bytes of an input, in large blocks from which `pcap` and `pcapng` read records.

Reading is fast because a file object is read in blocks of many records, never record by record. An input that
is still being written (a pipe) returns the bytes that it has.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from ..errors import reason_of
from ..types import Packets
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
    opened: AbstractContextManager[Pieces], report: FileReport
) -> Generator[bytes, None, None]:
    """The bytes of a file as they arrive, at most one block at a time. The file is closed at its end, or when
    this generator is closed. `report` gets the position."""
    with opened as file:
        while piece := file.read1(BLOCK):
            report.position += len(piece)
            yield piece
