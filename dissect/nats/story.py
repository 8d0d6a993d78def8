"""One session in full: its row, and the frames that tell its story."""

from __future__ import annotations

from collections.abc import Sequence

from .capture import CaptureReport
from .folds import Numbered, session_row, tell
from .options import Options
from .pipeline import segments
from .records import FrameRecord, SessionRecord
from .sessions import Session
from .talks import Clock, Talk, talks

# What makes a story: the beginning of a session, what was subscribed, and what went wrong.
_STORY_OPS = frozenset(
    "INFO CONNECT SUB UNSUB RS+ RS- LS+ LS- A+ A- -ERR".split(),
)
_STORY_ROWS = 500


def session_story(
    paths: Sequence[str], session: str, options: Options, report: CaptureReport | None = None
) -> tuple[SessionRecord, list[FrameRecord]] | None:
    """The first session whose id begins with `session`, and the frames that tell its story: handshake,
    subscriptions, errors; at most 500. None if there is no such session."""
    story: list[FrameRecord] = []
    chosen: Talk | None = None
    told = Session(options.redact)
    for _, released in talks(segments(paths, report), options, Clock()):
        for talk, events in released:
            if chosen is None and talk.is_nats and talk.flow.id.startswith(session):
                chosen = talk
                rows = Numbered(talk, options)
            if talk is not chosen:
                continue
            tell(told, events)
            story += [row for row in rows.rows(events) if row.op in _STORY_OPS or row.anomalies]
            del story[_STORY_ROWS:]
    return (session_row(chosen, told), story) if chosen else None
