"""The decisions about a connection, as lines of the logger `dissect.nats` at DEBUG.

Lines never contain payloads or secrets: they name rules, operations, sizes and places. A connection is traced
if the logger is enabled for DEBUG when its first bytes come; otherwise its trace is None, and a decision
costs one comparison.
"""

from __future__ import annotations

from logging import DEBUG, LogRecord, getLogger
from typing import NamedTuple

from ..types import Direction, Item

LOG = getLogger("dissect.nats")
_FORMAT = "%s: %s: packet %d: %s: offset %d: %s"


class TracedDecision(NamedTuple):
    """A decision, and where it was made: `number` is the packet in its file `capture` (0: after the last
    packet), and `offset` counts in the stream of `sender`, above the layers that were found before.
    """

    session: str
    capture: str
    number: int
    sender: str
    offset: int
    text: str


class Trace:
    """Notes the decisions about one connection."""

    __slots__ = ("session", "_capture", "_number", "_direction", "_offset")

    def __init__(self, session: str) -> None:
        self.session = session
        self._capture, self._number = "", 0
        self._direction, self._offset = Direction.ORIGINATOR, 0

    def at(self, direction: Direction, item: Item) -> None:
        """Sets the place of the next notes: an item of one direction."""
        self._capture, self._number = item.capture, item.number
        self._direction, self._offset = direction, item.offset

    def swap_roles(self) -> None:
        """Exchanges originator and responder."""
        self._direction = self._direction.other

    def note(self, text: str, offset: int | None = None) -> None:
        """Notes a decision; the `offset` is by default that of the item."""
        decision = TracedDecision(
            session=self.session,
            capture=self._capture,
            number=self._number,
            sender=self._direction.value,
            offset=self._offset if offset is None else offset,
            text=text,
        )
        LOG.debug(_FORMAT, *decision)

    def end(self, text: str) -> None:
        """Notes the verdict after the last packet, at packet 0."""
        self._number = self._offset = 0
        self.note(text)


def is_traced() -> bool:
    """Whether the decisions about new connections are traced."""
    return LOG.isEnabledFor(DEBUG)


def decision_of(record: LogRecord) -> TracedDecision:
    """The decision of a line of the logger."""
    assert isinstance(record.args, tuple)
    return TracedDecision(*record.args)  # type: ignore[arg-type]  # as `note` passes them
