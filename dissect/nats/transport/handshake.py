"""A handshake before the bytes of a connection, as proxies have it: whole messages, then the layer above."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ..schema.anomalies import Anomaly
from ..schema.records import Value
from ..types import Chunk, Gap, Item, Oddity
from .layer import LayerBytes, rest_of

# The largest message. Each turn copies no more than that, whatever is held.
MESSAGE_BYTES = 16 << 10


class HandshakeTransform(ABC):
    """Removes the messages of a handshake from one direction. The bytes after it keep their offsets, so the
    transform is done after it. Where bytes are missing in the handshake, it ends.
    """

    opaque = False

    def __init__(self) -> None:
        self.counts = LayerBytes()
        self.facts: dict[str, Value] = {}
        self.done = False
        self._chunks: list[Chunk] = []  # not taken yet
        self._held = b""  # their bytes
        self._refusal = ""  # in the message that was taken last

    @abstractmethod
    def message(self, data: bytes) -> int | None:
        """Reads the message with which `data` begins, and returns its size; 0 if more bytes are needed, None
        if the handshake is over. `data` has MESSAGE_BYTES at most."""

    def refuse(self, text: str) -> None:
        """Reports that the message which is read refuses the connection."""
        self._refusal = text

    def feed(self, item: Item) -> list[Item]:
        """Takes messages; returns what follows the last one."""
        if isinstance(item, Oddity):
            return [item]
        if isinstance(item, Gap):
            return [*self.finish(), item]
        self._chunks.append(item)
        self._held += item.data
        found: list[Item] = []
        taken, begin = 0, self._chunks[0].offset
        while taken < len(self._held):
            data = self._held[taken : taken + MESSAGE_BYTES]
            size = self.message(data)
            if not size:
                self.done = size is None or len(data) == MESSAGE_BYTES
                break
            if self._refusal:
                place = item.ts_ns, item.number, item.capture, begin + taken, size
                found.append(Oddity(*place, Anomaly.PROXY_REFUSED, self._refusal))
                self._refusal = ""
            taken += size
        self._drop(taken)
        self.counts.overhead += taken
        return [*found, *self._chunks] if self.done else found

    def resume(self) -> list[Item]:
        """Returns nothing: neither direction waits for the other."""
        return []

    def finish(self) -> list[Item]:
        """Skips an incomplete message."""
        self.counts.skipped += len(self._held)
        self._drop(len(self._held))
        self.done = True
        return []

    def _drop(self, size: int) -> None:
        """Forgets the first bytes that are held."""
        self._held = self._held[size:]
        if not self._held:
            self._chunks = []
            return
        end = self._chunks[0].offset + size
        later = [chunk for chunk in self._chunks if chunk.offset + len(chunk.data) > end]
        self._chunks = [rest_of(chunk, end) for chunk in later]
