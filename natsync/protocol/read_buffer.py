"""A buffer for the bytes of one read from the network, which the decoder parses without a copy.

New memory for each read would leave holes in the memory of a process whose threads take turns in reading.
"""

from __future__ import annotations

from io import BytesIO

__all__ = ["ReadBuffer"]

_LINE_FEED = 10


class ReadBuffer:
    """Room for `size` bytes, which are written to `room`: a function of the socket does that, from the front.

    The bytes mean something until the next write. For one thread at a time.
    """

    __slots__ = ("size", "room", "_stream", "_whole")

    def __init__(self, size: int) -> None:
        self.size = size
        self._stream = BytesIO(bytes(size + 1))
        self._whole = self._stream.getbuffer()
        self.room = self._whole[:size]

    def begin(self, count: int) -> BytesIO:
        """Returns a stream for `scan`, whose first `count` bytes are what was read."""
        self._whole[count] = _LINE_FEED  # there a search for the end of a line ends
        return self._stream

    def first(self, count: int) -> bytes:
        """Returns a copy of the first `count` bytes."""
        return bytes(self.room[:count])
