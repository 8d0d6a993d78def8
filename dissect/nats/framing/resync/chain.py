"""The consecutive frames that begin at a candidate. A resynchronizer counts them before it accepts the
candidate.

Each control line is read in all contexts that fit the lines before it; a line that fits none of them refutes
the chain.
"""

from __future__ import annotations

from natsync.protocol import Context

from ...transport.patterns import START_BYTES
from ..contexts import FREE, UNSPECIFIC, ContextReader, reader_in


class Chain:
    """Consecutive frames from `start`; the next one must begin at `next`. `ops` are their
    operations."""

    __slots__ = (
        "start next stop searched frames aligned at_packet_end readers ops dotted proof _anchor"
    ).split()

    def __init__(self, start: int, contexts: tuple[Context, ...]) -> None:
        self.start = start
        self.next = start
        self.stop = 0  # where the body in progress ends; 0: there is no body
        self.searched = start  # there is no line end between `next` and this offset
        self.frames = 0
        self.aligned = 0  # the number of packets in a row that ended where a frame ends
        self.at_packet_end = False  # whether the last frame ends where a packet ends
        self.readers = [reader_in(context) for context in contexts]
        self.ops: set[str] = set()
        self.proof = ""  # why the frames are accepted, in words
        self.dotted = False  # whether a field that was read as an account name has a dot in it
        self._anchor: tuple[int, int, set[str]] | None = None  # see `anchor`

    @property
    def contexts(self) -> tuple[Context, ...]:
        """The contexts that fit all frames."""
        return tuple(reader.context for reader in self.readers)

    @property
    def specific(self) -> bool:
        """Whether the frames can only be NATS."""
        return bool(self.ops - UNSPECIFIC)

    def anchor(self) -> None:
        """Notes that the next frame begins where a packet begins: from there on, frames may be proven even if
        those before are not. Only the first call has an effect."""
        if self._anchor is None:
            self._anchor = self.next, self.frames, set()

    def shorten(self) -> bool:
        """Drops the frames before the one that `anchor` noted; returns whether any are left."""
        if self._anchor is None or self._anchor[1] == self.frames:
            return False
        self.start, before, self.ops = self._anchor
        self.frames -= before
        return True

    def readers_of(self, op: bytes) -> list[ContextReader]:
        """The readers of the contexts in which this operation is normally sent."""
        return [reader for reader in self.readers if op not in reader.unnatural]

    def read(self, line: bytes) -> int | None:
        """The size of the body after a control line; None if the line does not fit the lines before it."""
        op = line[: line.find(b" ")] if b" " in line[:START_BYTES] else line[:-2]
        readers = self.readers_of(op)
        if op in FREE:  # is parsed in the same way in every context
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
        if len(some) == 1 and not some[0].names_accounts:  # the usual case after a gap
            alone = some[0].read(line)
            return (some, alone[1]) if alone else ([], None)
        read = [(reader, found) for reader in some if (found := reader.read(line))]
        for _, (frame, _) in read:
            self.dotted = self.dotted or b"." in getattr(frame, "account", b"")
        return [reader for reader, _ in read], read[0][1][1] if read else None
