"""Pairs messages with the answers that come to their reply subjects.

A question is any message with a reply subject: an API request, a publication that asks for an ack, or an ack
that asks for a confirmation. An answer is a message from the other side to that reply subject, whether the
inbox serves one request or all requests of a connection (`_INBOX.X.TOKEN`). Servers that rewrite a reply
subject do so before they send the request to another server, so question and answer match there, too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Protocol

from ..schema.anomalies import Anomaly
from ..schema.declaration import LayerFrame
from ..schema.records import Record
from . import held_payloads

# A JetStream context of nats.go lets 4000 publications wait for their acks (jetstream/publish.go), and a
# program may have several contexts on one connection. An entry takes about 1 kB.
_WAITING = 16_384


class Question(Protocol):
    """A message that waits for answers."""

    sender: str

    @property
    def held_bytes(self) -> int:
        """The approximate bytes of messages that it keeps: in its row, and bodies that it has read."""

    def answer(self, frame: LayerFrame) -> bool:
        """Takes an answer; returns whether more may come."""

    def close(self, anomaly: str | None) -> Iterable[Record]:
        """Ends the exchange; returns the rows. `anomaly` is set if answers could still come."""


class Exchanges:
    """The open questions of one session: the latest for each reply subject."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, Question] = OrderedDict()
        self._held_bytes = 0

    def ask(self, reply: str, question: Question) -> list[Record]:
        """Adds a question that waits for answers on `reply`; returns the rows of questions that this ends."""
        waiting, size = self._waiting, question.held_bytes
        ended: list[Record] = []
        if reply in waiting:
            ended += self._pop(reply).close(None)
        while len(waiting) >= _WAITING or (
            waiting and size and self._held_bytes + size > held_payloads.HELD_BYTES
        ):
            ended += self._pop(next(iter(waiting))).close(Anomaly.FORGOTTEN.value)
        waiting[reply] = question
        self._held_bytes += size
        return ended

    def _pop(self, reply: str) -> Question:
        question = self._waiting.pop(reply)
        self._held_bytes -= question.held_bytes
        return question

    def answered(self, frame: LayerFrame) -> Question | None:
        """The question that this message answers, if it is the last answer. `None` for everything else."""
        subject = frame.subject or ""
        found = self._waiting.get(subject)
        if found is None or found.sender == frame.sender:
            return None
        before = found.held_bytes
        is_open = found.answer(frame)
        self._held_bytes += found.held_bytes - before
        return None if is_open else self._pop(subject)

    def rest(self) -> list[Question]:
        """Ends the session: returns the open questions, in order."""
        waiting = list(self._waiting.values())
        self._waiting, self._held_bytes = OrderedDict(), 0
        return waiting
