"""A limit on decompressed bytes and lines, because a few compressed bytes may expand to gigabytes, or to
millions of frames. Each frame has a line of its own, and takes longer to read than the bytes in it.
"""

from __future__ import annotations

# NATS traffic expands by a factor below 100. A large message of equal bytes may expand by a factor of 1000,
# but fits in the free bytes: servers limit a message to 64 MiB (server/const.go: MAX_PAYLOAD_MAX_SIZE).
_FREE_BYTES = 64 << 20
_MOST_EXPANSION = 250

# A message has two lines, its payload included. Equal messages of 150 bytes, in blocks of 64 KiB as servers
# send them, have eight lines for each compressed byte. A frame has six bytes or more.
_FREE_LINES = 1 << 16
_MOST_LINES = 16
_LINE_END = b"\r\n"


class Expansion:
    """Counts the compressed bytes, and the decompressed bytes and lines, of one direction."""

    def __init__(self) -> None:
        self._compressed = 0
        self._bytes = 0
        self._lines = 0

    def add(self, compressed: int, plain: bytes) -> bool:
        """Counts compressed bytes and their plaintext. Returns False if the total plaintext is too much: the
        rest should not be read."""
        self._compressed += compressed
        self._bytes += len(plain)
        self._lines += plain.count(_LINE_END)
        return (
            self._bytes <= _FREE_BYTES + _MOST_EXPANSION * self._compressed
            and self._lines <= _FREE_LINES + _MOST_LINES * self._compressed
        )
