"""The limit of what compressed bytes may become: a few bytes can announce gigabytes."""

from __future__ import annotations

# NATS traffic expands by less than a hundred. A large message of equal bytes may expand by a thousand, and
# fits in the free bytes: servers limit a message to 64 MiB (server/const.go: MAX_PAYLOAD_MAX_SIZE).
_FREE_BYTES = 64 << 20
_MOST_EXPANSION = 250


class Expansion:
    """Adds up one direction of a compressed connection."""

    def __init__(self) -> None:
        self._compressed = 0
        self.plain_bytes = 0

    def add(self, compressed: int, plain: int) -> bool:
        """Counts bytes and their plaintext; False: that is too much, the rest should not be read."""
        self._compressed += compressed
        self.plain_bytes += plain
        return self.plain_bytes <= _FREE_BYTES + _MOST_EXPANSION * self._compressed
