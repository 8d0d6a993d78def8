"""What messages begin with that the server takes: one of a subject and a size met before needs no second
look.

Known for as long as the server's INFO says the same. Any thread may call anything; single dictionary
operations, which are atomic, take the place of a lock.
"""

from __future__ import annotations

__all__ = ["Heads"]

_MOST = 4096  # of each; then they are learned anew


class Heads:
    """Of messages without headers: by subject and size of the payload, which is bytes."""

    __slots__ = ("get", "_plain", "_asks")

    def __init__(self) -> None:
        self._plain: dict[tuple[str, int], bytes] = {}
        self._asks: dict[tuple[str, int], tuple[bytes, bytes]] = {}
        self.get = self._plain.get
        """All before the payload of a message that wants no reply, if that is known."""

    def learn(self, subject: str, wire: bytes, size: int) -> None:
        """Notes a whole message that wants no reply and may be sent."""
        if len(self._plain) >= _MOST:
            self._plain.clear()
        self._plain[subject, size] = wire[: -size - 2]

    def ask(self, subject: str, reply: bytes, data: bytes | bytearray | memoryview) -> bytes | None:
        """A whole message that wants a reply, if it may be sent for sure."""
        known = self._asks.get((subject, len(data)))
        return b"".join((known[0], reply, known[1], data, b"\r\n")) if known else None

    def learn_ask(self, subject: str, reply: bytes, wire: bytes, size: int) -> None:
        """Notes a whole message that wants a reply and may be sent."""
        if len(self._asks) >= _MOST:
            self._asks.clear()
        head = wire[: -size - 2]
        end = head.rindex(b" ")
        self._asks[subject, size] = head[: end - len(reply)], head[end:]
