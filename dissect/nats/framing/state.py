"""The state machines of framing, one table each. An event that a state does not list is an error.

A stream (one direction) is in one state at a time:

    SEEKING --STARTS--> STARTING --CHUNK--> FRAMING --LOSS--> SEEKING --PROVEN--> FRAMING

A layer that cannot be decoded makes it OPAQUE until the end. The states of a connection are classes, one
for each `Verdict` (`verdicts`). Its kind (client, route, ...) is inferred from operations until INFO or
CONNECT confirms it; a route is complete when the INFOs of both servers have shown how its lines are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import TypeVar

_State = TypeVar("_State", bound=Enum)
_Event = TypeVar("_Event", bound=Enum)


class StreamState(Enum):
    """How the bytes of a stream are treated."""

    SEEKING = auto()  # a resynchronizer looks for the start of a frame
    STARTING = auto()  # the next chunk begins with a frame
    FRAMING = auto()  # a decoder reads frames
    OPAQUE = auto()  # counted, not decoded
    FINISHED = auto()


class StreamEvent(Enum):
    """Events that change the state of a stream."""

    STARTS = auto()  # the first bytes show that the stream begins with a frame
    CHUNK = auto()  # the first chunk of a stream that begins with a frame
    PROVEN = auto()  # consecutive frames prove where a frame begins
    LOSS = auto()  # a gap swallowed a control line, or bytes are not a frame
    LAYER = auto()  # a layer begins that cannot be decoded
    END = auto()


STREAM: Mapping[StreamState, Mapping[StreamEvent, StreamState]] = {
    StreamState.SEEKING: {
        StreamEvent.STARTS: StreamState.STARTING,
        StreamEvent.PROVEN: StreamState.FRAMING,
        StreamEvent.LAYER: StreamState.OPAQUE,
        StreamEvent.END: StreamState.FINISHED,
    },
    StreamState.STARTING: {
        StreamEvent.CHUNK: StreamState.FRAMING,
        StreamEvent.LOSS: StreamState.SEEKING,
        StreamEvent.LAYER: StreamState.OPAQUE,
        StreamEvent.END: StreamState.FINISHED,
    },
    StreamState.FRAMING: {
        StreamEvent.LOSS: StreamState.SEEKING,
        StreamEvent.LAYER: StreamState.OPAQUE,
        StreamEvent.END: StreamState.FINISHED,
    },
    StreamState.OPAQUE: {StreamEvent.END: StreamState.FINISHED},
    StreamState.FINISHED: {},
}


class Verdict(Enum):
    """Whether a connection carries NATS. Only the first one may change."""

    UNDECIDED = auto()
    NATS = auto()
    OTHER = auto()


class KindState(Enum):
    """How well the kind of a connection is known."""

    UNKNOWN = auto()
    INFERRED = auto()  # from operations: a line that does not fit corrects it
    CONFIRMED = auto()  # by INFO, CONNECT or the user
    COMPLETE = auto()  # a confirmed route of which both INFOs were seen


class KindEvent(Enum):
    """Events that make the kind better known."""

    INFER = auto()
    CONFIRM = auto()
    COMPLETE = auto()


KIND: Mapping[KindState, Mapping[KindEvent, KindState]] = {
    KindState.UNKNOWN: {
        KindEvent.INFER: KindState.INFERRED,
        KindEvent.CONFIRM: KindState.CONFIRMED,
    },
    KindState.INFERRED: {
        KindEvent.INFER: KindState.INFERRED,
        KindEvent.CONFIRM: KindState.CONFIRMED,
    },
    KindState.CONFIRMED: {
        # The operations of a confirmed route still show whether its lines name accounts.
        KindEvent.INFER: KindState.CONFIRMED,
        # CONNECT counts more than the INFO before it.
        KindEvent.CONFIRM: KindState.CONFIRMED,
        KindEvent.COMPLETE: KindState.COMPLETE,
    },
    KindState.COMPLETE: {KindEvent.CONFIRM: KindState.CONFIRMED},
}


def next_state(
    table: Mapping[_State, Mapping[_Event, _State]], state: _State, event: _Event
) -> _State:
    """The state after an event. Raises ValueError if the table does not allow the event."""
    found = table[state].get(event)
    if found is None:
        raise ValueError(f"{event} is not allowed in {state}")
    return found
