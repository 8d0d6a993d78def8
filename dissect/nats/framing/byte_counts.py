"""The byte counts of one direction. They add up: span = framed + skipped + missing + unfinished."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ByteCounts:
    """The byte counts of one stream, complete when the stream is finished.

    - `framed`: captured bytes of frames that were delivered;
    - `skipped`: captured bytes that were not decoded; those that are `opaque` belong to another layer (TLS,
      S2, WebSocket, a PROXY header), and the others lie between proven frames;
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
