"""Questions that wait for their answers: pairs a message with the ones that come to its reply subject.

A question is any message with a reply subject: an API request, a publication that asks for an ack, an ack
that asks to be confirmed. An answer is a message from the other side whose subject is that reply subject,
whether the inbox serves one request or all of a connection (`_INBOX.X.TOKEN`); between servers the reply
subject is rewritten before it is sent, so that it still pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from ..anomalies import Anomaly
from ..declaration import LayerFrame
from ..records import Record

# nats.go lets 4000 publications wait for their acks (jetstream/publish.go); a program may have several such
# contexts on one connection. An entry takes about 1 kB.
_WAITING = 16_384
HELD_BYTES = 32 << 20
"""The size of the payloads, shown because they were asked for, that rows may hold while they wait."""


class Question(Protocol):
    """A message that waits for answers."""

    sender: str

    @property
    def held_bytes(self) -> int:
        """The size of the payload that its row shows."""

    def answer(self, frame: LayerFrame) -> bool:
        """Takes an answer; returns whether more may come."""

    def close(self, anomaly: str | None) -> Iterable[Record]:
        """No more answers come; returns the rows. `anomaly` says if it was given up early."""


class Exchanges:
    """The questions of one session that are open, the latest of each reply subject."""

    def __init__(self) -> None:
        self._waiting: dict[str, Question] = {}
        self._held_bytes = 0

    def ask(self, reply: str, question: Question) -> Iterator[Record]:
        """Waits for answers on `reply`; yields the rows of the questions that this ends."""
        waiting, size = self._waiting, question.held_bytes
        before = self._taken(reply) if reply in waiting else None
        if before:
            yield from before.close(None)
        while len(waiting) >= _WAITING or (
            waiting and size and self._held_bytes + size > HELD_BYTES
        ):
            yield from self._taken(next(iter(waiting))).close(Anomaly.FORGOTTEN.value)
        waiting[reply] = question
        self._held_bytes += size

    def _taken(self, reply: str) -> Question:
        question = self._waiting.pop(reply)
        self._held_bytes -= question.held_bytes
        return question

    def answered(self, frame: LayerFrame) -> Question | None:
        """The question that this message answers, if it is the last answer. `None` for everything else."""
        subject = frame.subject or ""
        found = self._waiting.get(subject)
        if found is None or found.sender == frame.sender or found.answer(frame):
            return None
        return self._taken(subject)

    def rest(self) -> list[Question]:
        """The session is over: the questions that are open, in order."""
        waiting, self._waiting, self._held_bytes = self._waiting, {}, 0
        return list(waiting.values())
