"""Frames and message paths for ladder diagrams: a sample of bounded size, which knows how much it leaves out.

The sample has the first and the last frames of each session, and from those between them, frames with errors,
statuses or anomalies. The more frames there are in all, the fewer it has of each session.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from ..questions.ask import AnswerRow, QueryEngine, ask

FRAMES = 30_000
"""The limit for frames from the beginnings of all sessions."""
FIRST = 400
"""The most frames from the beginning of one session; fewer if there are many frames in all."""
LAST = 40
ODD = 60
SESSIONS = 1500
MESSAGES = 300
_HOPS = 64
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


def rung(row: AnswerRow) -> Rung:
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
    """The frames that are shown of one session; `count` is the number of all."""

    count: int
    rungs: list[Rung] = field(default_factory=list)


@dataclass(slots=True)
class Ladders:
    """The sampled frames of sessions, in order of their first frame, and the hops of some messages, those
    with the longest paths first. `frames`, `sessions` and `paths` are the numbers of all."""

    samples: dict[str, Sample]
    messages: list[list[AnswerRow]]
    frames: int
    sessions: int
    paths: int


def ladders_of(engine: QueryEngine, limit: int = FRAMES) -> Ladders:
    """The sample."""
    sessions = ask(engine, "ladder_sessions", limit=SESSIONS)
    most = FIRST
    while most > _LEAST and sum(min(row.frames, most) for row in sessions) > limit:
        most //= 2
    samples = {row.session: Sample(row.frames) for row in sessions}
    for row in ask(engine, "ladder_frames", limit=SESSIONS, most=most, last=LAST, odd=ODD):
        samples[row.session].rungs.append(rung(row))
    hops = ask(engine, "ladder_messages", limit=MESSAGES, hops=_HOPS)
    messages = [list(some) for _, some in groupby(hops, key=lambda row: row.place)]
    frames, seen = (sessions[0].all_frames, sessions[0].seen) if sessions else (0, 0)
    return Ladders(samples, messages, frames, seen, hops[0].seen if hops else 0)
