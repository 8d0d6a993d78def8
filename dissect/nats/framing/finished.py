"""The framing of a connection whose bytes have all been read, while late packets may still belong to it.

A connection lingers for a minute after both FINs, and a busy server closes thousands in that time. The
decoders, buffers and evidence of each take some kilobytes and are no longer needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from natsync.protocol import Kind

from ..transport.detect import Verdict
from ..transport.layer import LayerOptions
from ..transport.stack import Stack
from ..types import Direction, Item, Oddity
from .byte_counts import ByteCounts
from .connection import ConnectionFraming
from .events import Event, Note, RolesSwapped, note_of_oddity

_NO_LAYERS = Stack(LayerOptions())
_ORIGINATOR = Direction.ORIGINATOR


@dataclass(slots=True, eq=False)
class FinishedFraming:
    """The facts that a `ConnectionFraming` knew at its end, and its last events, which `finish` returns."""

    verdict: Verdict
    handshake: bool
    kind: Kind | None
    account: str
    transport: str
    compression: str | None
    protocol: str
    waiting: bool
    stack: Stack
    counts: tuple[ByteCounts, ByteCounts]  # of the originator and the responder
    last: list[Event] | RolesSwapped
    is_steady = False

    @property
    def layer_notes(self) -> list[Note]:
        """Always empty: the connection carries NATS."""
        return []

    def without_counts(self) -> FinishedFraming:
        """The same facts without the byte counts, which are not needed once the row of the session was made.
        Connections with the same facts share one object."""
        if self.last or self.stack.has_layers:
            return self
        names = self.account, self.transport, self.compression, self.protocol
        return _shared(self.verdict, self.handshake, self.kind, *names, self.waiting)

    def release_quota(self) -> None:
        """Does nothing: no bytes are held."""

    def byte_counts(self, direction: Direction) -> ByteCounts:
        """The byte counts of one direction."""
        return self.counts[direction is not _ORIGINATOR]

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
        framing.verdict,
        framing.handshake,
        framing.kind,
        framing.account,
        framing.transport,
        framing.compression,
        framing.protocol,
        waiting,
        framing.stack if framing.stack.has_layers else _NO_LAYERS,
        (framing.byte_counts(_ORIGINATOR), framing.byte_counts(_ORIGINATOR.other)),
        last or [],
    )


def without_bytes() -> FinishedFraming:
    """The framing of a connection that has ended without any payload, such as a SYN that nobody answered."""
    return _shared(Verdict.UNDECIDED, False, None, "", "tcp", None, "other", False)


@lru_cache(maxsize=256)
def _shared(
    verdict: Verdict,
    handshake: bool,
    kind: Kind | None,
    account: str,
    transport: str,
    compression: str | None,
    protocol: str,
    waiting: bool,
) -> FinishedFraming:
    names = account, transport, compression, protocol
    counts = ByteCounts(), ByteCounts()
    return FinishedFraming(verdict, handshake, kind, *names, waiting, _NO_LAYERS, counts, [])
