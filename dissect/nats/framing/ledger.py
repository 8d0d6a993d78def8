"""Where the bytes of one direction went. The sums close: span = framed + skipped + missing + unfinished."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Ledger:
    """Counts of bytes of one stream, complete when the stream was finished.

    `framed` are captured bytes in frames that were handed on, `skipped` captured ones that were not
    decoded (between frames that are sure, or inside TLS, S2 or WebSocket), `missing` those that were
    sent but not captured, inside frames or not, `unfinished` the start of a frame that never ended.
    """

    framed: int = 0
    skipped: int = 0
    missing: int = 0
    unfinished: int = 0

    @property
    def span(self) -> int:
        """All of it: the number of bytes that were sent."""
        return self.framed + self.skipped + self.missing + self.unfinished
