"""A ladder diagram as a figure for notebooks: the frames of one session, or the path of one message.

All steps have the same height; the time since the first step is written beside each. Only the first steps are
shown; if there are more, the title has their total number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...application.paths.rows import PathRecord, is_named
from ...number_formats import count_text, duration_text, size_text
from ...schema.records import FrameRecord, Record
from ..aggregates.ladders import rung
from ..bounded.collections import Largest
from .charts import figure, plotly, text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

STEPS = 200
"""The most steps in a figure: more would be unreadable."""
_HEIGHT = 26
_LINES = {"ok": "#0072b2", "odd": "#cc3311"}


class Step(NamedTuple):
    """A message from one end to another."""

    ts_ns: int
    sender: str
    receiver: str
    label: str
    about: str
    odd: bool


class Steps:
    """The steps of one session or one message. For rows of `frames`, `name` is a session id, of which the
    beginning is enough; for rows of `paths`, it is a message, see `is_named`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.named: set[str] = set()
        self.first: Largest[Step] = Largest(STEPS)

    @property
    def count(self) -> int:
        """The number of steps, including those that are not kept."""
        return self.first.seen

    def add(self, row: Record) -> None:
        """Adds a row; only rows that `name` selects count."""
        if isinstance(row, FrameRecord) and row.session.startswith(self.name):
            self._note(row.session)
            self.first.add((-row.ts_ns, -row.number), _frame(row))
        elif isinstance(row, PathRecord) and is_named(row.message, self.name):
            self._note(row.message)
            self.first.add((-row.ts_ns, -row.hop), _hop(row))

    def merge(self, other: Steps) -> None:
        """Adds the steps of other rows."""
        self.named |= other.named
        self.first.merge(other.first)

    def _note(self, name: str) -> None:
        if len(self.named) < 2:  # two are enough to refuse an ambiguous name
            self.named.add(name)


def _frame(row: FrameRecord) -> Step:
    shown = rung(row)
    other = {"originator": "responder", "responder": "originator"}
    label = f"{shown.op} {shown.subject}".rstrip()
    about = f"#{shown.number}, packet {shown.packet}, {size_text(shown.bytes)}"
    note = f", {shown.note}" if shown.note else ""
    return Step(
        row.ts_ns, row.sender, other.get(row.sender, ""), label, about + note, bool(shown.note)
    )


def _hop(row: PathRecord) -> Step:
    client = f"client ({row.session[:8]})"
    label = f"{row.op} {row.subject or ''}".rstrip()
    about = f"{row.session}:{row.number}, matched by {row.matched_by or 'publication'}"
    ends = row.from_server or client, row.to_server or client
    return Step(row.ts_ns, *ends, label, about, False)


def ladder(found: Steps) -> Figure:
    """The figure. Raises ValueError unless the name is that of exactly one session or message."""
    if len(found.named) != 1:
        some = "more than one session or message" if found.named else "no session or message"
        raise ValueError(f"{some} in these rows has a name that matches {found.name!r}")
    steps = list(found.first)
    ends = list(dict.fromkeys(end for step in steps for end in (step.sender, step.receiver)))
    place = {end: number for number, end in enumerate(ends)}
    data = [
        _arrows([(at, step) for at, step in enumerate(steps) if step.odd == odd], place, odd)
        for odd in (False, True)
    ]
    data.append(_labels(steps, place))
    (name,) = found.named
    left_out = f", the first {len(steps)} of {found.count}" if found.count > len(steps) else ""
    title = f"{name}: {count_text(len(steps), 'step')}{left_out}"
    times = [duration_text(step.ts_ns - steps[0].ts_ns) for step in steps]
    return figure(
        data,
        title={"text": title},
        xaxis={
            **{"tickvals": list(place.values()), "ticktext": [text(end) for end in ends]},
            **{"side": "top", "range": [-0.3, len(ends) - 0.7], "zeroline": False},
        },
        yaxis={
            **{"tickvals": list(range(len(steps))), "ticktext": times, "autorange": "reversed"},
            **{"showgrid": False, "zeroline": False, "title": {"text": "since the first"}},
        },
        margin={"l": 90, "r": 16, "t": 72, "b": 16},
        height=130 + _HEIGHT * len(steps),
        showlegend=False,
    )


def _arrows(steps: list[tuple[int, Step]], place: dict[str, int], odd: bool) -> object:
    """Lines with an arrowhead at the receiver."""
    xs: list[int | None] = []
    ys: list[int | None] = []
    sizes: list[int] = []
    for at, step in steps:
        xs += [place[step.sender], place[step.receiver], None]
        ys += [at, at, None]
        sizes += [0, 12, 0]
    colour = _LINES["odd" if odd else "ok"]
    marker = {"symbol": "arrow", "angleref": "previous", "size": sizes, "color": colour}
    return plotly().Scatter(
        x=xs, y=ys, mode="lines+markers", marker=marker, line={"color": colour}, hoverinfo="skip"
    )


def _labels(steps: list[Step], place: dict[str, int]) -> object:
    """The text of each step, over the middle of its line."""
    return plotly().Scatter(
        x=[(place[step.sender] + place[step.receiver]) / 2 for step in steps],
        y=list(range(len(steps))),
        text=[text(step.label) for step in steps],
        customdata=[text(step.about, 200) for step in steps],
        hovertemplate="%{text}<br>%{customdata}<extra></extra>",
        mode="text",
        textposition="top center",
    )
