"""Pairs messages with the answers that come to their reply subjects.

A question is any message with a reply subject: an API request, a publication that asks for an ack, or an ack
that asks for a confirmation. An answer is a message from the other side to that reply subject, whether the
inbox serves one request or all requests of a connection (`_INBOX.X.TOKEN`). Servers that rewrite a reply
subject do so before they send the request to another server, so question and answer match there, too; both
name the same account.
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


_Place = tuple[str | None, str]  # account and reply subject


class Exchanges:
    """The open questions of one session: the latest for each account and reply subject."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[_Place, Question] = OrderedDict()
        self._held_bytes = 0

    def ask(self, frame: LayerFrame, question: Question) -> list[Record]:
        """Adds the question in a frame; returns the rows of questions that this ends."""
        waiting, size = self._waiting, question.held_bytes
        place = frame.account, frame.reply or ""
        ended: list[Record] = []
        if place in waiting:
            ended += self._pop(place).close(None)
        while len(waiting) >= _WAITING or (
            waiting and size and self._held_bytes + size > held_payloads.HELD_BYTES
        ):
            ended += self._pop(next(iter(waiting))).close(Anomaly.FORGOTTEN.value)
        waiting[place] = question
        self._held_bytes += size
        return ended

    def _pop(self, place: _Place) -> Question:
        question = self._waiting.pop(place)
        self._held_bytes -= question.held_bytes
        return question

    def answered(self, frame: LayerFrame) -> Question | None:
        """The question that this message answers, if it is the last answer. `None` for everything else."""
        place = frame.account, frame.subject or ""
        found = self._waiting.get(place)
        if found is None or found.sender == frame.sender:
            return None
        before = found.held_bytes
        is_open = found.answer(frame)
        self._held_bytes += found.held_bytes - before
        return None if is_open else self._pop(place)

    def rest(self) -> list[Question]:
        """Ends the session: returns the open questions, in order."""
        waiting = list(self._waiting.values())
        self._waiting, self._held_bytes = OrderedDict(), 0
        return waiting
