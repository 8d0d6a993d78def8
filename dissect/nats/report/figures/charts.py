"""The figures, drawn with Plotly from answers: objects that Jupyter shows, and JSON for the page.

Text from the wire is escaped, so that it is shown literally: Plotly would treat `<b>` and `<a href>` as
markup. Figures have no background and text colours: the page sets its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from types import ModuleType
from typing import TYPE_CHECKING

from ...durations import width_of
from ...errors import imported
from ...number_formats import duration_text, size_text, time_text
from ...questions.ask import BAR_BITS, AnswerRow
from ...schema.records import printable
from ..answers import EVENTS, MESSAGES, Traffic
from ..subjects import Subjects
from ..topology import Topology
from .layout import WIDTH, Box, drawing

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# Okabe and Ito's colours: people with any colour vision can tell them apart, on white and on black.
COLOURS = "#0072b2 #e69f00 #009e73 #cc79a7 #56b4e9 #d55e00 #8c8c00 #999999".split()
_BAD = "#d55e00"
_WORSE = "#cc3311"
# An anomaly is marked by its own name.
_LOSSES = frozenset({"lost", "truncated", "skipped", "limit", "evicted", "forgotten"})
_PERCENTILES = (("median", "median_ns"), ("90 %", "p90_ns"), ("99 %", "p99_ns"))
_LABEL = 48
_TREE_DEPTH = 3
_TREE_BRANCHES = 120
_BARS = 20
_DIRECTIONS = {
    ("client", "originator"): "clients to servers",
    ("client", "responder"): "servers to clients",
}


def plotly() -> ModuleType:
    """`plotly.graph_objects`. Raises MissingLibrary if Plotly is not installed."""
    return imported("plotly.graph_objects", "report", "plotly")


def text(value: str, longest: int = _LABEL) -> str:
    """Text from the wire, escaped so that Plotly shows it literally, and cut if it is too long."""
    shown = printable(value)
    return escape(shown if len(shown) <= longest else f"{shown[:longest - 1]}…", quote=False)


def moments(times_ns: Iterable[int]) -> list[str]:
    """Times in Plotly's format, cut to microseconds; Plotly resolves a tenth of one."""
    return [time_text(ts_ns)[:26].replace("T", " ") for ts_ns in times_ns]


def figure(data: Sequence[object], **layout: object) -> Figure:
    """A figure with the layout that all figures share, and what `layout` adds to it."""
    common: dict[str, object] = {
        "template": "none",
        "margin": {"l": 64, "r": 16, "t": 16, "b": 48},
        "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "colorway": COLOURS,
        "hovermode": "closest",
        "height": 360,
    }
    return plotly().Figure(data=list(data), layout={**common, **layout})


