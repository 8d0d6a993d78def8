"""Frames and message paths for ladder diagrams: a sample of bounded size, which knows how much it leaves out.

The sample keeps the first and the last frames of each session, and from those between them, frames with
errors, statuses or anomalies. The more frames there are in all, the fewer it keeps of each session.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from ...application.paths.rows import PathRecord
from ...schema.records import FrameRecord, Record
from ..bounded.collections import Largest

FRAMES = 30_000
"""The limit for frames from the beginnings of all sessions."""
FIRST = 400
"""The most frames kept from the beginning of one session; fewer if there are many frames in all."""
LAST = 40
ODD = 60
SESSIONS = 1500
MESSAGES = 300
_HOPS = 64
_PATHS = 20_000
_LEAST = 20


class Rung(NamedTuple):
    """A frame in a ladder."""

    number: int
    ts_ns: int
    packet: int
    sender: str
    op: str
    subject: str
    reply: str
    bytes: int
    note: str


def rung(row: FrameRecord) -> Rung:
    """A frame as its ladder shows it."""
    status = f"{row.status} {row.status_text or ''}".strip() if row.status else ""
    notes = (row.error, status, ", ".join(row.anomalies or ()))
    queue = f" [{row.queue}]" if row.queue else ""
    return Rung(
        row.number,
        row.ts_ns,
        row.packet,
        row.sender,
        row.op,
        (row.subject or "") + queue,
        row.reply or "",
        row.total_bytes,
        "; ".join(filter(None, notes)),
    )


@dataclass(slots=True)
class Sample:
    """The frames that are kept of one session."""

    count: int = 0
    first: list[Rung] = field(default_factory=list)
    odd: list[Rung] = field(default_factory=list)
    last: deque[Rung] = field(default_factory=lambda: deque(maxlen=LAST))

    @property
    def rungs(self) -> list[Rung]:
        """The frames in order."""
        return sorted({*self.first, *self.odd, *self.last})


class Ladders:
    """The sampled frames of sessions, and the paths of some messages."""

    tables = ("frames", "paths")

    def __init__(self, limit: int = FRAMES) -> None:
        self._limit = limit
        self._most = FIRST
        self._kept = 0
        self.samples: dict[str, Sample] = {}
        self.sessions_left_out: set[str] = set()
        self.frames = 0
        self._paths: dict[str, list[PathRecord]] = {}
        self.messages: Largest[list[PathRecord]] = Largest(MESSAGES)

    def add(self, row: Record) -> None:
        """Adds a row; only frames and hops count."""
        if isinstance(row, FrameRecord):
            self._add_frame(row)
        elif isinstance(row, PathRecord):
            self._add_hop(row)

    def finish(self) -> None:
        """Must be called after the last row."""
        self._settle(len(self._paths))

    def _add_frame(self, row: FrameRecord) -> None:
        self.frames += 1
        sample = self.samples.get(row.session)
        if sample is None:
            if len(self.samples) >= SESSIONS:
                if len(self.sessions_left_out) < SESSIONS:
                    self.sessions_left_out.add(row.session)
                return
            sample = self.samples[row.session] = Sample()
        sample.count += 1
        new = rung(row)
        if len(sample.first) < self._most:
            sample.first.append(new)
            self._kept += 1
        else:
            if new.note and len(sample.odd) < ODD:
                sample.odd.append(new)
            sample.last.append(new)
        while self._kept > self._limit and self._most > _LEAST:
            self._thin()

    def _thin(self) -> None:
        """Halves the number of frames that are kept from the beginning of each session."""
        self._most //= 2
        for sample in self.samples.values():
            gone = sample.first[self._most :]
            self._kept -= len(gone)
            sample.odd = [*(item for item in gone if item.note), *sample.odd][:ODD]
            for item in (gone if not sample.last else ())[-LAST:]:
                sample.last.append(item)
            del sample.first[self._most :]

    def _add_hop(self, row: PathRecord) -> None:
        hops = self._paths.get(row.message)
        if hops is None:
            if len(self._paths) >= _PATHS:
                self._settle(_PATHS // 2)
            hops = self._paths[row.message] = []
        if len(hops) < _HOPS:
            hops.append(row)

    def _settle(self, count: int) -> None:
        """Takes the `count` earliest messages, and keeps those with the longest paths."""
        for message in list(self._paths)[:count]:
            hops = self._paths.pop(message)
            hops.sort(key=lambda row: row.hop)
            servers = {name for row in hops for name in (row.from_server, row.to_server) if name}
            first = hops[0]
            if len(hops) > 1 and first.hop == 1:
                self.messages.add((len(servers), len(hops), -first.ts_ns, message), hops)
