"""The tables of `nats-dissect top` as text and JSON: columns, order and filter.

A view is one table: `connections`, `subjects`, `requests` or `problems`. `Controls` is the state that keys
change: the view, its order, the filter.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ...durations import ERROR
from ...number_formats import duration_text, iso_time, size_text, time_text
from ...output.terminal import Terminal
from ...output.text.table import GridWriter
from ...schema.declaration import TextColumn
from .traffic import RequestLine, TopLine, TopTraffic

_CLOCK = slice(11, 19)
Sortable = int | float | str | None


class TopColumn(NamedTuple):
    """A column: its name in JSON and for `--sort`, its value, and how text shows it."""

    name: str
    value: Callable[[TopLine], Sortable]
    text: TextColumn


class TopTable(NamedTuple):
    """A table: its name, the key that shows it, its columns, and the column that it is first sorted by."""

    name: str
    key: str
    fields: tuple[TopColumn, ...]
    sort: str

    def field(self, name: str) -> TopColumn:
        """The column with this name. Raises ValueError."""
        found = [each for each in self.fields if each.name == name]
        if not found:
            names = ", ".join(each.name for each in self.fields)
            raise ValueError(f"{self.name} has no column {name!r}; it has {names}")
        return found[0]


def per_second(rate: Sortable) -> str:
    """A rate, with one decimal below 10; empty for 0 or no rate."""
    if not isinstance(rate, (int, float)) or not rate:
        return ""
    return f"{rate:.0f}" if rate >= 9.95 else f"{rate:.1f}"


def _count(value: Sortable) -> str:
    return str(value) if value else ""


def _size(value: Sortable) -> str:
    return size_text(int(value)) if isinstance(value, (int, float)) and value >= 0.5 else ""


def _clock(value: Sortable) -> str:
    return time_text(value)[_CLOCK] if isinstance(value, int) and value else ""


def _duration(value: Sortable) -> str:
    return duration_text(value) if isinstance(value, int) else ""


def _field(
    name: str,
    title: str,
    width: int,
    show: Callable[[Sortable], str] | None = None,
    value: Callable[[TopLine], Sortable] | None = None,
    rank: int = 0,
    alarm: bool = False,
    shorter: Callable[[str], str] = str,
    may_cut: bool = False,
) -> TopColumn:
    """A column. `title` is its heading in text; numbers have `show`, which formats them."""
    get = value or (lambda line: getattr(line, name))
    column = TextColumn(
        title,
        width,
        (lambda line: (show or str)(get(line) or "")),
        right=show is not None,
        shorter=shorter,
        may_cut=may_cut,
        rank=rank,
        alarm=alarm,
        always=True,
    )
    return TopColumn(name, get, column)


def _rate(name: str, title: str, width: int = 6, sizes: bool = False) -> TopColumn:
    """The rate of a counter."""
    show = _size if sizes else per_second
    return _field(f"{name}_per_s", title, width, show, lambda line: line.rates.get(name, 0.0))


def _quantile(percent: int) -> Callable[[TopLine], Sortable]:
    def value(line: TopLine) -> Sortable:
        return line.latencies.quantile(percent) if isinstance(line, RequestLine) else None

    return value


def _largest(line: TopLine) -> Sortable:
    return line.latencies.largest if isinstance(line, RequestLine) else None


_BYTES = (_rate("bytes", "bytes/s", 8, True), _field("bytes", "bytes", 8, _size, rank=2))
_LAST = _field("last_ns", "last", 8, _clock, rank=4)
_SESSION = _field("session", "session", 16, shorter=lambda cell: cell[:8])

VIEWS = (
    TopTable(
        "connections",
        "c",
        (
            _SESSION,
            _field("kind", "kind", 8),
            _field("name", "name", 12),
            _field("originator", "originator", 21, rank=1),
            _field("responder", "responder", 21, rank=5),
            _field("server", "server", 12, rank=6),
            _rate("sent", "sent/s"),
            _rate("received", "recv/s"),
            _BYTES[0],
            _field("sent", "sent", 8, _count, rank=3),
            _field("received", "received", 8, _count, rank=3),
            _BYTES[1],
            _field("errors", "err", 4, _count, alarm=True),
            _field("lost_bytes", "lost", 6, _size, alarm=True),
            _LAST,
            _field("state", "state", 5),
        ),
        "bytes_per_s",
    ),
    TopTable(
        "subjects",
        "s",
        (
            _field("subject", "subject", 32),
            _rate("published", "pub/s"),
            _rate("delivered", "deliv/s"),
            _rate("forwarded", "fwd/s"),
            _BYTES[0],
            _field("published", "published", 9, _count, rank=1),
            _field("delivered", "delivered", 9, _count, rank=1),
            _field("forwarded", "forwarded", 9, _count, rank=3),
            _BYTES[1],
            _LAST,
        ),
        "bytes_per_s",
    ),
    TopTable(
        "requests",
        "r",
        (
            _field("subject", "subject", 28),
            _rate("requests", "req/s"),
            _field("requests", "requests", 8, _count),
            _field("failed", "failed", 6, _count, alarm=True),
            _field("median_ns", "median", 7, _duration, _quantile(50)),
            _field("p99_ns", "p99", 7, _duration, _quantile(99)),
            _field("max_ns", "max", 7, _duration, _largest),
            _LAST,
        ),
        "requests_per_s",
    ),
    TopTable(
        "problems",
        "p",
        (
            _SESSION,
            _field("problem", "problem", 18),
            _field("count", "count", 7, _count),
            _field("bytes", "bytes", 8, _size),
            _LAST,
            _field("text", "text", 40, may_cut=True),
        ),
        "last_ns",
    ),
)


@dataclass(slots=True)
class Controls:
    """The state that keys change. `sorts` has, for each view, the column of its order and whether the largest
    value comes first. `typing` is true while the user types the filter."""

    view: TopTable = VIEWS[0]
    sorts: dict[str, tuple[str, bool]] = field(
        default_factory=lambda: {view.name: (view.sort, True) for view in VIEWS}
    )
    filter: str = ""
    typing: bool = False
    paused: bool = False
    quit: bool = False

    def press(self, key: str) -> None:
        """Acts on a key; unknown keys do nothing."""
        if self.typing:
            self._type(key)
            return
        for view in VIEWS:
            if key == view.key:
                self.view = view
        match key:
            case "\t":
                self.view = VIEWS[(VIEWS.index(self.view) + 1) % len(VIEWS)]
            case "<" | "left":
                self._shift(-1)
            case ">" | "right":
                self._shift(1)
            case "i":
                name, descending = self.sorts[self.view.name]
                self.sorts[self.view.name] = name, not descending
            case "/":
                self.typing, self.filter = True, ""
            case "\x1b":
                self.filter = ""
            case " ":
                self.paused = not self.paused
            case "q":
                self.quit = True

    def _type(self, key: str) -> None:
        if key in ("\r", "\n"):
            self.typing = False
        elif key == "\x1b":
            self.typing, self.filter = False, ""
        elif key in ("\x7f", "\b"):
            self.filter = self.filter[:-1]
        elif len(key) == 1 and key.isprintable():
            self.filter += key

    def _shift(self, steps: int) -> None:
        names = [each.name for each in self.view.fields]
        name, descending = self.sorts[self.view.name]
        place = (names.index(name) + steps) % len(names)
        self.sorts[self.view.name] = names[place], descending


def ordered(traffic: TopTraffic, controls: Controls, view: TopTable) -> list[TopLine]:
    """The lines of a view that match the filter, in its order; the latest first among equal ones,
    absent values last."""
    name, descending = controls.sorts[view.name]
    key = view.field(name).value
    wanted = controls.filter.lower()
    lines = [line for line in traffic.lines(view.name) if _matches(line, view, wanted)]
    lines.sort(key=lambda line: (-line.last_ns, str(view.fields[0].value(line))))
    filled = [line for line in lines if key(line) is not None]
    filled.sort(key=lambda line: (key(line),), reverse=descending)
    return filled + [line for line in lines if key(line) is None]


def _matches(line: TopLine, view: TopTable, wanted: str) -> bool:
    texts = (each.value(line) for each in view.fields)
    return not wanted or any(isinstance(text, str) and wanted in text.lower() for text in texts)


def json_lines(traffic: TopTraffic, controls: Controls, views: Iterable[TopTable]) -> Iterator[str]:
    """The lines of some views, one object per line; absent values are left out."""
    for view in views:
        for line in ordered(traffic, controls, view):
            values = {each.name: each.value(line) for each in view.fields}
            values["time"] = iso_time(line.last_ns)
            if isinstance(line, RequestLine) and line.latencies.count:
                exact = line.latencies.is_exact
                values["quantiles"] = "exact" if exact else f"within {ERROR}"
            found = {name: _rounded(value) for name, value in values.items() if value is not None}
            yield json.dumps({"view": view.name, **found}, separators=(",", ":")) + "\n"


def _rounded(value: Sortable) -> Sortable:
    return round(value, 3) if isinstance(value, float) else value


def table_text(view: TopTable, lines: Iterable[TopLine], look: Terminal, sort: str = "") -> str:
    """Lines of a view as a table, as wide as a terminal. With `sort`, that column is marked, and the widths
    are those of the live screen, which do not change."""
    columns = [
        (each.text._replace(name=f"*{each.text.name}", rank=-1) if each.name == sort else each.text)
        for each in view.fields
    ]
    output = io.StringIO()
    writer = GridWriter(output, columns, look, live=bool(sort))
    writer.write([tuple(column.cell(line) for column in columns) for line in lines])
    if not sort:
        writer.close()
    return output.getvalue()
