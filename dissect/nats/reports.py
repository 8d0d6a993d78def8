"""Records -> text for people: a table of sessions, a line a frame, one session in full, and totals.

Times are UTC. What peers sent is shown with control characters as `\\xNN`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from datetime import datetime, timezone
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from .capture import CaptureReport
from .records import FrameRecord, Record, SessionRecord, printable

_ARROWS = {"originator": ">", "responder": "<"}
_JSON_SHOWN = 120
_PLAIN_WIDTH = 10_000
_STYLES = {"-ERR": "bold red", "INFO": "dim", "CONNECT": "cyan", "PING": "dim", "PONG": "dim"}

_SESSION_COLUMNS = "session began originator responder kind name user sent received lost end errors"
_RIGHT = {"sent", "received", "lost"}
_NAME_SHOWN = 24

# A session has one line. On a narrow terminal, what can be said shorter is, then some columns give way,
# and where that is not enough some are left out: which, the last line says.
_NARROW = 190
_SHORT_NAMES = {"received": "recv"}
_SHORTER: dict[str, Callable[[str], str]] = {
    "session": lambda cell: cell[:8],
    "began": lambda cell: cell[11:],
    "end": lambda cell: cell.replace(" by originator", " >").replace(" by responder", " <"),
}
_YIELDING = {"name", "user", "end", "errors"}
_LEFT_OUT = ((125, {"began", "user"}), (95, {"lost", "end"}))


class SessionTable:
    """Sessions as a table: with lines and colours on a terminal, aligned text elsewhere."""

    def __init__(self, output: TextIO) -> None:
        self._console = _console(output)
        self._output = output
        self._rows: list[tuple[str, ...]] = []

    def write(self, record: Record) -> None:
        """Takes the next session."""
        assert isinstance(record, SessionRecord)
        self._rows.append(_session_cells(record))

    def close(self) -> None:
        """Prints the table; columns without any value are left out."""
        if not self._rows:
            return
        width = self._console.width
        hidden = set[str]().union(*(names for limit, names in _LEFT_OUT if width < limit))
        with self._console.capture() as capture:
            self._console.print(self._table(hidden, short=width < _NARROW))
        lines = (line.rstrip() for line in capture.get().splitlines())
        self._output.write("".join(f"{line}\n" for line in lines if line))
        if hidden:
            names = ", ".join(name for name in _SESSION_COLUMNS.split() if name in hidden)
            self._output.write(f"not shown in {width} columns: {names}\n")

    def _table(self, hidden: set[str], short: bool) -> Table:
        terminal = self._console.is_terminal
        box = SIMPLE_HEAD if terminal else None
        table = Table(box=box, pad_edge=False, padding=(0, 1, 0, 0) if terminal else (0, 1))
        shown: list[tuple[int, Callable[[str], str]]] = []
        for at, name in enumerate(_SESSION_COLUMNS.split()):
            if name in hidden or not any(row[at] for row in self._rows):
                continue
            shown.append((at, _SHORTER.get(name, str) if short else str))
            justify: JustifyMethod = "right" if name in _RIGHT else "left"
            title = _SHORT_NAMES.get(name, name) if short else name
            table.add_column(title, justify=justify, no_wrap=name not in _YIELDING)
        for row in self._rows:
            cells = (printable(cut(row[at])) for at, cut in shown)
            texts = [Text(cell, no_wrap=True, overflow="ellipsis") for cell in cells]
            table.add_row(*texts, style="red" if terminal and row[-1] else None)
        return table


class FrameLines:
    """A line a frame: time, session, direction, operation, subject, and what else matters of it."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._console = _console(output)

    def write(self, record: Record) -> None:
        """Takes the next frame."""
        assert isinstance(record, FrameRecord)
        line = frame_line(record)
        if self._console.is_terminal:
            style = "red" if record.anomalies else _STYLES.get(record.op, "")
            self._console.print(Text(line, style), soft_wrap=True)
        else:
            self._output.write(line + "\n")

    def close(self) -> None:
        """There are no more."""


