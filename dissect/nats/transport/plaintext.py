"""The output of a transform: chunks whose offsets count plaintext, gaps, and notes of skipped bytes."""

from __future__ import annotations

from ..schema.anomalies import Anomaly
from ..types import Chunk, Gap, Item, Oddity
from .layer import LayerBytes

# Pieces that one item of the layer below completes are joined to chunks of up to this many bytes, because
# reading a chunk of one byte takes as long as reading a large one. Larger pieces are not copied again.
_JOINED_BYTES = 1 << 14


class Plaintext:
    """Collects the plaintext of one direction of a layer. `take` an item first, then report what became of
    it.

    Offsets begin at the offset of the first item. If the length of missing plaintext is unknown, its gap is
    as long as the missing bytes of the layer below.
    """

    def __init__(self) -> None:
        self.counts = LayerBytes()
        self.offset = -1
        """The offset of the next byte."""

        self._out: list[Item] = []
        self._pieces: list[bytes] = []  # of the latest item, not in `_out` yet
        self._piece_bytes = 0
        self._latest: Chunk | Gap | None = None
        self._skipped = 0  # skipped bytes that are not noted yet
        self._has_begun = False  # whether there was any plaintext
        self._is_interrupted = False  # whether there is a gap after the latest byte

    def take(self, item: Chunk | Gap) -> None:
        """Begins with the next item of the layer below. What it completes gets its time and packet."""
        if self._pieces:
            self._join()
        self._latest = item
        if self.offset < 0:
            self.offset = item.offset
        if isinstance(item, Gap):
            self.counts.missing += item.length

    def hand_on(self) -> list[Item]:
        """Returns the items made since the last call."""
        if self._pieces:
            self._join()
        out, self._out = self._out, []
        return out

    def carry(self, data: bytes, size: int) -> None:
        """Adds the plaintext `data`, which `size` bytes of the layer below became."""
        self.counts.carried += size
        if not data:
            return
        if self._skipped:
            self._note_skipped()
        self._has_begun, self._is_interrupted = True, False
        if self._pieces and self._piece_bytes + len(data) > _JOINED_BYTES:
            self._join()
        self._pieces.append(data)
        self._piece_bytes += len(data)

    @property
    def latest(self) -> Chunk:
        """The chunk that was taken last."""
        assert isinstance(self._latest, Chunk)
        return self._latest

    def count_overhead(self, size: int) -> None:
        """Counts `size` bytes that belong to the layer itself."""
        self.counts.overhead += size

    def lose(self, length: int) -> None:
        """Adds a gap of `length` bytes, which are missing below or became no plaintext."""
        item = self._latest
        assert item
        if self._pieces:
            self._join()
        if self._skipped:
            self._note_skipped(gap=False)
        truncated, noted = (item.truncated, item.noted) if isinstance(item, Gap) else (False, False)
        place = item.ts_ns, item.number, item.capture
        self._out.append(Gap(*place, self.offset, length, truncated, noted))
        self.offset += length
        self._is_interrupted = True

    def skip(self, size: int) -> None:
        """Counts `size` captured bytes that are not decoded. A note reports them before the next
        plaintext."""
        self.counts.skipped += size
        self._skipped += size

    def hide(self, size: int) -> None:
        """Counts `size` captured bytes that stay encrypted. No note reports them, because this is
        expected."""
        self.counts.skipped += size

    @property
    def ts_ns(self) -> int:
        """The time of the item that was taken last."""
        assert self._latest
        return self._latest.ts_ns

    def note(self, anomaly: Anomaly, text: str) -> None:
        """Reports an oddity at the item that was taken last."""
        if self._pieces:
            self._join()
        self._out.append(self._oddity(anomaly, 0, text))

    def pass_on(self, oddity: Oddity) -> None:
        """Passes on an oddity that a layer below has reported."""
        if self._pieces:
            self._join()
        self._out.append(oddity)

    def finish(self) -> list[Item]:
        """Returns the remaining items."""
        if self._skipped:
            self._note_skipped(gap=False)
        return self.hand_on()

    def _join(self) -> None:
        item = self._latest
        assert item
        data = b"".join(self._pieces)
        self._pieces, self._piece_bytes = [], 0
        self._out.append(Chunk(item.ts_ns, item.number, item.capture, self.offset, data))
        self.offset += len(data)

    def _note_skipped(self, gap: bool = True) -> None:
        if self._pieces:
            self._join()
        skipped, self._skipped = self._skipped, 0
        self._out.append(self._oddity(Anomaly.SKIPPED, skipped))
        if gap and self._has_begun and not self._is_interrupted:
            self.lose(skipped)

    def _oddity(self, anomaly: Anomaly, length: int, text: str = "") -> Oddity:
        item = self._latest
        assert item
        place = item.ts_ns, item.number, item.capture
        return Oddity(*place, self.offset, length, anomaly, text)
