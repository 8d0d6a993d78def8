"""Why a connection was read as it was: the decisions about it, a line each.

    packet      2  <        0  NATS: the responder begins with INFO

A line has the packet in its file, the sender (`>` is the originator), the offset in the sender's stream, and
the decision. Offsets count above the layers that were found before, for example in the plaintext of TLS.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from logging import DEBUG, Handler, LogRecord

from ...capture import CaptureReport
from ...engine.dissection import Dissection
from ...framing.trace import LOG, TracedDecision, decision_of
from ...options import Options
from ...pipeline import timelines
from ...schema.declaration import ARROWS
from .detail import Unclear


def explanation(
    paths: Sequence[str], start: str, options: Options, report: CaptureReport
) -> Iterator[str]:
    """The decisions about the connection whose session id begins with `start`, as lines; it need not carry
    NATS. Raises Unclear, after the last packet, unless there is exactly one; lines already returned are then
    void."""
    decisions = _Decisions(start)
    level = LOG.level
    LOG.addHandler(decisions)
    LOG.setLevel(DEBUG)
    try:
        for timeline in timelines(paths, options, report):
            dissection = Dissection(["flows"], options)
            for _ in dissection.events(dissection.packets(timeline, report)):
                yield from decisions.lines()
        yield from decisions.lines()
    finally:
        LOG.setLevel(level)
        LOG.removeHandler(decisions)
    if len(decisions.ids) != 1:
        raise Unclear(start, decisions.ids, "connection")


class _Decisions(Handler):
    """Keeps the decisions about the first connection whose id begins with `start`; `ids` has all such ids."""

    def __init__(self, start: str) -> None:
        super().__init__(DEBUG)
        self.ids: dict[str, None] = {}
        self._start = start
        self._capture = ""
        self._made: list[TracedDecision] = []

    def emit(self, record: LogRecord) -> None:
        """Takes a line of the logger."""
        decision = decision_of(record)
        if decision.session.startswith(self._start):
            self.ids[decision.session] = None
            if decision.session == next(iter(self.ids)):
                self._made.append(decision)

    def lines(self) -> Iterator[str]:
        """The lines of the decisions since the last call."""
        made, self._made = self._made, []
        for decision in made:
            if decision.number and decision.capture != self._capture:
                self._capture = decision.capture
                yield f"{decision.session} in {self._capture}\n"
            place = f"packet {decision.number:>6}  {ARROWS[decision.sender]} {decision.offset:>8}"
            yield f"{place if decision.number else 'after the last packet':<25}  {decision.text}\n"
