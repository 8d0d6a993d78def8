"""The framing of a connection whose bytes have all been read, while late packets may still belong to it.

A connection lingers for a minute after both FINs, and a busy server closes thousands in that time. The
decoders, buffers and evidence of each take some kilobytes and are no longer needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from natsync.protocol import Kind

from ..transport.layer import LayerOptions
from ..transport.stack import Stack
from ..types import Direction, Item, Oddity
from .connection import ConnectionFacts, ConnectionFraming
from .events import Event, Note, RolesSwapped, note_of_oddity
from .frame_stream import ByteCounts
from .state import Verdict

_NO_LAYERS = Stack(LayerOptions())
_ORIGINATOR = Direction.ORIGINATOR


@dataclass(slots=True, eq=False)
class FinishedFraming:
    """The facts that a `ConnectionFraming` knew at its end, and its last events, which `finish` returns."""

    facts: ConnectionFacts
    waiting: bool = False
    stack: Stack = _NO_LAYERS
    originator: ByteCounts = field(default_factory=ByteCounts)
    responder: ByteCounts = field(default_factory=ByteCounts)
    last: list[Event] | RolesSwapped = field(default_factory=list)
    is_steady = False

    @property
    def verdict(self) -> Verdict:
        """Whether the connection carries NATS."""
        return self.facts.verdict

    @property
    def kind(self) -> Kind | None:
        """The kind of the connection, as far as it is known."""
        return self.facts.kind

    @property
    def account(self) -> str:
        """The account to which a route is dedicated; empty for other connections."""
        return self.facts.account

    @property
    def layer_notes(self) -> list[Note]:
        """Always empty: the connection carries NATS."""
        return []

    def without_counts(self) -> FinishedFraming:
        """The same facts without the byte counts, which are not needed once the row of the session was made.
        Connections with the same facts share one object."""
        if self.last or self.stack.has_layers:
            return self
        return _shared(self.facts, self.waiting)

    def release_quota(self) -> None:
        """Does nothing: no bytes are held."""

    def byte_counts(self, direction: Direction) -> ByteCounts:
        """The byte counts of one direction."""
        return self.originator if direction is _ORIGINATOR else self.responder

    def feed(self, direction: Direction, items: Sequence[Item]) -> list[Event] | RolesSwapped:
        """The notes of oddities that late packets show. No more bytes can come."""
        return [note_of_oddity(direction, item) for item in items if isinstance(item, Oddity)]

    def finish(self) -> list[Event] | RolesSwapped:
        """The last events."""
        last, self.last = self.last, []
        return last


def finished(framing: ConnectionFraming) -> FinishedFraming:
    """Finishes the framing of a NATS connection. `framing` must not be used afterwards."""
    waiting = framing.waiting
    last = framing.finish()
    return FinishedFraming(
        facts=_same_facts(framing.facts),
        waiting=waiting,
        stack=framing.stack if framing.stack.has_layers else _NO_LAYERS,
        originator=framing.byte_counts(_ORIGINATOR),
        responder=framing.byte_counts(_ORIGINATOR.other),
        last=last or [],
    )


def without_bytes() -> FinishedFraming:
    """The framing of a connection that has ended without any payload, such as a SYN that nobody answered."""
    return _shared(ConnectionFacts(), False)


@lru_cache(maxsize=256)
def _same_facts(facts: ConnectionFacts) -> ConnectionFacts:
    """One object for equal facts, because many connections are alike."""
    return facts


@lru_cache(maxsize=256)
def _shared(facts: ConnectionFacts, waiting: bool) -> FinishedFraming:
    return FinishedFraming(facts, waiting)
