"""Replies that are paired by order: PONG with PING, and +OK with operations in verbose mode."""

from __future__ import annotations

from ..durations import elapsed

_PINGS = 64


class Pings:
    """The PINGs of one endpoint and their PONGs. `rtt_ns` is the shortest time between the two."""

    __slots__ = ("rtt_ns", "sent", "answered", "_open")

    def __init__(self) -> None:
        self.rtt_ns: int | None = None
        self.sent = 0
        self.answered = 0
        # Not a deque, because an empty deque takes ten times the memory; this list stays short.
        self._open: list[int] = []

    def ping(self, ts_ns: int) -> None:
        """Adds a PING that this endpoint sent."""
        self.sent += 1
        if len(self._open) == _PINGS:
            del self._open[0]
        self._open.append(ts_ns)

    def pong(self, ts_ns: int) -> None:
        """Adds a PONG that the other endpoint sent."""
        self.answered += 1
        if self._open:
            rtt_ns = elapsed(ts_ns - self._open.pop(0))
            if rtt_ns is not None:
                self.rtt_ns = rtt_ns if self.rtt_ns is None else min(self.rtt_ns, rtt_ns)

    def reset(self) -> None:
        """Forgets open PINGs: after a gap they can no longer be paired."""
        self._open.clear()
        self.sent = self.answered = 0

    @property
    def unanswered(self) -> int:
        """The number of PINGs without a PONG; negative if there were more PONGs than PINGs."""
        return self.sent - self.answered


class Acknowledgements:
    """Compares the +OKs of a server with the operations that it acknowledges: CONNECT, PUB, SUB and UNSUB
    while the client is verbose, which it is until a CONNECT turns it off. +OK does not name its operation.
    """

    __slots__ = ("count", "_verbose", "_owed", "_since")

    def __init__(self) -> None:
        self.count = 0
        self._verbose = True
        self._owed = 0
        self._since = 0

    def connect(self, verbose: bool, operations: int) -> None:
        """Adds a CONNECT. `operations` is the number of operations so far, including the CONNECT itself: the
        server acknowledges it in the mode that it sets."""
        before = operations - 1
        if self._verbose:
            self._owed += before - self._since
        self._since = before
        self._verbose = verbose

    def unasked(self, operations: int) -> int:
        """The number of +OKs in excess of those that acknowledge `operations` operations."""
        owed = self._owed + (operations - self._since if self._verbose else 0)
        return max(0, self.count - owed)
