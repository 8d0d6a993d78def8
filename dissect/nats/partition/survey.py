"""A stretch of a capture, dissected without knowing what was before: states, and strides over it.

    survey = Survey(tables, options)
    survey.run(segments)
    survey.states()   # of flows that were not known before, by their names: what they are
    survey.strides()  # of flows that may have been: what `Dissector.jump` takes

The stages are those of a quiet dissection. Beside them each flow is followed: are its packets all in order,
which frames were read from which bytes on, and which of them does a session have to see.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ..engine.connections import PacketEvents
from ..engine.session_tables import Rows
from ..options import Options
from ..tcp.flow import reversed_key, undirected
from ..types import Segment, Tick
from .checkpoint import Dissector
from .summary import DirectionBuilder, FlowSummaryBuilder

# How many flows are followed; any other one's packets have to be read.
_FLOWS = 1 << 16


class Survey(Dissector):
    """A quiet dissection that gives strides as well."""

    def __init__(self, tables: Collection[str], options: Options) -> None:
        super().__init__(tables, options, quiet=True)
        self._carries = "subscriptions" in tables
        self._tracks: dict[bytes, DirectionBuilder | None] = {}  # by the keys of segments
        self._latest_ns = 0

    def take(self, source: Iterable[Segment | Tick], together: bool = True) -> Iterator[Rows]:
        """Takes segments; there are no records."""
        groups = self._talks.take(self._watched(source))
        return self._folds.take(self._heard(groups), together)

    def run(self, source: Iterable[Segment | Tick]) -> None:
        """Takes segments."""
        for _ in self.take(source):
            pass

    def states(self) -> dict[bytes, bytes]:
        """As `save`."""
        return self.save()

    def strides(self) -> dict[bytes, bytes]:
        """The strides of flows that may have begun before, by `flows.undirected`."""
        return {
            undirected(track.key): track.trail.stride(self._latest_ns, self._carries).packed()
            for track in self._tracks.values()
            if track and not track.number
        }

    def _watched(self, source: Iterable[Segment | Tick]) -> Iterator[Segment | Tick]:
        tracks = self._tracks
        for segment in source:
            if segment.ts_ns > self._latest_ns:
                self._latest_ns = segment.ts_ns
            if segment.__class__ is not Segment:
                yield segment
                continue
            key = segment.key
            track = tracks[key] if key in tracks else self._met(segment)
            if track is not None and not track.follow(segment):
                self._spoil(track.trail)
            yield segment

    def _met(self, segment: Segment) -> DirectionBuilder | None:
        """A new flow."""
        key, tracks = segment.key, self._tracks
        if len(tracks) >= 2 * _FLOWS:
            return None
        back = reversed_key(key)
        if back == key:
            tracks[key] = tracks[back] = None
            return None
        tracks[key], tracks[back] = FlowSummaryBuilder(key, back).tracks
        return tracks[key]

    def _spoil(self, trail: FlowSummaryBuilder) -> None:
        for track in trail.tracks:
            self._tracks[track.key] = None

    def _heard(self, groups: Iterable[PacketEvents]) -> Iterator[PacketEvents]:
        tracks = self._tracks
        for group in groups:
            for connection, events in group.connections:
                track = tracks.get(connection.flow.sides[0].key)
                if track is not None and track.trail.steps is not None:
                    track.trail.hear(connection, events)
            yield group
