"""The screen of `nats-dissect top` as text: a summary, the table of one view, and the keys."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

from ...capture import CaptureReport
from ...number_formats import copies_text, duration_text, size_text, time_text
from ...output.terminal import Terminal, painted
from ...schema.records import printable
from .traffic import TopTraffic
from .views import VIEWS, Controls, ordered, per_second, table_text


def summary(traffic: TopTraffic, report: CaptureReport) -> list[str]:
    """The lines above the tables."""
    files = report.files
    packets = sum(file.packets for file in files)
    dropped = sum(file.dropped for file in files)
    last_ns = max((file.last_ns for file in files if file.last_ns is not None), default=None)
    rates, totals = traffic.rates, traffic.totals
    kinds = ", ".join(f"{count} {kind}" for kind, count in traffic.open.most_common())
    over = len(traffic.connections) - sum(traffic.open.values()) + traffic.connections.forgotten
    losses = f"lost {size_text(totals['lost_bytes'])}"
    median, p99 = (traffic.latencies.quantile(percent) for percent in (50, 99))
    latency = (
        f", median {duration_text(median)}, p99 {duration_text(p99)}"
        if median is not None and p99 is not None
        else ""
    )
    moment = (
        time_text(last_ns)[:19].replace("T", " ") + "Z" if last_ns is not None else "no packets"
    )
    return [
        f"{moment}  {packets} packets, {losses}" + (f", dropped {dropped}" if dropped else ""),
        f"connections: {kinds or 'none'} open, {over} over;"
        f" {totals['messages']} messages, {per_second(rates.get('messages')) or 0}/s,"
        f" {size_text(round(rates.get('bytes', 0)))}/s",
        f"requests: {totals['requests']}, {per_second(rates.get('requests')) or 0}/s{latency};"
        f" problems: {totals['problems']}",
        *filter(None, [copies_text(traffic.copies)]),
    ]


def screen_text(
    traffic: TopTraffic,
    report: CaptureReport,
    controls: Controls,
    look: Terminal,
    height: int,
    note: str,
) -> str:
    """The whole screen: summary, the table of the view, and the keys. `note` is a remark about the input."""
    width = look.width or 80
    above = summary(traffic, report)
    above[0] += f"  {note}" if note else ""
    sort, descending = controls.sorts[controls.view.name]
    lines = ordered(traffic, controls, controls.view)
    shown = max(0, height - len(above) - 4)
    table = table_text(controls.view, lines[:shown], look, sort).splitlines()
    table += [""] * (shown + 2 - len(table))
    bold = "bold" if look.colour else ""
    rows = [
        *(_fitted(line, width) for line in above),
        painted(_fitted(_tabs(traffic, controls, len(lines) - shown), width), bold),
        *table[: shown + 2],
        painted(_fitted(_keys(controls, descending), width), bold and "dim"),
    ]
    return "\n".join(rows[:height])


def _tabs(traffic: TopTraffic, controls: Controls, hidden: int) -> str:
    """The line between summary and table: the views, the filter, and the number of lines that do not fit."""
    parts = [
        f"[{view.name}]" if view is controls.view else f"{view.key}:{view.name}" for view in VIEWS
    ]
    if controls.filter or controls.typing:
        parts.append(f" filter: {printable(controls.filter)}" + "_" * controls.typing)
    if controls.paused:
        parts.append(" paused")
    if hidden > 0:
        parts.append(f" +{hidden} more")
    if forgotten := traffic.forgotten(controls.view.name):
        parts.append(f" +{forgotten} forgotten")
    return " ".join(parts)


def _keys(controls: Controls, descending: bool) -> str:
    if controls.typing:
        return "type a part of any text; Enter: keep, Esc: no filter"
    order = "largest first" if descending else "smallest first"
    return f"< >: sort by  i: {order}  /: filter  Tab: next  space: pause  q: quit"


def _fitted(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)) + "\u2026"
