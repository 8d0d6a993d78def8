"""S2: the compression of routes and leafnodes after both sides' first INFO (since server 2.10).

A stream consists of chunks: one byte of type, three of length, and data (google/snappy:
framing_format.txt). The server begins every flush with the stream identifier (server/client.go:
flushOutbound), and no block refers to an earlier one. So decompression can begin at any identifier: at the
first one of a capture that begins in the middle, and at the next one after a gap.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...schema.anomalies import Anomaly
from ...types import Direction, Gap, Item, Oddity
from ..expansion import Expansion
from ..layer import Layer, LayerColumn, LayerOptions, Transform, begins_nothing
from ..plaintext import Plaintext
from .codec import MOST_PLAIN_BYTES, BlockError, decode_block, masked_checksum

IDENTIFIER = b"\xff\x06\x00\x00S2sTwO"
SNAPPY_IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"

_COMPRESSED, _STORED, _IDENTIFIES = 0x00, 0x01, 0xFF
_FIRST_SKIPPABLE = 0x80  # up to 0xFE, which is padding
_HEAD_BYTES, _CHECKSUM_BYTES = 4, 4

# The largest compressed or stored chunk: a checksum and a block, which is at most a sixth larger than its
# plaintext (google/snappy: MaxCompressedLength).
_MOST_CHUNK_BYTES = _CHECKSUM_BYTES + 32 + MOST_PLAIN_BYTES * 7 // 6

# The limit of bytes that are decoded in vain: a constant plus a multiple of the bytes of the stream before
# them. After a false chunk, the next identifier is searched inside it, and hostile bytes may have an
# identifier every 18 bytes, each before a chunk of megabytes.
_FREE_VAIN_BYTES, _MOST_VAIN = 16 << 20, 4


class S2Transform:
    """Decompresses one direction.

    Bytes before the first identifier are skipped, and so are those between a gap or a damaged chunk and the
    next identifier.
    """

    done = False
    opaque = False

    def __init__(self) -> None:
        self._plain = Plaintext()
        self.counts = self._plain.counts
        self._held = bytearray()
        self._wanted_bytes = 0  # size of the incomplete chunk at the beginning of `_held`
        self._in_step = False  # whether `_held` begins with a chunk
        self._is_proven = False  # whether a checksum was right since the identifier
        self._expansion = Expansion()
        self._is_exhausted = False  # whether the stream has expanded too much
        self._vain_bytes = 0  # bytes of chunks that could not be decoded

    def feed(self, item: Item) -> list[Item]:
        """Returns a chunk of plaintext for each block that `item` completes."""
        plain = self._plain
        if isinstance(item, Oddity):
            plain.pass_on(item)
            return plain.hand_on()
        plain.take(item)
        if isinstance(item, Gap):
            self._skip(len(self._held))
            self._in_step, self._wanted_bytes = False, 0
            plain.lose(item.length)
            return plain.hand_on()
        self._held += item.data
        if len(self._held) < self._wanted_bytes:
            return plain.hand_on()
        self._wanted_bytes = 0
        if self._is_exhausted:
            self._skip(len(self._held))
        while self._in_step or self._find():
            if not self._take_chunk():
                break
        return plain.hand_on()

    def resume(self) -> list[Item]:
        """Returns nothing: neither direction waits for the other."""
        return []

    def finish(self) -> list[Item]:
        """Counts an incomplete chunk at the end as skipped."""
        self._skip(len(self._held))
        return self._plain.finish()

    def _find(self) -> bool:
        """Skips the bytes before the next identifier; returns whether there is one."""
        held = self._held
        found = held.find(IDENTIFIER)
        snappy = held.find(SNAPPY_IDENTIFIER, 0, found if found >= 0 else len(held))
        found = snappy if snappy >= 0 else found
        if found < 0:  # the last bytes may be the beginning of one
            self._skip(max(len(held) - len(IDENTIFIER) + 1, 0))
            return False
        self._skip(found)
        self._in_step, self._is_proven = True, False
        return True

    def _take_chunk(self) -> bool:
        """Takes the chunk with which `_held` begins. Returns False if no more chunks can be taken now."""
        held = self._held
        if len(held) < _HEAD_BYTES:
            return False
        kind, length = held[0], int.from_bytes(held[1:4], "little")
        size = _HEAD_BYTES + length
        if kind == _IDENTIFIES or kind >= _FIRST_SKIPPABLE:
            if kind == _IDENTIFIES and held[: len(IDENTIFIER)] not in _beginnings(len(held)):
                return self._fail("no stream identifier")
            if len(held) < size:
                self._wanted_bytes = size
                return False
            del held[:size]
            self._plain.count_overhead(size)
            return True
        if kind > _STORED:
            return self._fail(f"chunk of reserved type {kind:#04x}")
        if not _CHECKSUM_BYTES <= length <= _MOST_CHUNK_BYTES:
            return self._fail(f"chunk of {length} bytes")
        if len(held) < size:
            self._wanted_bytes = size
            return False
        return self._take_block(kind, size)

    def _take_block(self, kind: int, size: int) -> bool:
        overhead = _HEAD_BYTES + _CHECKSUM_BYTES
        block = bytes(self._held[overhead:size])
        checksum = int.from_bytes(self._held[_HEAD_BYTES:overhead], "little")
        try:
            plain = decode_block(block) if kind == _COMPRESSED else block
        except BlockError as error:
            return self._fail(str(error), self._passed_over(size))
        if masked_checksum(plain) != checksum:
            return self._fail("the checksum is wrong", self._passed_over(size))
        self._is_proven = True
        if not self._expansion.add(size, plain):
            self._is_exhausted = True
            self._plain.note(
                Anomaly.DECOMPRESSION_ERROR, "the rest is skipped: it expands too much"
            )
            self._skip(len(self._held))
            return False
        del self._held[:size]
        self._plain.count_overhead(overhead)
        self._plain.carry(plain, len(block))
        return True

    def _passed_over(self, size: int) -> int:
        """The number of bytes to skip after a chunk could not be decoded: one, or the whole chunk if too many
        bytes were decoded in vain."""
        self._vain_bytes += size
        before = self.counts.carried + self.counts.overhead + self.counts.skipped
        return 1 if self._vain_bytes <= _FREE_VAIN_BYTES + _MOST_VAIN * before else size

    def _fail(self, text: str, size: int = 1) -> bool:
        """Handles held bytes that are not a chunk: skips `size` of them, and searches for another identifier;
        returns whether there is one. If no valid chunk followed the last identifier, it was not really an
        identifier, and this is no anomaly."""
        if self._is_proven:
            self._plain.note(Anomaly.DECOMPRESSION_ERROR, text)
        self._in_step = False
        self._skip(size)
        return self._find()

    def _skip(self, size: int) -> None:
        del self._held[:size]
        self._plain.skip(size)


def _beginnings(size: int) -> tuple[bytes, bytes]:
    return IDENTIFIER[:size], SNAPPY_IDENTIFIER[:size]


def _replaces(data: bytes, frames: int) -> bool:
    return data[: len(IDENTIFIER)] == IDENTIFIER[: len(data)]


def _resumes(packet: bytes) -> bool:
    return packet.startswith(IDENTIFIER)


def _transforms(options: LayerOptions) -> Mapping[Direction, Transform]:
    return {direction: S2Transform() for direction in Direction}


LAYER = Layer(
    "s2",
    LayerColumn.COMPRESSION,
    begins_nothing,
    _replaces,
    _resumes,
    implies_nats=True,
    transforms=_transforms,
)
