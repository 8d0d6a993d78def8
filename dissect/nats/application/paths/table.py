"""The path of each message through the system: from its publisher through servers to its subscribers.

One row per hop. The first hop is the publication by a client; the others are frames that carry the same
message: between servers, and to clients that subscribe. Hops that cannot be proven are left out: `copies`
counts equal publications, and `matched_by` names the proof of a hop (see `matching`).

The frames of each session become items (`session`), and the stages here turn them into rows. The function of
a stage gets all items of a key together, so the rows do not depend on how the work is divided. The stages
share only a few facts about all sessions: `facts` and `clocks`.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter

from ...number_formats import duration_text, moment_text
from ...schema.declaration import ApplicationLayer, LastStage, Table, TextColumn, Work
from ..messages import EVERY_OP
from .clocks import Clocks
from .evidence import Anchors, latencies
from .facts import Facts
from .items import ASKS, CONTENTS, EQUALS, MESSAGES, PLACES
from .matching import match_asks, match_equal, match_stored, match_unique
from .rows import PathRecord, rows_of
from .session import PathSession


def stages(work: Work) -> LastStage:
    """Runs the stages on the items of all sessions."""
    facts = Facts.of(work)
    work.run(ASKS, partial(match_asks, facts=facts))
    work.run(PLACES, partial(match_stored, facts=facts))
    work.run(CONTENTS, partial(match_unique, facts=facts))
    clocks = Clocks.of(latencies(work))
    work.run(EQUALS, partial(match_equal, facts=facts, clocks=clocks, anchors=Anchors.of(work)))
    return LastStage(MESSAGES, partial(rows_of, facts=facts, clocks=clocks))


def _position(row: PathRecord) -> tuple[int | str, ...]:
    return row.ts_ns, row.session, row.number, row.message


def _since(row: PathRecord) -> str:
    return "" if row.since_ns is None else duration_text(row.since_ns)


def _equal(row: PathRecord) -> str:
    if row.copies is None:
        return "many"
    return "" if row.copies == 1 else str(row.copies)


def _clock(row: PathRecord) -> str:
    """The correction of the clock, with its sign."""
    if row.clock_ns is None:
        return ""
    return ("+" if row.clock_ns > 0 else "") + duration_text(row.clock_ns)


PATHS = Table(
    name="paths",
    singular="hop",
    summary="Follow each message from server to server, one row per hop.",
    row=PathRecord,
    time="ts_ns",
    position=_position,
    text=(
        TextColumn("message", 20, attrgetter("message")),
        TextColumn("hop", 3, lambda row: str(row.hop), right=True),
        TextColumn(
            "time", 23, lambda row: moment_text(row.ts_ns), shorter=lambda cell: cell[11:], rank=4
        ),
        TextColumn("kind", 8, attrgetter("kind"), rank=3),
        TextColumn("op", 4, attrgetter("op")),
        TextColumn("from", 12, lambda row: row.from_server or "client", may_cut=True),
        TextColumn("to", 12, lambda row: row.to_server or "client", may_cut=True),
        TextColumn("subject", 20, attrgetter("subject"), may_cut=True),
        TextColumn("since", 8, _since, right=True),
        TextColumn("by", 7, lambda row: row.matched_by or ""),
        TextColumn("equal", 5, _equal, right=True),
        TextColumn("clock", 9, _clock, right=True, rank=2),
    ),
    layer=ApplicationLayer(EVERY_OP, PathSession, across=True, grouped=stages),
    payloads=True,
)
