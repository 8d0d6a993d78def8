"""Room for what one read from the network brings, where the decoder reads it without a copy.

New memory for each read would leave holes in the memory of a process whose threads take turns in reading.
"""

from __future__ import annotations

from io import BytesIO

__all__ = ["ReadBuffer"]


class ReadBuffer:
    """Room for `size` bytes, which mean something until the next read. For one thread at a time.

    Views of it are to be released, with `with`, whatever happens: where the garbage collector
    finds a BytesIO with views of it, CPython 3.13 complains, and 3.12 has crashed.
    """

    __slots__ = ("size", "stream")

    def __init__(self, size: int) -> None:
        self.size = size
        self.stream = BytesIO(bytes(size + 1))
        """Reads what was read: see `scan`."""

    def room(self) -> memoryview:
        """Returns a view to which a read may write `size` bytes."""
        return self.stream.getbuffer()

    def begin(self, count: int) -> memoryview:
        """Returns a view of the first `count` bytes, which were read, and prepares `stream` for them."""
        self.stream.seek(count)
        self.stream.write(b"\n")  # there a search for the end of a line ends
        return self.stream.getbuffer()[:count]

    def first(self, count: int) -> bytes:
        """Returns a copy of the first `count` bytes."""
        self.stream.seek(0)
        return self.stream.read(count)
