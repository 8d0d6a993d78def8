"""Consecutive frames from a candidate on: what a resynchronizer counts before it accepts the candidate.

Control lines are read in every context that the lines before them have left; a line that fits none refutes
the chain.
"""

from __future__ import annotations

from natsync.protocol import Context

from ...transport.detect import START_BYTES
from ..contexts import FREE, UNSPECIFIC, ContextReader, reader_in


class Chain:
    """Consecutive frames from `start`; the next one must begin at `next`. `ops` are their
    operations."""

    __slots__ = (
        "start next stop searched frames aligned at_packet_end readers ops dotted _anchor"
    ).split()

    def __init__(self, start: int, contexts: tuple[Context, ...]) -> None:
        self.start = start
        self.next = start
        self.stop = 0  # where the body in progress ends; 0: none is
        self.searched = start  # no line end before here
        self.frames = 0
        self.aligned = 0  # how many packets in a row ended where a frame did
        self.at_packet_end = False  # whether the last frame ends with a packet
        self.readers = [reader_in(context) for context in contexts]
        self.ops: set[str] = set()
        self.dotted = False  # whether an account, where one is read, has a dot in it
        self._anchor: tuple[int, int, set[str]] | None = None  # see `anchor`

    @property
    def contexts(self) -> tuple[Context, ...]:
        """The contexts that fit all frames."""
        return tuple(reader.context for reader in self.readers)

    @property
    def specific(self) -> bool:
        """Whether this can only be NATS."""
        return bool(self.ops - UNSPECIFIC)

    def anchor(self) -> None:
        """Notes that the next frame begins with a packet: it may be proven where those before it are not."""
        if self._anchor is None:
            self._anchor = self.next, self.frames, set()

    def shorten(self) -> bool:
        """Drops the frames before the one that was noted; returns whether any are left."""
        if self._anchor is None or self._anchor[1] == self.frames:
            return False
        self.start, before, self.ops = self._anchor
        self.frames -= before
        return True

    def readers_of(self, op: bytes) -> list[ContextReader]:
        """The readers whose sender sends this operation."""
        return [reader for reader in self.readers if op not in reader.unnatural]

    def read(self, line: bytes) -> int | None:
        """The size of the body after a control line; None if the line does not fit the others."""
        op = line[: line.find(b" ")] if b" " in line[:START_BYTES] else line[:-2]
        readers = self.readers_of(op)
        if op in FREE:  # reads the same in every context
            found = readers[0].read(line) if readers else None
            kept, size = (readers, found[1]) if found else ([], None)
        else:
            kept, size = self._fit(line, readers)
        if kept:
            self.readers = kept
            self.ops.add(op.decode())
            if self._anchor:
                self._anchor[2].add(op.decode())
        return size

    def _fit(
        self, line: bytes, some: list[ContextReader]
    ) -> tuple[list[ContextReader], int | None]:
        if len(some) == 1 and not some[0].names_accounts:  # as it mostly is after a gap
            alone = some[0].read(line)
            return (some, alone[1]) if alone else ([], None)
        read = [(reader, found) for reader in some if (found := reader.read(line))]
        for _, (frame, _) in read:
            self.dotted = self.dotted or b"." in getattr(frame, "account", b"")
        return [reader for reader, _ in read], read[0][1][1] if read else None
