"""Frames -> runs: the frames that one packet completed, with what their rows have in common.

A run stands for its rows until they are needed. They are sorted and released many at a time, and columns are
made of many runs at once (`output.frame_columns`) without a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from natsync.protocol import Connect, Err, Frame, Info

from ..anomalies import Anomaly
from ..declaration import SortPosition
from ..framing.events import Batch, Note
from ..options import Payload
from ..records import Record, text_of
from ..redact import MASK, Secrets, masked_json
from ..types import Chunk, Direction, Gap

_ORIGINATOR = Direction.ORIGINATOR
_TEXTS = frozenset({Info, Connect, Err})  # frames with texts that may repeat secrets


class FrameFacts(NamedTuple):
    """Facts about one frame that depend on the session: texts without secrets, and anomalies. Those of
    `flaws` explain missing bytes, and come before all others."""

    json: str | None = None
    error: str | None = None
    flaws: tuple[str, ...] = ()
    anomalies: tuple[str, ...] = ()


class _Run(NamedTuple):
    session: str
    number: int
    ts_ns: int
    packet: int
    capture: str
    sender: str
    kind: str
    account: str
    frames: Sequence[Frame]
    payload: Payload
    facts: dict[int, FrameFacts]


class FrameRun(_Run, Record):
    """Consecutive frames of one sender that one packet completed and that begin in the same packet.

    `number` is that of the first frame. `account` is the account to which a route is dedicated, if any.
    `payload` says how rows show payloads, `facts` has the facts of few frames by their numbers.
    """

    __slots__ = ()

    @property
    def position(self) -> SortPosition:
        """The place of its first row in the table; the others are next to it."""
        return self.ts_ns, self.session, self.number

    @property
    def payload_bytes(self) -> int:
        """The size of the payloads that it holds."""
        return sum(len(getattr(frame, "payload", b"")) for frame in self.frames)

    def part(self, start: int, stop: int) -> FrameRun:
        """The run of some of its frames."""
        return self._replace(number=self.number + start, frames=self.frames[start:stop])


_NO_FACTS: dict[int, FrameFacts] = {}


class RunMaker:
    """Makes the runs of one session and numbers its frames."""

    def __init__(self, session: str, payload: Payload, redact: bool) -> None:
        self._session = session
        self._payload = payload
        self._redact = redact
        self._secrets = Secrets()
        self._number = 0

    def runs(self, batch: Batch, kind: str, account: str) -> list[FrameRun]:
        """The runs of a batch: one, or two where its first frame began in an earlier packet."""
        frames, first, last = batch.frames, batch.first, batch.last
        number, facts = self.numbered(batch)
        if first is last or len(frames) == 1:
            return [self._run(batch, first, number, frames, kind, account, facts)]
        return [
            self._run(batch, first, number, frames[:1], kind, account, facts),
            self._run(batch, last, number + 1, frames[1:], kind, account, facts),
        ]

    def numbered(self, batch: Batch) -> tuple[int, dict[int, FrameFacts]]:
        """Numbers the frames of a batch: the number of the first, and facts of few by their numbers."""
        number = self._number + 1
        self._number += len(batch.frames)
        return number, self._facts(batch, number)

    def skip(self, batch: Batch) -> None:
        """Numbers the frames of a batch and learns their secrets without making runs."""
        self.count(len(batch.frames))
        for frame in batch.frames:
            if isinstance(frame, Connect):
                self._secrets.learn(frame.json)

    def count(self, frames: int) -> None:
        """Numbers frames without making runs; there is no CONNECT among them."""
        self._number += frames

    def _run(
        self,
        batch: Batch,
        packet: Chunk | Gap,
        number: int,
        frames: list[Frame],
        kind: str,
        account: str,
        facts: dict[int, FrameFacts],
    ) -> FrameRun:
        sender = "originator" if batch.direction is _ORIGINATOR else "responder"
        # A third of the time of calling the class.
        return tuple.__new__(
            FrameRun,
            (
                self._session,
                number,
                batch.ts_ns,
                packet.number,
                packet.capture,
                sender,
                kind,
                account,
                frames,
                self._payload,
                facts,
            ),
        )

    def _facts(self, batch: Batch, number: int) -> dict[int, FrameFacts]:
        facts = _NO_FACTS
        for at, frame in enumerate(batch.frames, number):
            if frame.__class__ in _TEXTS:
                facts = {**facts, at: self._texts(frame)}
        if batch.flaw:
            known = facts.get(number, FrameFacts())
            facts = {**facts, number: known._replace(flaws=(batch.flaw.value,))}
        return facts

    def _texts(self, frame: Frame) -> FrameFacts:
        """The texts of an INFO, CONNECT or -ERR; the secrets of a CONNECT are known from now on."""
        if isinstance(frame, Err):
            text = text_of(frame.text)
            return FrameFacts(error=self._secrets.masked(text) if self._redact else text)
        assert isinstance(frame, (Info, Connect))
        if isinstance(frame, Connect):
            self._secrets.learn(frame.json)
        masked = masked_json(frame.json, self._secrets)
        anomalies = (Anomaly.BAD_JSON.value,) if masked == MASK else ()
        return FrameFacts(masked if self._redact else text_of(frame.json), anomalies=anomalies)


def marked(runs: Sequence[FrameRun], notes: Iterable[Note]) -> list[FrameRun]:
    """The runs, with anomalies of their frames."""
    places = {
        (run.sender, frame.offset): (index, run.number + at)
        for index, run in enumerate(runs)
        for at, frame in enumerate(run.frames)
    }
    found = list(runs)
    for note in notes:
        place = places.get((note.direction.value, note.offset))
        if place and note.length:
            index, number = place
            run = found[index]
            known = run.facts.get(number, FrameFacts())
            facts = known._replace(anomalies=(*known.anomalies, note.anomaly.value))
            found[index] = run._replace(facts={**run.facts, number: facts})
    return found
