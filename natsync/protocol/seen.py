"""A cache of parsed control lines of messages.

Much traffic repeats itself, and a look-up costs a quarter of parsing a line. Traffic whose every subject,
reply or size is new does not, and then a look-up costs 6 % of decoding a message, keeping its line as much
as parsing it (CPython 3.11). So lines are kept a few at a time, and more only where they are met again.
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
_TRIAL = 4  # frames that are read, for each line that is kept, before it is decided
_WORTH = 8  # one frame of so many must begin with a line that is kept
_RENEWAL = 8  # unseen lines, for each one that is kept, until newer ones get their room
_REST = 64  # the same, where keeping them was not worth it

_find_nothing: Callable[[bytes], None] = deque[bytes](
    maxlen=0
).append  # does not even hash the line


class SeenLines:
    """The lines of one grammar. There are three states:

    - `learning`, where every line is kept, until there is no more room;
    - looking, where lines are only looked up. If that is worth it, there is more room, up to a limit, and
      learning goes on; later the lines make room for newer ones. If it is not, they are forgotten;
    - and resting: nothing is kept or looked up for a while, before learning begins again with little room.

    The reader adds the frames that it reads to `frames`. While learning it calls `keep`; otherwise it adds
    the lines that were not known to `unseen`, and calls `decide` where these exceed `patience`.
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
        self.frames -= 1  # it could not be met before
        if len(line) <= _LINE_BYTES:
            total = len(line) + size + 2
            self._lines[line] = message.placed(0, 0), size, message.header_bytes, total
        if self._kept >= self._room:
            self.learning = False
            self._most = self._room * _RENEWAL

    def decide(self) -> None:
        """Decides what to do from now on."""
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
