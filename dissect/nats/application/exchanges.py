"""Pairs messages with the answers that come to their reply subjects.

A question is any message with a reply subject: an API request, a publication that asks for an ack, or an ack
that asks for a confirmation. An answer is a message from the other side to that reply subject, whether the
inbox serves one request or all requests of a connection (`_INBOX.X.TOKEN`). Servers rewrite a reply subject
before they send the request to another server, so both still agree there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Protocol

from ..schema.anomalies import Anomaly
from ..schema.declaration import LayerFrame
from ..schema.records import Record
from .held_payloads import HeldPayloads

# nats.go lets 4000 publications wait for their acks (jetstream/publish.go); a program may have several such
# contexts on one connection. An entry takes about 1 kB.
_WAITING = 16_384


class Question(Protocol):
    """A message that waits for answers."""

    sender: str

    @property
    def payload(self) -> str | None:
        """The payload that its row shows."""

    def answer(self, frame: LayerFrame) -> bool:
        """Takes an answer; returns whether more may come."""

    def close(self, anomaly: str | None) -> Iterable[Record]:
        """Ends the exchange; returns the rows. `anomaly` is set if answers could still come."""


class Exchanges:
    """The open questions of one session: the latest of each reply subject."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, Question] = OrderedDict()
        self._held = HeldPayloads()

    def ask(self, reply: str, question: Question) -> list[Record]:
        """Waits for answers on `reply`; returns the rows of the questions that this ends."""
        waiting, payload = self._waiting, question.payload
        ended: list[Record] = []
        if reply in waiting:
            ended += self._taken(reply).close(None)
        while len(waiting) >= _WAITING or (waiting and self._held.are_too_many_with(payload)):
            ended += self._taken(next(iter(waiting))).close(Anomaly.FORGOTTEN.value)
        waiting[reply] = question
        self._held.add(payload)
        return ended

    def _taken(self, reply: str) -> Question:
        question = self._waiting.pop(reply)
        self._held.remove(question.payload)
        return question

    def answered(self, frame: LayerFrame) -> Question | None:
        """The question that this message answers, if it is the last answer. `None` for everything else."""
        subject = frame.subject or ""
        found = self._waiting.get(subject)
        if found is None or found.sender == frame.sender or found.answer(frame):
            return None
        return self._taken(subject)

    def rest(self) -> list[Question]:
        """Ends the session: returns the open questions, in order."""
        waiting = list(self._waiting.values())
        self._waiting, self._held = OrderedDict(), HeldPayloads()
        return waiting
