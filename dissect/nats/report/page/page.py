"""The page: the answers of a report, as one HTML file that opens from disk and reads nothing from a network.

Its content security policy forbids all connections, and all scripts except the page's own two, which it
allows by their hashes. The same rows give the same bytes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ...audit.findings.finding import Finding
from ...capture import CaptureReport
from ...number_formats import count_text, duration_text, moment_text, size_text
from ...questions.ask import AnswerRow
from ...schema.records import lost_bytes
from ..answers import BYTES, EVENTS, Answers
from ..figures import charts as figures
from ..figures.layout import drawing
from ..findings import Findings
from .escaping import breakable, csp_hash, cut, inert, inert_value, json_in_html
from .ladder_data import ladder_data
from .summary import facts, problems
from .unseen import ROWS, unseen

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


_SHORT = 100
"""The number of characters of a finding's field that are always shown."""
_WHOLE = 4000
"""The most characters that are shown when the field is opened."""


class PageSection(NamedTuple):
    """A part of the page; its template is named after its id."""

    id: str
    title: str


SECTIONS = (
    PageSection("summary", "Summary"),
    PageSection("findings", "Findings"),
    PageSection("topology", "Topology"),
    PageSection("traffic", "Traffic over time"),
    PageSection("sessions", "Sessions"),
    PageSection("subjects", "Subjects"),
    PageSection("requests", "Requests"),
    PageSection("jetstream", "JetStream, stores, services"),
    PageSection("ladders", "Ladder diagrams"),
    PageSection("unseen", "Not seen"),
)


def page(
    found: Answers,
    findings: Findings,
    capture: CaptureReport | None,
    title: str,
    masked: bool = True,
) -> str:
    """The whole page. `capture` is None if the rows come from tables."""
    environment = _environment()
    plotly, script, style = _plotly(), _resource("report.js"), _resource("report.css")
    drawn = {name: json.loads(item.to_json()) for name, item in drawn_figures(found).items()}
    frames = _frame_numbers(found)
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {csp_hash(plotly)} {csp_hash(script)}",
            f"style-src {csp_hash(style)} {csp_hash('')}",
            f"style-src-elem {csp_hash(style)} {csp_hash('')}",
            "style-src-attr 'unsafe-inline'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    return environment.get_template("report.html.j2").render(
        title=title,
        version=_version(),
        masked=masked,
        policy=policy,
        plotly=Markup(plotly),
        script=Markup(script),
        style=Markup(style),
        sections=SECTIONS,
        found=found,
        capture=capture,
        findings=findings,
        problems=problems(found, findings, capture),
        facts=facts(found),
        unseen=unseen(found, capture),
        most_rows=ROWS,
        drawing=drawing(found.topology),
        links=sorted(found.topology.links.items()),
        clients=sorted(found.topology.clients.items()),
        tree=found.subjects.tree(),
        events=_events(found),
        figures=drawn,
        frame_of=lambda row: frames.get((row.session, row.reply, row.sent_ns)),
        data=json_in_html({"figures": drawn, **ladder_data(found)}),
    )


def drawn_figures(found: Answers) -> dict[str, Figure]:
    """The figures that have something to show, by name."""
    made = {}
    if found.totals.messages:
        made["traffic"] = figures.traffic(found.traffic)
        made["traffic_bytes"] = figures.traffic(found.traffic, BYTES)
        made["subjects"] = figures.subjects(found.subjects)
        made["talkers"] = figures.talkers(found.connections.talkers)
    if found.requests.latency.count:
        made["latency"] = figures.histogram(found.requests.histogram)
        made["latency_over_time"] = figures.percentiles(found.requests.over_time)
    if found.jetstream.lag:
        made["lag"] = figures.lag(found.jetstream.lag)
    if found.jetstream.acks:
        made["acks"] = figures.histogram(found.jetstream.acks, "acks")
    if found.connections.stopped:
        made["stopped"] = figures.stopped(found.connections.stopped)
    return made


def _frame_numbers(found: Answers) -> dict[tuple[str, str, int], int]:
    """The frame numbers of requests, by session, reply subject and time, for frames in the sample."""
    return {
        (session, rung.reply, rung.ts_ns): rung.number
        for session, sample in found.ladders.samples.items()
        for rung in sample.rungs
        if rung.reply and rung.sender == "originator"
    }


def _events(found: Answers) -> Counter[str]:
    lanes = found.traffic.lanes.items()
    return Counter(
        {lane.name: sum(series.numbers) for lane, series in lanes if lane.measure == EVENTS}
    )


def troubles(row: AnswerRow) -> str:
    """The problems of a session, in words."""
    words = [*(row.errors or ())[:3]]
    if row.slow_consumer:
        words.append(f"slow consumer ({row.slow_consumer})")
    if row.no_responders:
        words.append(f"{row.no_responders} without responders")
    if row.unanswered_pings:
        words.append(count_text(row.unanswered_pings, "unanswered PING"))
    if row.lame_duck_ns:
        words.append("lame duck")
    if row.start == "midstream":
        words.append("midstream")
    return "; ".join(words)


@cache
def _environment() -> Environment:
    """The templates. They are compiled once, which takes as long as rendering them several times."""
    environment = Environment(
        loader=PackageLoader("dissect.nats.report.page"),
        autoescape=True,
        finalize=inert_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        size=size_text,
        duration=duration_text,
        moment=moment_text,
        count=count_text,
        cut=cut,
        lost=lost_bytes,
        troubles=troubles,
        ranked=_ranked,
        breakable=breakable,
        details=details,
        find=lambda text: quote(inert(text), safe=""),
    )
    return environment


class Detail(NamedTuple):
    """A field of a finding: the beginning of its value, and all lines of the value if it is longer."""

    name: str
    text: str
    lines: list[str]


def details(finding: Finding) -> list[Detail]:
    """The fields of a finding; JSON in `lines` is indented."""
    made = []
    for name, value in finding.values.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        whole = _indented(text) if len(text) > _SHORT else ""
        if len(whole) > _WHOLE:
            whole = f"{whole[:_WHOLE - 1]}…"
        made.append(Detail(name, cut(text, _SHORT), whole.split("\n") if whole else []))
    return made


def _indented(text: str) -> str:
    """JSON objects and lists with one value per line; other texts unchanged."""
    if text[:1] not in ("{", "["):
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _ranked(items: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Counts, the largest first."""
    return sorted(items, key=lambda item: (-item[1], item[0]))


def _resource(name: str) -> str:
    return (files("dissect.nats.report.page") / name).read_text(encoding="utf-8")


def _plotly() -> str:
    """Plotly's script."""
    return (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def _version() -> str:
    try:
        return metadata.version("natsync")
    except metadata.PackageNotFoundError:  # run from a checkout
        return "unknown"
