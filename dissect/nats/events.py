"""What framing hands on: frames that one packet completed, in a batch."""

from __future__ import annotations

from dataclasses import dataclass

from natsync.protocol import Frame

from .anomalies import Anomaly
from .wire import Chunk, Direction, Gap


@dataclass(slots=True)
class Batch:
    """Frames of one sender, completed by one packet; there is at least one.

    `ts_ns` is when the receiver could read them. `last` came with the packet that completed
    them, `first` with the one where the first frame begins; the others begin in `last`. `flaw` says
    why bytes are missing in the first frame, if any are.
    """

    direction: Direction
    ts_ns: int
    first: Chunk | Gap
    last: Chunk | Gap
    frames: list[Frame]
    flaw: Anomaly | None


@dataclass(slots=True)
class Note:
    """An oddity in one direction, where it was found, and what it is about."""

    direction: Direction
    ts_ns: int
    number: int
    capture: str
    anomaly: Anomaly
    offset: int
    length: int
    text: str = ""


Event = Batch | Note
