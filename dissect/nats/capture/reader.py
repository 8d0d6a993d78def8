"""The bytes of an input, in large blocks: what pcap.py and pcapng.py read records from.

Reading many records out of one block is what makes reading cheap; a file object is never asked for
single records. An input that is still being written (a pipe) hands over what it has.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from ..types import Packets
from .report import FileReport

# Large enough that its own cost does not show, small enough for a processor's cache and for hundreds of open
# files.
BLOCK = 1 << 17


# Behind the end of any file.
NOWHERE = 1 << 63


class Pieces(Protocol):
    """A file, from some place on."""

    def read1(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Ended:
    """Where reading ended: `landed` is where the next record begins, or would. `context` are bytes that make
    a capture of what follows, if they are put before it. Of pcapng: how many `sections` began, how many
    interfaces were `described`, and whether the time of any packet `leans` on those before it."""

    landed: int
    context: bytes
    sections: int = 0
    described: int = 0
    leans: bool = False


Reading = Generator[Packets, None, Ended]


class PackedError(Exception):
    """Compressed data that cannot be unpacked further; the text says why."""


class Blocks:
    """`data[at:]` are the bytes that were not taken yet; `fill` gets more of them.

    `fault` says why the input could not be read to its end, if so. `place` is where in the whole input the
    pieces begin.
    """

    def __init__(self, pieces: Iterator[bytes], place: int = 0) -> None:
        self.data = b""
        self.at = 0
        self.fault = ""
        self._pieces = pieces
        self._dropped = place

    @property
    def position(self) -> int:
        """Where `at` is in the whole input."""
        return self._dropped + self.at

    def fill(self, need: int) -> bool:
        """Whether there are `need` bytes from `at` on, after reading what it takes.

        What lies before `at` is dropped then. Never reads more than it must: a pipe may have no more
        to give for a long time.
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
        """Bytes that are read next, though they are not there in the input."""
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
            self.fault = f"it cannot be read further ({error.strerror or error})"
        return b""


def pieces_of(
    opened: AbstractContextManager[Pieces], report: FileReport
) -> Generator[bytes, None, None]:
    """What a file has, as it comes: `read1` gives what is there, up to a block. The file is closed
    at its end, or with this iterator. `report` gets the position."""
    with opened as file:
        while piece := file.read1(BLOCK):
            report.position += len(piece)
            yield piece
