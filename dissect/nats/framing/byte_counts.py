"""Where the bytes of one direction went. The sums close: span = framed + skipped + missing + unfinished."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ByteCounts:
    """Counts of bytes of one stream, complete when the stream was finished.

    `framed` are captured bytes in frames that were handed on, `skipped` captured ones that were not
    decoded, `missing` those that were sent but not captured, inside frames or not, `unfinished` the start
    of a frame that never ended. `opaque` are those of the skipped that are known to be something else:
    inside TLS, S2 or WebSocket, or a PROXY header. The other skipped ones lie between frames that are sure.
    """

    framed: int = 0
    skipped: int = 0
    missing: int = 0
    unfinished: int = 0
    opaque: int = 0

    @property
    def span(self) -> int:
        """All of it: the number of bytes that were sent."""
        return self.framed + self.skipped + self.missing + self.unfinished
