"""Keeps the events of a connection in time order while one of its directions waits for missing bytes."""

from __future__ import annotations

from ..framing.events import Batch, Event
from .connections import Connection

# Frames delayed by a gap are merged into time order with the other direction, if the gap ends within this
# time and number of frames.
_LATE_NS = 1_000_000_000
_LATE_FRAMES = 1000


class EventOrder:
    """Holds the events of a connection while bytes are missing in one direction. Otherwise frames after a gap
    would come after frames that the other side sent later: a reply would come before its request.
    """

    def __init__(self, connection: Connection) -> None:
        self._held: list[Event] = []
        self._connection = connection
        self._frames = 0
        first, second = connection.flow.sides
        self._first, self._second = first.stream, second.stream

    @property
    def is_clear(self) -> bool:
        """Whether the next events are released at once."""
        return not (self._held or self._waits())

    def add(self, events: list[Event]) -> list[Event]:
        """Adds events; returns those that are due, in order of time."""
        if not self.is_clear:
            events = self._released(events)
        if len(events) > 1:
            events.sort(key=_time)
        return events

    def _waits(self) -> bool:
        """Whether missing bytes may still arrive."""
        if self._first.held or self._second.held:
            return not self._connection.over
        return self._connection.framing.waiting and not self._connection.over

    def _released(self, events: list[Event]) -> list[Event]:
        held = self._held
        held += events
        self._frames += sum(len(event.frames) for event in events if isinstance(event, Batch))
        if self._waits() and self._frames < _LATE_FRAMES:
            if not held or held[-1].ts_ns - held[0].ts_ns < _LATE_NS:
                return []
        self._held, self._frames = [], 0
        return held


def _time(event: Event) -> int:
    return event.ts_ns
