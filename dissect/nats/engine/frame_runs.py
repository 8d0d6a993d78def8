"""Frames -> runs: the frames that one packet completed, with the columns that all their rows share.

`output.arrow.frame_columns` makes columns from many runs at once, without making rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from natsync.protocol import Connect, Err, Frame, Info

from ..framing.events import Batch, Note
from ..options import Payload
from ..schema.anomalies import Anomaly
from ..schema.records import Record, printable_json, text_of
from ..secrets.redact import MASK, NO_SECRETS, NOT_MASKED, Secrets, masked_json
from ..types import Direction

_ORIGINATOR = Direction.ORIGINATOR
_TEXTS = frozenset({Info, Connect, Err})  # frames with texts that may repeat secrets


class FrameFacts(NamedTuple):
    """Facts about one frame that depend on the session: texts without secrets, and anomalies. The anomalies
    in `gaps` explain missing bytes, and come before all others."""

    json: str | None = None
    error: str | None = None
    gaps: tuple[str, ...] = ()
    anomalies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class RunLabels:
    """Columns that are the same for many runs: the runs of one sender whose frames begin in one capture file.

    `account` is the account to which a route is dedicated, if any; `payload` is how rows show payloads;
    `secrets` are to be masked in headers.
    Labels are compared by identity, but equal ones may exist.
    """

    session: str
    capture: str
    sender: str
    kind: str
    account: str
    payload: Payload
    secrets: Secrets


class _FrameRunFields(NamedTuple):
    labels: RunLabels
    number: int
    ts_ns: int
    packet: int
    frames: Sequence[Frame]
    facts: dict[int, FrameFacts]


class FrameRun(_FrameRunFields, Record):
    """Consecutive frames of one sender that one packet completed and that begin in the same packet.

    `number` is the number of the first frame. `facts` has the facts of frames by number; most have none.
    """

    __slots__ = ()

    @property
    def payload_bytes(self) -> int:
        """The size of all payloads."""
        return sum(len(getattr(frame, "payload", b"")) for frame in self.frames)

    def part(self, start: int, stop: int) -> FrameRun:
        """A run with some of the frames."""
        labels, number, ts_ns, packet, frames, facts = self
        return FrameRun(labels, number + start, ts_ns, packet, frames[start:stop], facts)


_NO_FACTS: dict[int, FrameFacts] = {}
# The latest labels of each capture, of the responder and of the originator.
_LabelsOf = tuple[dict[str, RunLabels], dict[str, RunLabels]]


class RunMaker:
    """Makes the runs of one session and numbers its frames."""

    def __init__(self, session: str, payload: Payload, redact: bool) -> None:
        self._session = session
        self._payload = payload
        self._redact = redact
        self._secrets = NO_SECRETS if redact else NOT_MASKED
        self._number = 0
        self._labels: _LabelsOf = ({}, {})

    @property
    def last_number(self) -> int:
        """The number of the last frame."""
        return self._number

    @property
    def secrets(self) -> Secrets:
        """The secrets to mask in the next texts."""
        return self._secrets

    def __getstate__(self) -> dict[str, object]:
        """Leaves out the labels, which are made again."""
        return {**self.__dict__, "_labels": ({}, {})}

    def runs(self, batch: Batch, kind: str, account: str) -> list[FrameRun]:
        """The runs of a batch: one, or two if its first frame began in an earlier packet."""
        frames, first, last = batch.frames, batch.first, batch.last
        count = len(frames)
        if batch.number:
            self._number = batch.number - 1
        if count == 1 and batch.gap is None and frames[0].__class__ not in _TEXTS:
            # The same as `numbered`, in half the time.
            self._number = number = self._number + 1
            facts = _NO_FACTS
        else:
            number, facts = self.numbered(batch)
        labels = self._labels[batch.direction is _ORIGINATOR].get(first.capture)
        if labels is None or labels.kind is not kind or labels.account != account:
            labels = self._new_labels(batch.direction, first.capture, kind, account)
        # Takes a third of the time of calling the class.
        new = tuple.__new__
        if first is last or count == 1:
            return [new(FrameRun, (labels, number, batch.ts_ns, first.number, frames, facts))]
        begun = new(FrameRun, (labels, number, batch.ts_ns, first.number, frames[:1], facts))
        if last.capture != first.capture:
            labels = self._new_labels(batch.direction, last.capture, kind, account)
        rest = (labels, number + 1, batch.ts_ns, last.number, frames[1:], facts)
        return [begun, new(FrameRun, rest)]

    def numbered(self, batch: Batch) -> tuple[int, dict[int, FrameFacts]]:
        """Numbers the frames of a batch. Returns the number of the first, and facts by number."""
        number = batch.number or self._number + 1
        self._number = number + len(batch.frames) - 1
        if batch.gap or not _TEXTS.isdisjoint(map(type, batch.frames)):
            return number, self._facts(batch, number)
        return number, _NO_FACTS

    def skip(self, batch: Batch) -> None:
        """Numbers the frames of a batch and learns their secrets without making runs."""
        self._number = (batch.number or self._number + 1) + len(batch.frames) - 1
        for frame in batch.frames:
            if isinstance(frame, Connect):
                self._learn(frame)

    def pass_to(self, number: int) -> None:
        """Goes on after the frame with this number, which was read elsewhere, as were those before it; there
        is no CONNECT among them."""
        self._number = number

    def _new_labels(self, direction: Direction, capture: str, kind: str, account: str) -> RunLabels:
        sender = direction.value
        labels = RunLabels(
            self._session, capture, sender, kind, account, self._payload, self._secrets
        )
        self._labels[direction is _ORIGINATOR][capture] = labels
        return labels

    def _learn(self, connect: Connect) -> None:
        known = self._secrets
        self._secrets = known.learned(connect.json)
        if self._secrets is not known:
            self._labels = ({}, {})

    def _facts(self, batch: Batch, number: int) -> dict[int, FrameFacts]:
        facts = {
            at: self._texts(frame)
            for at, frame in enumerate(batch.frames, number)
            if frame.__class__ in _TEXTS
        }
        if batch.gap:
            known = facts.get(number, FrameFacts())
            facts[number] = known._replace(gaps=(batch.gap.value,))
        return facts

    def _texts(self, frame: Frame) -> FrameFacts:
        """The texts of an INFO, CONNECT or -ERR. The secrets of a CONNECT are masked from now on."""
        if isinstance(frame, Err):
            return FrameFacts(error=self._secrets.masked(text_of(frame.text)))
        assert isinstance(frame, (Info, Connect))
        if isinstance(frame, Connect):
            self._learn(frame)
        masked = masked_json(frame.json, self._secrets)
        anomalies = (Anomaly.BAD_JSON.value,) if masked == MASK else ()
        shown = masked if self._redact else text_of(frame.json)
        return FrameFacts(printable_json(shown), anomalies=anomalies)


def marked(runs: Sequence[FrameRun], notes: Iterable[Note]) -> list[FrameRun]:
    """The runs, with the anomalies that `notes` report for their frames."""
    places = {
        (run.labels.sender, frame.offset): (index, run.number + at)
        for index, run in enumerate(runs)
        for at, frame in enumerate(run.frames)
    }
    # By the index of the run. Each is copied before it is changed, because runs may share one.
    facts: dict[int, dict[int, FrameFacts]] = {}
    for note in notes:
        place = places.get((note.direction.value, note.offset))
        if place and note.length:
            index, number = place
            if index not in facts:
                facts[index] = dict(runs[index].facts)
            known = facts[index].get(number, FrameFacts())
            marks = (*known.anomalies, note.anomaly.value)
            facts[index][number] = known._replace(anomalies=marks)
    return [
        run._replace(facts=facts[index]) if index in facts else run
        for index, run in enumerate(runs)
    ]
