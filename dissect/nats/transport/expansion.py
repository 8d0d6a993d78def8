"""A limit on decompressed bytes, because a few compressed bytes may expand to gigabytes."""

from __future__ import annotations

# NATS traffic expands by a factor below 100. A large message of equal bytes may expand by a factor of 1000,
# but fits in the free bytes: servers limit a message to 64 MiB (server/const.go: MAX_PAYLOAD_MAX_SIZE).
_FREE_BYTES = 64 << 20
_MOST_EXPANSION = 250


class Expansion:
    """Counts the compressed and the decompressed bytes of one direction."""

    def __init__(self) -> None:
        self._compressed = 0
        self.plain_bytes = 0

    def add(self, compressed: int, plain: int) -> bool:
        """Counts compressed bytes and their plaintext. Returns False if the total plaintext is too much: the
        rest should not be read."""
        self._compressed += compressed
        self.plain_bytes += plain
        return self.plain_bytes <= _FREE_BYTES + _MOST_EXPANSION * self._compressed
