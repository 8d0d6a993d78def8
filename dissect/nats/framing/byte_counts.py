"""Where the bytes of one direction went. The sums close: span = framed + skipped + missing + unfinished."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ByteCounts:
    """Counts of bytes of one stream, complete when the stream was finished.

    - `framed`: captured bytes of frames that were handed on;
    - `skipped`: captured bytes that were not decoded; those that are `opaque` are of another layer (TLS, S2,
      WebSocket, a PROXY header), and the others lie between frames that are proven;
    - `missing`: bytes that were sent but not captured, inside frames or between them;
    - `unfinished`: the beginning of a frame that never ended.
    """

    framed: int = 0
    skipped: int = 0
    missing: int = 0
    unfinished: int = 0
    opaque: int = 0

    @property
    def span(self) -> int:
        """The number of bytes that were sent."""
        return self.framed + self.skipped + self.missing + self.unfinished
