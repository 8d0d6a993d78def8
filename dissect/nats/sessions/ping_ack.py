"""What is answered by position: PONGs answer PINGs in order, +OK operations in verbose mode."""

from __future__ import annotations

from collections import deque

_PINGS = 64


class Pings:
    """One side's PINGs and the PONGs they got. `rtt_ns` is the shortest time from one to the other."""

    __slots__ = ("rtt_ns", "sent", "answered", "_open")

    def __init__(self) -> None:
        self.rtt_ns: int | None = None
        self.sent = 0
        self.answered = 0
        self._open: deque[int] = deque(maxlen=_PINGS)

    def ping(self, ts_ns: int) -> None:
        """This side asks."""
        self.sent += 1
        self._open.append(ts_ns)

    def pong(self, ts_ns: int) -> None:
        """The other side answers."""
        self.answered += 1
        if self._open:
            rtt_ns = max(0, ts_ns - self._open.popleft())
            self.rtt_ns = rtt_ns if self.rtt_ns is None else min(self.rtt_ns, rtt_ns)

    def lose(self) -> None:
        """Something was not captured: what is open no longer pairs."""
        self._open.clear()
        self.sent = self.answered = 0

    @property
    def unanswered(self) -> int:
        """How many wait, as far as is known; negative if there were more PONGs than PINGs."""
        return self.sent - self.answered


class Acknowledgements:
    """How many +OK a server may have sent: one for each CONNECT, PUB, SUB and UNSUB while the client was
    verbose, which it is until a CONNECT says otherwise. Which operation one is for it does not say.
    """

    __slots__ = ("given", "_verbose", "_owed", "_since")

    def __init__(self) -> None:
        self.given = 0
        self._verbose = True
        self._owed = 0
        self._since = 0

    def connect(self, verbose: bool, operations: int) -> None:
        """A CONNECT, itself among `operations`: all that were sent so far. It is answered in its own
        mode."""
        before = operations - 1
        if self._verbose:
            self._owed += before - self._since
        self._since = before
        self._verbose = verbose

    def unasked(self, operations: int) -> int:
        """How many +OK there were beyond what `operations` account for."""
        owed = self._owed + (operations - self._since if self._verbose else 0)
        return max(0, self.given - owed)