def _middles(starts: Iterable[int], width_ns: int) -> list[str]:
    return moments(start + width_ns // 2 for start in starts)


def traffic(found: Traffic, measure: str = MESSAGES) -> Figure:
    """Messages or bytes by kind of connection and direction, and below them, on the same time axis, errors
    and losses."""
    go = plotly()
    width_ms = found.width_ns / 1e6
    data, marks = [], []
    for lane, (starts, numbers) in found.lanes.items():
        if lane.measure == measure:
            direction = _DIRECTIONS.get((lane.name, lane.sender))
            name = direction or f"{lane.name}, from {lane.sender}"
            at = _middles(starts, found.width_ns)
            data.append(go.Bar(x=at, y=numbers, width=width_ms, name=name))
        elif lane.measure == EVENTS:
            marks.append((lane, starts, numbers))
    for place, (lane, starts, numbers) in enumerate(marks):
        data.append(
            go.Scatter(
                x=_middles(starts, found.width_ns),
                y=numbers,
                name=text(lane.name),
                yaxis="y2",
                mode="markers",
                marker={
                    "symbol": ("x", "diamond", "triangle-up", "square", "cross", "star")[place % 6],
                    "size": 9,
                    "color": _BAD if lane.name in _LOSSES else _WORSE,
                },
            )
        )
    unit = "messages" if measure == MESSAGES else "bytes"
    return figure(
        data,
        barmode="stack",
        bargap=0,
        xaxis={"type": "date", "anchor": "y2" if marks else "y", "title": {"text": "time, UTC"}},
        yaxis={
            "title": {"text": f"{unit} per {duration_text(found.width_ns)}"},
            "domain": [0.34, 1] if marks else [0, 1],
            "rangemode": "tozero",
            "exponentformat": "SI",
        },
        yaxis2={"title": {"text": "errors, losses"}, "domain": [0, 0.24], "rangemode": "tozero"},
        height=460,
    )


def histogram(found: Sequence[AnswerRow], name: str = "requests") -> Figure:
    """The number of durations of each length, on a logarithmic axis."""
    starts = [row.bucket_ns for row in found]
    left = [max(start, 1) for start in starts]
    right = [max(start + width_of(start, BAR_BITS), 2) for start in starts]
    bar = plotly().Bar(
        x=[(low * high) ** 0.5 / 1e6 for low, high in zip(left, right)],
        y=[row.count for row in found],
        width=[(high - low) / 1e6 for low, high in zip(left, right)],
        customdata=[
            f"{duration_text(low)} to {duration_text(high)}" for low, high in zip(left, right)
        ],
        hovertemplate="%{customdata}: %{y}<extra></extra>",
        name=name,
    )
    return figure(
        [bar],
        xaxis={"type": "log", "title": {"text": "milliseconds"}, "dtick": 1},
        yaxis={"title": {"text": name}},
        showlegend=False,
        height=300,
    )


def percentiles(found: Sequence[AnswerRow]) -> Figure:
    """Percentiles of durations over time."""
    go, data = plotly(), []
    at = moments(row.bin_ns + row.width_ns // 2 for row in found)
    for name, column in _PERCENTILES:
        values = [getattr(row, column) / 1e6 for row in found]
        data.append(go.Scatter(x=at, y=values, name=name, mode="lines+markers"))
    return figure(
        data,
        xaxis={"type": "date", "title": {"text": "time, UTC"}},
        yaxis={"title": {"text": "milliseconds"}, "rangemode": "tozero"},
        height=300,
    )


def subjects(found: Subjects) -> Figure:
    """The subjects with the most bytes, as nested rectangles."""
    branches = sorted(found.tree().walk(_TREE_DEPTH), key=lambda item: -item.volume.bytes)
    chosen = {item.subject: item for item in branches[:_TREE_BRANCHES]}
    rows = [item for item in chosen.values() if item.volume.bytes]
    # Not the subjects: Plotly keeps ids as the names of properties, and `constructor` is one of every object.
    ids = {item.subject: f"branch {number}" for number, item in enumerate(rows)}
    treemap = plotly().Treemap(
        ids=list(ids.values()),
        labels=[text(item.token) for item in rows],
        parents=[
            ids.get(item.subject[: -len(item.token) - 1], "") if item.subject != item.token else ""
            for item in rows
        ],
        values=[item.volume.bytes for item in rows],
        branchvalues="total",
        customdata=[
            f"{item.volume.messages} messages, {size_text(item.volume.bytes)}" for item in rows
        ],
        hovertemplate="%{label}<br>%{customdata}<extra></extra>",
        tiling={"pad": 2},
        root={"color": "rgba(0,0,0,0)"},
    )
    return figure([treemap], margin={"l": 4, "r": 4, "t": 4, "b": 4}, height=420)


def talkers(found: Sequence[AnswerRow]) -> Figure:
    """The clients and servers that send and receive the most bytes."""
    go = plotly()
    rows = found[:_BARS][::-1]
    names = [text(row.name, 32) for row in rows]
    bars = [
        go.Bar(y=names, x=[row.sent_bytes for row in rows], orientation="h", name="sent"),
        go.Bar(y=names, x=[row.received_bytes for row in rows], orientation="h", name="received"),
    ]
    return figure(
        bars,
        barmode="stack",
        xaxis={"title": {"text": "bytes"}, "exponentformat": "SI"},
        yaxis={"type": "category", "automargin": True},
        height=110 + 24 * max(len(rows), 2),
    )


def lag(found: Sequence[AnswerRow]) -> Figure:
    """The number of messages that wait for each consumer over time: the maximum of each bin."""
    data = []
    for name, some in groupby(found, key=lambda row: row.name):
        rows = list(some)
        at = moments(row.bin_ns + row.width_ns // 2 for row in rows)
        numbers = [row.pending for row in rows]
        data.append(plotly().Scatter(x=at, y=numbers, name=text(name), mode="lines+markers"))
    return figure(
        data,
        xaxis={"type": "date", "title": {"text": "time, UTC"}},
        yaxis={"title": {"text": "messages waiting"}, "rangemode": "tozero"},
        showlegend=True,
        height=320,
    )


def stopped(found: Sequence[AnswerRow]) -> Figure:
    """How long receivers stopped their senders with a zero window."""
    go = plotly()
    rows = found[:_BARS][::-1]
    names = [f"{row.session[:8]} {text(row.originator)}" for row in rows]
    bars = [
        go.Bar(
            y=names,
            x=[getattr(row, f"zero_window_ns_{side}") / 1e9 for row in rows],
            orientation="h",
            name=f"{side} stopped the other side",
        )
        for side in ("originator", "responder")
    ]
    return figure(
        bars,
        barmode="stack",
        xaxis={"title": {"text": "seconds"}},
        yaxis={"type": "category", "automargin": True},
        height=110 + 24 * max(len(rows), 2),
    )


def topology(found: Topology) -> Figure:
    """Servers in their clusters, with the links between them and their clients."""
    go, drawn = plotly(), drawing(found)
    place = {box.name: (box.x + WIDTH / 2, -box.y) for box in drawn.boxes}
    data = []
    for kind in sorted({wire.link.kind for wire in drawn.wires}):
        xs: list[float | None] = []
        ys: list[float | None] = []
        for wire in drawn.wires:
            if wire.link.kind == kind:
                (x, y), (to_x, to_y) = place[wire.link.one], place[wire.link.other]
                xs += [x, to_x, None]
                ys += [y, to_y, None]
        data.append(go.Scatter(x=xs, y=ys, mode="lines", name=kind, hoverinfo="skip"))
    data.append(
        go.Scatter(
            x=[x for x, _ in place.values()],
            y=[y for _, y in place.values()],
            text=[text(box.name) for box in drawn.boxes],
            customdata=[_about(box) for box in drawn.boxes],
            hovertemplate="%{text}<br>%{customdata}<extra></extra>",
            mode="markers+text",
            textposition="top center",
            marker={"symbol": "square", "size": 18},
            name="servers",
        )
    )
    hidden = {"visible": False}
    return figure(data, xaxis=hidden, yaxis=hidden, height=max(320, drawn.height))


def _about(box: Box) -> str:
    """A server's cluster and its clients, one per line."""
    clients = [f"{text(client.name)}: {group.count}" for client, group in box.clients]
    cluster = [f"cluster {text(box.server.cluster)}"] if box.server.cluster else []
    return "<br>".join([*cluster, *clients])
