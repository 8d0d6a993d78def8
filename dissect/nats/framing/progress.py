"""Where a stream of frames stands: what moves when another reader reads on, and when it stops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..types import Chunk, Gap

_FILLER = bytes(1 << 16)


class Progress(NamedTuple):
    """Where a stream stands in its bytes: all bytes before `end` were read, and the frame in progress begins
    at `start`. Of it, the control line (as far as it was read) and the headers are kept; `left` bytes of its
    body are yet to come, 0 while the line is not complete. `ts_ns` is the latest time, `frames` the number of
    whole frames, `first` the packet in which the frame in progress begins, if it is known here."""

    start: int
    end: int
    ts_ns: int
    line: bytes = b""
    headers: bytes = b""
    left: int = 0
    frames: int = 0
    first: Chunk | Gap | None = None

    def bytes_after(self, known: int) -> Iterator[bytes]:
        """The bytes of the frame in progress after the first `known` ones. Zeros stand for those of the
        payload, which is not kept."""
        count = self.end - self.start
        if count == known:
            return
        text = self.line + self.headers
        if known < len(text):
            yield text[known:]
        last = b"\r" if self.left == 1 else b""
        filler = count - max(known, len(text)) - len(last)
        while filler > 0:
            yield _FILLER[:filler]
            filler -= len(_FILLER)
        if last:
            yield last
