"""Segments -> talks: flows with what is said on them, in an order that is the same on every machine.

What a segment releases is a `Group`: flows that it shows to be over come first, by their beginning. When
the segments end, every flow that is left is a group, by its beginning. So the order of all groups is
known from their releases alone, and groups of different flows that were found apart can be put together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from natsync.protocol import Kind

from .events import Event
from .flows import Delivery, Flow, FlowTable
from .framing import Budget, Conversation, Payload, Verdict
from .options import Options
from .reassembly import Stream
from .wire import Direction, Segment

_LAST = 1 << 62  # behind every packet


@dataclass(slots=True, eq=False)
class Talk:
    """A flow and what is said on it. `capture` is the file of its first byte, or of its first packet
    where there is no byte. `over`: that was all."""

    flow: Flow
    conversation: Conversation
    capture: str
    over: bool = False

    @property
    def is_nats(self) -> bool:
        """Whether it is known to carry NATS."""
        return self.conversation.verdict is Verdict.NATS


class Release(NamedTuple):
    """When a group came free: with which packet of all that were read; behind the last one, in which
    order."""

    packet: int
    first_ns: int = 0
    session: str = ""


class Group(NamedTuple):
    """What was released at once: talks, each once, and the events that are new in each. Talks that carry
    no NATS have none; they come once, when they are over."""

    release: Release
    talks: list[tuple[Talk, list[Event]]]


@dataclass(slots=True)
class Clock:
    """How many packets were read so far."""

    packets: int = 0


def talks(source: Iterable[Segment], options: Options, clock: Clock) -> Iterator[Group]:
    """What every segment releases. `clock` is kept by who reads the packets."""
    table = FlowTable(lambda: Stream(options.stream_limits), options.flow_limits)
    talking = _Talks(table, options)
    alive = talking.alive
    for segment in source:
        deliveries = table.add(segment)
        if not deliveries:
            continue
        flow, direction, items = deliveries[0]
        talk = alive.get(flow)
        if talk is None or len(deliveries) > 1 or flow.midstream:
            taken = talking.take(deliveries, segment.capture)
            if taken:
                yield Group(Release(clock.packets), taken)
            continue
        events = talk.conversation.take(direction, items)
        if events:
            yield Group(Release(clock.packets), [(talk, events)])
    last: list[Delivery] = []
    for delivery in table.finish():
        last.append(delivery)
        flow, direction, _ = delivery
        if direction is Direction.RESPONDER:
            yield Group(Release(_LAST, flow.first_ns, flow.id), talking.take(last, ""))
            last = []


class _Talks:
    """The talks of the flows that are alive."""

    def __init__(self, table: FlowTable, options: Options) -> None:
        self._table = table
        self._options = options
        self._budget = Budget()
        self.alive: dict[Flow, Talk] = {}

    def take(self, deliveries: Iterable[Delivery], capture: str) -> list[tuple[Talk, list[Event]]]:
        """What the deliveries complete; `capture` is the file they come from. Flows are turned round when
        all of them were taken: their labels are those from before."""
        taken: dict[Talk, list[Event]] = {}
        turned = []
        for flow, direction, items in deliveries:
            talk = self.alive.get(flow)
            if talk is None:
                over = flow.over and direction is Direction.RESPONDER
                if not items and not over:
                    continue
                talk = self.alive[flow] = self._talk(flow, items[0].capture if items else capture)
            conversation = talk.conversation
            events = conversation.take(direction, items) if items else []
            if flow.over and direction is Direction.RESPONDER:
                events += conversation.finish()
                talk.over = True
                del self.alive[flow]
            if conversation.turned and talk not in turned:
                turned.append(talk)
            if talk.over or (events and conversation.verdict is Verdict.NATS):
                taken[talk] = taken[talk] + events if talk in taken else events
        for talk in turned:
            if talk.conversation.turned:
                talk.conversation.turned = False
                self._table.swap(talk.flow)
        return list(taken.items())

    def _talk(self, flow: Flow, capture: str) -> Talk:
        options = self._options
        hint = self._hint(flow)
        payloads = options.payload is not Payload.NONE
        return Talk(flow, Conversation(flow.midstream, payloads, self._budget, hint), capture)

    def _hint(self, flow: Flow) -> Kind | None:
        """What the user says about the flow's ports. Who listens there is the responder."""
        hints = self._options.hints
        if not hints:
            return None
        ports = [int(end.rpartition(":")[2]) for end in (flow.responder, flow.originator)]
        return next((hints[port] for port in ports if port in hints), None)
