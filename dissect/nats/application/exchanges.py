"""Pairs messages with the answers that come to their reply subjects, for all application layers.

A question is any message with a reply subject: a request to a service or the JetStream API, a publication
that asks for an ack, or an ack that asks for a confirmation. An answer is a message from the other side to
that reply subject, whether the inbox serves one request or all requests of a connection (`_INBOX.X.TOKEN`).
It belongs to the latest question with this reply subject, as in `sessions.requests`, which pairs the requests
of clients for the tables that need no payloads. Servers that rewrite a reply subject do so before they send
the request to another server, so question and answer match there, too; both name the same account.

`paths` asks another question, which of equal messages a stream stored where, and proves it by counting
all messages with a reply subject (`paths.matching`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from ..durations import elapsed
from ..outcomes import is_no_responders
from ..schema.anomalies import Anomaly
from ..schema.declaration import LayerFrame
from ..schema.records import Record
from . import recent
from .messages import OTHER

# A JetStream context of nats.go lets 4000 publications wait for their acks (jetstream/publish.go), and a
# program may have several contexts on one connection. An entry takes about 1 kB.
_WAITING = 16_384


class Question(Protocol):
    """A message that waits for answers."""

    @property
    def held_bytes(self) -> int:
        """The approximate bytes of messages that it keeps: in its row, and bodies that it has read."""

    def answer(self, frame: LayerFrame, nobody: bool, latency_ns: int | None) -> bool:
        """Takes an answer; returns whether more may come. With `nobody`, the server says that nobody listens.
        `latency_ns` is the time since the question; None if nobody listens, or the clock was set back.
        """

    def close(self, anomaly: str | None) -> Iterable[Record]:
        """Ends the exchange; returns the rows. `anomaly` is set if answers could still come."""


# Who asked (because a client may call itself), its account and the reply subject.
_Asked = tuple[str, str | None, str]
_Q = TypeVar("_Q", bound=Question)


class Exchanges(Generic[_Q]):
    """The open questions of one session: the latest for each sender, account and reply subject."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[_Asked, tuple[_Q, int]] = OrderedDict()
        self._held_bytes = 0

    def ask(self, frame: LayerFrame, question: _Q) -> list[Record]:
        """Adds the question in a frame; returns the rows of questions that this ends."""
        waiting, size = self._waiting, question.held_bytes
        place = frame.sender, frame.account, frame.reply or ""
        ended: list[Record] = []
        if place in waiting:
            ended += self._pop(place).close(None)
        while len(waiting) >= _WAITING or (
            waiting and size and self._held_bytes + size > recent.HELD_BYTES
        ):
            ended += self._pop(next(iter(waiting))).close(Anomaly.FORGOTTEN.value)
        waiting[place] = question, frame.ts_ns
        self._held_bytes += size
        return ended

    def _pop(self, place: _Asked) -> _Q:
        question, _ = self._waiting.pop(place)
        self._held_bytes -= question.held_bytes
        return question

    @property
    def awaited(self) -> list[str]:
        """The reply subjects under which answers may come."""
        return [reply for _, _, reply in self._waiting]

    def awaits(self, frame: LayerFrame) -> bool:
        """Whether this message answers a question."""
        return (OTHER[frame.sender], frame.account, frame.subject or "") in self._waiting

    def answered(self, frame: LayerFrame) -> _Q | None:
        """The question that this message answers, if it is the last answer. `None` for everything else."""
        place = OTHER[frame.sender], frame.account, frame.subject or ""
        waiting = self._waiting.get(place)
        if waiting is None:
            return None
        question, asked_ns = waiting
        nobody = is_no_responders(frame.status, frame.payload_bytes)
        before = question.held_bytes
        latency_ns = None if nobody else elapsed(frame.ts_ns - asked_ns)
        is_open = question.answer(frame, nobody, latency_ns)
        self._held_bytes += question.held_bytes - before
        return None if is_open else self._pop(place)

    def rest(self) -> list[_Q]:
        """Ends the session: returns the open questions, in order."""
        waiting = [question for question, _ in self._waiting.values()]
        self._waiting, self._held_bytes = OrderedDict(), 0
        return waiting
