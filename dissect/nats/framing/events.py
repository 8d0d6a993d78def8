"""Events of framing: batches of frames that one packet completed, and notes of oddities."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from natsync.protocol import Frame

from ..schema.anomalies import Anomaly
from ..types import Chunk, Direction, Gap, Item, Oddity


@dataclass(slots=True)
class Batch:
    """Frames of one sender that one packet completed; there is at least one.

    `ts_ns` is the time when the receiver could read them. `last` is from the packet that completed them, and
    `first` from the packet in which the first frame begins; the other frames begin in `last`. `gap` is the
    anomaly that explains missing bytes in the first frame; None if no bytes of it are missing. `number` is
    that of the first frame in its session, if another reader has numbered frames before it, else 0.
    """

    direction: Direction
    ts_ns: int
    first: Chunk | Gap
    last: Chunk | Gap
    frames: list[Frame]
    gap: Anomaly | None
    number: int = 0

    def parts(self, size: int) -> Iterator[Batch]:
        """The batch as batches of up to `size` frames."""
        first, gap = self.first, self.gap
        for start in range(0, len(self.frames), size):
            frames = self.frames[start : start + size]
            number = self.number and self.number + start
            yield Batch(self.direction, self.ts_ns, first, self.last, frames, gap, number)
            first, gap = self.last, None

    def __reduce__(self) -> tuple[type[Batch], tuple[object, ...]]:
        """Pickles a waiting batch without the bytes of its packets: only their positions are needed."""
        first, last = _bare(self.first, 0), _bare(self.last, self.last.offset)
        return Batch, (
            self.direction,
            self.ts_ns,
            first,
            last,
            self.frames,
            self.gap,
            self.number,
        )


def _bare(place: Chunk | Gap, offset: int) -> Chunk | Gap:
    """The same position without its bytes."""
    if isinstance(place, Gap):
        return replace(place, offset=offset)
    return Chunk(place.ts_ns, place.number, place.capture, offset, b"")


@dataclass(slots=True)
class Note:
    """An anomaly in one direction: where it was found, and which bytes it concerns."""

    direction: Direction
    ts_ns: int
    number: int
    capture: str
    anomaly: Anomaly
    offset: int
    length: int
    text: str = ""


Event = Batch | Note


OF_LAYERS = frozenset(
    {
        Anomaly.MPTCP_ELSEWHERE,
        Anomaly.WEBSOCKET_REFUSED,
        Anomaly.PROXY_REFUSED,
        Anomaly.TLS_ALERT,
        Anomaly.TLS_CERTIFICATE,
        Anomaly.TLS_OLD_VERSION,
        Anomaly.TLS_EARLY_DATA,
        Anomaly.TLS_ERROR,
    }
)
"""Anomalies of layers and TCP that are reported even if no NATS was seen: they may be the reason for that."""


def note_of(
    direction: Direction, item: Item, anomaly: Anomaly, offset: int, length: int, text: str = ""
) -> Note:
    """The note of an anomaly that an item of one direction showed."""
    return Note(direction, item.ts_ns, item.number, item.capture, anomaly, offset, length, text)


def note_of_oddity(direction: Direction, oddity: Oddity) -> Note:
    """The note of an oddity that a stage below has reported."""
    return note_of(direction, oddity, oddity.anomaly, oddity.offset, oddity.length, oddity.text)


def gap_anomaly(gap: Gap) -> Anomaly:
    """Why the bytes of a gap are missing."""
    return Anomaly.TRUNCATED if gap.truncated else Anomaly.LOST


def without_gap_notes(
    items: Sequence[Item], direction: Direction, *lists: list[Event]
) -> list[Item]:
    """Removes the notes of the gaps in `items` from lists of events, because the layer that takes the items
    reports its gaps itself. Returns the items; gaps whose notes the caller already has are marked as `noted`.
    """
    gaps = {item.offset for item in items if isinstance(item, Gap)}
    if not gaps:
        return list(items)
    removed: set[int] = set()
    for events in lists:
        again = [event for event in events if _is_of_gap(event, direction, gaps)]
        removed.update(event.offset for event in again if isinstance(event, Note))
        events[:] = [event for event in events if not _is_of_gap(event, direction, gaps)]
    return [
        replace(item, noted=True) if isinstance(item, Gap) and item.offset not in removed else item
        for item in items
    ]


def _is_of_gap(event: Event, direction: Direction, offsets: Container[int]) -> bool:
    """Whether an event is the note of a gap at one of these offsets."""
    if not isinstance(event, Note) or event.direction is not direction:
        return False
    return event.anomaly in (Anomaly.TRUNCATED, Anomaly.LOST) and event.offset in offsets


@dataclass(slots=True)
class RolesSwapped:
    """Events that show that originator and responder must be exchanged. They have the new directions."""

    events: list[Event]


class FramePosition(NamedTuple):
    """The position of a frame, for notes about it. The packet is the one in which the frame begins."""

    direction: Direction
    ts_ns: int
    number: int
    capture: str
    offset: int


def place_of(batch: Batch, frame: Frame) -> FramePosition:
    """The position of a frame of a batch."""
    packet = batch.first if frame is batch.frames[0] else batch.last
    return FramePosition(batch.direction, batch.ts_ns, packet.number, packet.capture, frame.offset)