def frame_line(record: FrameRecord) -> str:
    """One frame on one line."""
    parts = [
        time_text(record.ts_ns),
        record.session,
        _ARROWS[record.sender],
        f"{record.op:<7}" if record.op not in ("PING", "PONG", "+OK") else record.op,
        *(printable(part) for part in _details(record)),
    ]
    return " ".join(part for part in parts if part)


def _details(record: FrameRecord) -> Iterable[str]:
    """What follows the operation."""
    for name in ("origin", "account", "subject", "queue", "sid"):
        yield getattr(record, name) or ""
    if record.reply:
        yield f"reply {record.reply}"
    if record.queues:
        yield f"queues {','.join(record.queues)}"
    if record.weight:
        yield f"weight {record.weight}"
    if record.max_msgs is not None:
        yield f"max {record.max_msgs}"
    if record.payload_bytes is not None:
        size = f"{record.header_bytes}+{record.payload_bytes}" if record.header_bytes else None
        yield f"[{size or record.payload_bytes}]"
    if record.status is not None:
        yield f"{record.status} {record.status_text or ''}".rstrip()
    if record.error is not None:
        yield f"'{record.error}'"
    if record.json is not None:
        yield record.json if len(record.json) <= _JSON_SHOWN else record.json[:_JSON_SHOWN] + "..."
    if record.payload is not None:
        yield record.payload
    if record.payload_sha256 is not None:
        yield record.payload_sha256
    for anomaly in record.anomalies or ():
        yield f"!{anomaly}"


def story_text(record: SessionRecord, timeline: Sequence[FrameRecord]) -> str:
    """One session in full: every column that says something, then what happened when."""
    names = [item.name for item in fields(record)]
    width = max(map(len, names))
    lines = []
    for name in names:
        value = getattr(record, name)
        if value is None:
            continue
        if name in ("first_ns", "last_ns"):
            value = time_text(value)
        elif isinstance(value, (list, dict)):
            value = json.dumps(value, ensure_ascii=False)
        lines.append(f"{name:<{width}}  {printable(str(value))}")
    if timeline:
        lines += ["", "timeline"]
        session = f" {record.session}"
        lines += ["  " + frame_line(row).replace(session, "", 1) for row in timeline]
    return "".join(f"{line}\n" for line in lines)


def totals(table: str, rows: int, messages: int, report: CaptureReport) -> str:
    """What was read and what came of it, on one line."""
    packets = sum(file.packets for file in report.files)
    where = f"{_count(packets, 'packet')} of {_count(len(report.files), 'file')}"
    if report.passed_over:
        where += f"; {_count(len(report.passed_over), 'other file')} no capture"
    if not rows:
        return f"no NATS found in {where}"
    parts = [_count(rows, table.removesuffix("s"))]
    if table == "sessions":
        parts.append(_count(messages, "message"))
    return f"{', '.join(parts)} in {where}"


def time_text(ts_ns: int) -> str:
    """A time in UTC, with all its digits."""
    seconds, rest_ns = divmod(ts_ns, 10**9)
    try:
        moment = datetime.fromtimestamp(seconds, timezone.utc)
    except (OverflowError, ValueError, OSError):
        return f"{seconds}.{rest_ns:09}"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest_ns:09}Z"


def _session_cells(record: SessionRecord) -> tuple[str, ...]:
    layers = [record.transport if record.transport != "tcp" else "", record.compression or ""]
    lost = record.missing_bytes + (0 if any(layers) else record.skipped_bytes)
    user = record.user or ""
    end = record.end if not record.ended_by else f"{record.end} by {record.ended_by}"
    return (
        record.session,
        time_text(record.first_ns)[:23].replace("T", " "),
        record.originator,
        record.responder,
        "+".join(filter(None, [record.kind, *layers])),
        record.client_name or record.remote_name or "",
        user if len(user) <= _NAME_SHOWN else f"{user[:_NAME_SHOWN - 3]}...",
        str(record.messages_originator),
        str(record.messages_responder),
        f"{lost} B" if lost else "",
        end if record.start == "handshake" else f"{end}, midstream",
        "; ".join(record.errors or ()),
    )


def _console(output: TextIO) -> Console:
    terminal = output.isatty()
    return Console(
        file=output,
        width=None if terminal else _PLAIN_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
        no_color=None if terminal else True,
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
