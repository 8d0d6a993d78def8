"""The three states of a connection: undecided, a conversation in NATS, or another protocol.

A connection begins `Undecided` and becomes a `NatsConversation` or `OtherProtocol` for good. A state decides
about each item above the layers (`transport.decide` has the list); `ConnectionFraming` acts on the decision.
"""

from __future__ import annotations

from ..transport.decide import WAIT, Decision, FirstBytes, decide, decide_late
from ..transport.patterns import may_begin_nats
from ..transport.stack import Stack
from ..types import Chunk, Item
from .events import OF_LAYERS, Event, Note
from .frame_stream import FrameStream
from .state import Verdict


class Undecided:
    """The connection may carry NATS. Its first bytes are kept, and its events are held."""

    verdict = Verdict.UNDECIDED

    def __init__(self, midstream: bool) -> None:
        self.first_bytes = FirstBytes(midstream)
        self.held: list[Event] = []
        self.protocol = "other"

    @property
    def notes(self) -> list[Note]:
        """The notes of layers, which may tell why there is no NATS."""
        notes = [event for event in self.held if isinstance(event, Note)]
        return [note for note in notes if note.anomaly in OF_LAYERS]

    def decide(self, stack: Stack, stream: FrameStream, other: FrameStream, item: Item) -> Decision:
        """Decides by the first bytes. A direction whose first bytes are no frame is not searched for one."""
        resync, first = stream.resync, self.first_bytes
        if resync is None:  # opaque
            return WAIT
        first.add(stream.direction, item)
        if isinstance(item, Chunk) and not first.joined_late(stream.direction):
            resync.muted = not may_begin_nats(first.head(stream.direction))
        inside = resync.is_inside_payload(item.offset)
        return decide(first, stack, stream.direction, item, inside)

    def swap_roles(self) -> None:
        """Exchanges originator and responder."""
        self.first_bytes.swap_roles()
        for event in self.held:
            event.direction = event.direction.other

    def rejected(self, stack: Stack, events: list[Event]) -> OtherProtocol:
        """The state after the decision that this is no NATS; `events` were not held yet."""
        self.held += events
        return OtherProtocol(self.first_bytes.protocol(stack), self.notes)


class NatsConversation:
    """The connection carries NATS. A layer may still begin."""

    verdict = Verdict.NATS
    protocol = "nats"

    def __init__(self, midstream: bool) -> None:
        self._midstream = midstream

    @property
    def notes(self) -> list[Note]:
        """Always empty: notes are events of the conversation."""
        return []

    def decide(self, stack: Stack, stream: FrameStream, other: FrameStream, item: Item) -> Decision:
        """Decides whether a layer begins late."""
        is_first, is_sought = not stream.end, stream.resync is not None and stream.frames < 2
        if stream.is_opaque or not (is_first or is_sought) or not isinstance(item, Chunk):
            return WAIT
        return decide_late(
            stack, stream.direction, item, self._midstream, is_first, is_sought, other.layer
        )


class OtherProtocol:
    """The connection carries something else, and nothing of it is read any more."""

    verdict = Verdict.OTHER

    def __init__(self, protocol: str, notes: list[Note]) -> None:
        self.protocol = protocol
        self.notes = notes
