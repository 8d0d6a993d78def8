"""The bytes of an input, in large blocks: what pcap.py and pcapng.py read records from.

Reading many records out of one block is what makes reading cheap; a file object is never asked for
single records. An input that is still being written (a pipe) hands over what it has.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager
from io import BufferedIOBase

BLOCK = 1 << 20
_GZIP = 31  # zlib's name for "with a gzip header"


class Blocks:
    """`data[at:]` are the bytes that were not taken yet; `fill` gets more of them.

    `fault` says why the input could not be read to its end, if so.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.data = b""
        self.at = 0
        self.fault = ""
        self._pieces = pieces
        self._dropped = 0

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

    def _next_piece(self) -> bytes:
        try:
            return next(self._pieces, b"")
        except zlib.error:
            self.fault = "the gzip data is damaged"
        except EOFError:
            self.fault = "the gzip data ends early"
        except OSError as error:
            self.fault = f"it cannot be read further ({error.strerror or error})"
        return b""


def pieces_of(opened: AbstractContextManager[BufferedIOBase]) -> Generator[bytes, None, None]:
    """What a file has, as it comes: `read1` gives what is there, up to a block. The file is closed
    at its end, or with this iterator."""
    with opened as file:
        while piece := file.read1(BLOCK):
            yield piece


def gunzip(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The contents of a gzip file of one or more members, never more than a block at a time.

    EOFError where the last member is not complete, zlib.error where it is damaged.
    """
    inflater = zlib.decompressobj(_GZIP)
    fresh = True
    for piece in pieces:
        while piece:
            if fresh and not (piece := piece.lstrip(b"\0")):  # padding behind a member
                break
            data = inflater.decompress(piece, BLOCK)
            fresh = inflater.eof
            piece = inflater.unconsumed_tail
            if fresh:
                piece = inflater.unused_data
                inflater = zlib.decompressobj(_GZIP)
            if data:
                yield data
    if not fresh:
        raise EOFError
