"""A cache of parsed control lines of messages.

Much traffic repeats its control lines, and looking one up costs a quarter of parsing it. If every subject,
reply or size is new, lines never repeat; then a look-up costs 6 % of decoding a message, and keeping a line
costs as much as parsing it (CPython 3.11). So the cache begins small, and grows only if its lines come again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from .frames import Frame, Message

__all__ = ["Line", "SeenLines"]

Line = tuple[Frame, int, int, int]
"""A control line: the frame without its body, sizes of body (-1: none), headers and whole frame."""

_FIRST_ROOM = 256
_MOST_ROOM = 4096
_LINE_BYTES = 160
_TRIAL = 4  # frames to read per kept line before `decide` judges whether the cache is worth it
_WORTH = 8  # it is, if at least one in this many frames begins with a kept line
_RENEWAL = 8  # unseen lines per kept line after which newer lines replace the kept ones
_REST = 64  # the same for the pause after a cache that was not worth it

_find_nothing: Callable[[bytes], None] = deque[bytes](
    maxlen=0
).append  # does not even hash the line


class SeenLines:
    """The lines of one grammar. The cache has three states:

    - `learning`: every new line is kept, until there is no more room;
    - looking: lines are only looked up. If that is worth it, the cache gets more room, up to a limit, and
      goes on learning; at the limit, newer lines later replace the kept ones. If it is not worth it, the
      lines are dropped, and the cache rests;
    - resting: nothing is kept or looked up for a while; then learning begins again with little room.

    The reader adds the number of frames that it reads to `frames`. While the cache is learning, the reader
    calls `keep`; otherwise, it adds the number of unknown lines to `unseen`, and calls `decide` when `unseen`
    exceeds `patience`.
    """

    __slots__ = (
        "get",
        "learning",
        "frames",
        "unseen",
        "patience",
        "_lines",
        "_room",
        "_kept",
        "_most",
    )

    def __init__(self) -> None:
        self._lines: dict[bytes, Line] = {}
        self.get: Callable[[bytes], Line | None] = self._lines.get
        """The meaning of a line; None if it is not known."""
        self.learning = True
        self.frames = 0
        self.unseen = 0
        self.patience = 0
        self._room = _FIRST_ROOM
        self._kept = 0
        self._most = 0

    def keep(self, line: bytes, message: Message, size: int) -> None:
        """Learns the line of `message`, whose body has `size` bytes. To be called only while `learning`."""
        self._kept += 1
        self.frames -= 1  # a new line says nothing about the worth of the cache
        if len(line) <= _LINE_BYTES:
            total = len(line) + size + 2
            self._lines[line] = message.placed(0, 0), size, message.header_bytes, total
        if self._kept >= self._room:
            self.learning = False
            self._most = self._room * _RENEWAL

    def decide(self) -> None:
        """Decides on the next state, from `frames` and `unseen`."""
        if self.unseen > self._most:
            self._lines.clear()
            self._learn(self._room)
        elif self.get is not _find_nothing and self.frames > self._room * _TRIAL:
            if (self.frames - self.unseen) * _WORTH < self.frames:
                self._rest()
            elif self._room < _MOST_ROOM:
                self._learn(self._room * 4)

    def _learn(self, room: int) -> None:
        self.learning = True
        self.get = self._lines.get
        self.frames = self.unseen = self.patience = 0
        self._room = room
        self._kept = len(self._lines)

    def _rest(self) -> None:
        self._lines.clear()
        self.get = _find_nothing
        self._room = _FIRST_ROOM
        self.unseen = 0
        self.patience = self._most = _FIRST_ROOM * _REST
