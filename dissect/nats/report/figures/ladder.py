"""A ladder diagram as a figure for notebooks: the frames of one session, or the path of one message.

All steps have the same height; the time since the first step is written beside each. Only the first steps are
shown; if there are more, the title has their total number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...number_formats import count_text, duration_text, size_text
from ...questions.ask import AnswerRow
from ..ladders import rung
from .charts import figure, plotly, text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

STEPS = 200
"""The most steps in a figure: more would be unreadable."""
_HEIGHT = 26
_LINES = {"ok": "#0072b2", "odd": "#cc3311"}


class LadderStep(NamedTuple):
    """A message from one end to another."""

    ts_ns: int
    sender: str
    receiver: str
    label: str
    about: str
    odd: bool


def step_of_frame(row: AnswerRow) -> LadderStep:
    """A frame as a step."""
    shown = rung(row)
    other = {"originator": "responder", "responder": "originator"}
    label = f"{shown.op} {shown.subject}".rstrip()
    about = f"#{shown.number}, packet {shown.packet}, {size_text(shown.bytes)}"
    note = f", {shown.note}" if shown.note else ""
    return LadderStep(
        row.ts_ns, row.sender, other.get(row.sender, ""), label, about + note, bool(shown.note)
    )


def step_of_hop(row: AnswerRow) -> LadderStep:
    """A hop of a message as a step."""
    client = f"client ({row.session[:8]})"
    label = f"{row.op} {row.subject or ''}".rstrip()
    about = f"{row.session}:{row.number}, matched by {row.matched_by or 'publication'}"
    ends = row.from_server or client, row.to_server or client
    return LadderStep(row.ts_ns, *ends, label, about, False)


def ladder(steps: Sequence[LadderStep], name: str, count: int) -> Figure:
    """The figure of the first steps of `count`."""
    ends = list(dict.fromkeys(end for step in steps for end in (step.sender, step.receiver)))
    place = {end: number for number, end in enumerate(ends)}
    data = [
        _arrows([(at, step) for at, step in enumerate(steps) if step.odd == odd], place, odd)
        for odd in (False, True)
    ]
    data.append(_labels(steps, place))
    left_out = f", the first {len(steps)} of {count}" if count > len(steps) else ""
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


def _arrows(steps: Sequence[tuple[int, LadderStep]], place: dict[str, int], odd: bool) -> object:
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


def _labels(steps: Sequence[LadderStep], place: dict[str, int]) -> object:
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
