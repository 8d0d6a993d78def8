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

from ...schema.declaration import ApplicationLayer, LastStage, Table, Work, text_columns
from ..messages import EVERY_OP
from .answers import match_answers, match_swaps
from .clocks import Clocks
from .evidence import Anchors, latencies
from .facts import Facts
from .items import ANSWERS, ASKS, CONTENTS, EQUALS, MESSAGES, PLACES, SWAPS
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
    work.run(SWAPS, match_swaps)
    work.run(ANSWERS, partial(match_answers, facts=facts))
    return LastStage(MESSAGES, partial(rows_of, facts=facts, clocks=clocks))


PATHS = Table(
    name="paths",
    singular="hop",
    summary="Follow each message from server to server, one row per hop.",
    row=PathRecord,
    time="ts_ns",
    position=attrgetter("ts_ns", "session", "number", "message"),
    text=text_columns(
        PathRecord,
        "message hop ts_ns kind op from_server to_server subject since_ns matched_by copies passed same_as"
        " clock_ns",
    ),
    layer=ApplicationLayer(EVERY_OP, PathSession, across=True, grouped=stages),
    payloads=True,
)
