"""When a flow is worth handing over.

To hand a connection over and to take it back takes as long as several packets in Python. So a connection has
to last for a while first, and one that is soon taken back has to wait for a number of its packets, twice as
many each time.
"""

from __future__ import annotations

from ..tcp.flow import Flow

# A connection is worth its hand-over if the kernel keeps this many packets: to stop, to take it back and to
# hand it over again takes as long as forty packets in Python, and finding out whether it may be handed over
# takes as long as half a packet.
WORTH = 64
"""The packets that a connection must have had before it is handed over for the first time: connections that
have lasted for so long are expected to last as long again. Many short ones (a storm of reconnections) stay
Python's, which takes half the time for them."""
_SHORTEST, _LONGEST = 64, 4096
_FIRST = 2
_MOST = 1 << 12  # flows that are noted, and so stay in memory


class Cooldown:
    """The packets for which each flow has to wait; `least` is how many it must have had first."""

    def __init__(self, least: int = WORTH) -> None:
        self._least = least
        self._waits: dict[Flow, list[int]] = {}  # packets to wait now, and the next time

    def passes(self, flow: Flow, packets: int) -> bool:
        """Counts packets of a flow; returns whether it has waited for long enough."""
        wait = self._waits.get(flow)
        if wait is None:
            return sum(side.packets for side in flow.sides) >= self._least
        wait[0] -= packets
        return wait[0] < 0

    def refuse(self, flow: Flow) -> None:
        """Notes that a flow could not be handed over."""
        wait = self._waits.get(flow)
        if wait is None:
            self._tidy()
            self._waits[flow] = [_FIRST, 2 * _FIRST]
        else:
            wait[0], wait[1] = wait[1], min(_LONGEST, 2 * wait[1])

    def note(self, flow: Flow, kept: int) -> None:
        """Notes how many packets the kernel has kept of a flow that was taken back."""
        wait = self._waits.get(flow)
        if kept >= WORTH:
            if wait:
                wait[0], wait[1] = 0, max(_SHORTEST, wait[1] // 4)
            return
        if wait is None:
            self._tidy()
            wait = self._waits[flow] = [0, _SHORTEST]
        wait[0] = wait[1] = max(_SHORTEST, wait[1])
        wait[1] = min(_LONGEST, 2 * wait[1])

    def _tidy(self) -> None:
        """Forgets flows that are over, if many are noted."""
        if len(self._waits) >= _MOST:
            self._waits = {flow: wait for flow, wait in self._waits.items() if not flow.over}
            if len(self._waits) >= _MOST // 2:
                self._waits.clear()
