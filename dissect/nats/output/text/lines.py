"""Records -> text for people: one line per frame, one session in full, and totals.

Times are UTC. What peers sent is shown with control characters as `\\xNN`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields

from rich.cells import cell_len, set_cell_size

from ...capture import CaptureReport
from ...capture.embedded_secrets import unused_secrets
from ...capture.sources import STDIN
from ...number_formats import count_text, duration_text, time_text
from ...packet import JOINED
from ...schema.declaration import ARROWS
from ...schema.records import AnomalyRecord, FrameRecord, Record, SessionRecord, printable
from ...tables import TABLES
from ..terminal import Terminal, painted

_JSON_SHOWN = 120
# Points in time of a session; its other `_ns` columns are durations.
_TIMES = ("first_ns", "last_ns", "lame_duck_ns")
_NONE = {"sessions": "NATS found", "frames": "NATS found"}
_STYLES = {"-ERR": "bold red", "INFO": "dim", "CONNECT": "cyan", "PING": "dim", "PONG": "dim"}


def frame_lines(look: Terminal) -> Callable[[Record], str]:
    """One line per frame: time, session, direction, operation, subject and further details, cut to the
    terminal's width."""
    width = look.width

    def line(record: Record) -> str:
        assert isinstance(record, FrameRecord)
        style = "red" if record.anomalies else _STYLES.get(record.op, "")
        text = frame_line(record)
        if width is not None and cell_len(text) > width:
            text = set_cell_size(text, max(1, width - 3)) + "..."
        return painted(text, style if look.colour else "") + "\n"

    return line


def frame_line(record: FrameRecord) -> str:
    """One frame on one line."""
    parts = [
        time_text(record.ts_ns),
        record.session,
        ARROWS[record.sender],
        f"{record.op:<7}" if record.op not in ("PING", "PONG", "+OK") else record.op,
        *(printable(part) for part in _details(record)),
    ]
    return " ".join(part for part in parts if part)


def _details(record: FrameRecord) -> Iterator[str]:
    """The details after the operation."""
    yield from frame_words(record)
    if record.json is not None:
        yield record.json if len(record.json) <= _JSON_SHOWN else record.json[:_JSON_SHOWN] + "..."
    if record.payload is not None:
        yield record.payload
    if record.payload_sha256 is not None:
        yield record.payload_sha256
    yield from frame_marks(record)


def frame_words(record: FrameRecord) -> Iterator[str]:
    """The words of a control line."""
    for part in (record.origin, record.account, record.subject, record.queue, record.sid):
        if part:
            yield part
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


def frame_marks(record: FrameRecord) -> list[str]:
    """The anomalies and losses of a frame."""
    return [f"!{anomaly}" for anomaly in record.anomalies or ()]


def anomaly_line(record: AnomalyRecord) -> str:
    """One anomaly on one line, for a list of frames."""
    text = f" {printable(record.text)}" if record.text else ""
    size = f" {record.bytes} bytes" if record.bytes else ""
    return f"{time_text(record.ts_ns)} {ARROWS[record.sender]} !{record.anomaly}{size}{text}"


def story_text(
    row: SessionRecord,
    timeline: Sequence[FrameRecord | AnomalyRecord],
    summary: Sequence[tuple[str, str]] = (),
) -> str:
    """One session in full: every column that has a value, the lines of `summary` (a table and a text), then a
    timeline."""
    names = [item.name for item in fields(row)]
    width = max(map(len, names))
    lines = []
    for name in names:
        value = getattr(row, name)
        if value is None:
            continue
        if name in _TIMES:
            value = time_text(value)
        elif name.endswith("_ns"):
            value = duration_text(value)
        elif isinstance(value, (list, dict)):
            value = json.dumps(value, ensure_ascii=False)
        lines.append(f"{name:<{width}}  {printable(str(value))}")
    if summary:
        lines += ["", "above NATS"]
        lines += [f"  {table:<{width - 2}}  {printable(text)}" for table, text in summary]
    if timeline:
        lines += ["", "timeline"]
        lines += [f"  {_timeline_line(moment)}" for moment in timeline]
    return "".join(f"{line}\n" for line in lines)


def _timeline_line(moment: FrameRecord | AnomalyRecord) -> str:
    if isinstance(moment, AnomalyRecord):
        return anomaly_line(moment)
    return frame_line(moment).replace(f" {moment.session}", "", 1)


def input_lines(report: CaptureReport, interrupted: bool = False) -> Iterator[str]:
    """A line for each input that was not read to its end, or not decrypted, and one if packets came twice. An
    interrupt ends standard input, which is not damaged then."""
    for file in report.damaged:
        if not (interrupted and file.path == STDIN):
            yield f"{file.path}: {file.damage}"
    yield from report.unreadable
    if report.doubled:
        yield report.doubled
    yield from unused_secrets(report)


def undecoded_text(report: CaptureReport) -> str:
    """How many packets have no TCP header that could be read, and the reasons, the most frequent one first;
    empty if there are none."""
    counts = [(reason, n) for reason, n in report.no_tcp.most_common() if reason != JOINED]
    if not counts:
        return ""
    (port, _), *_ = report.udp_ports.most_common(1) or [(0, 0)]
    names = [
        f"{reason}, most on port {port}" if reason == "udp" else reason for reason, _ in counts
    ]
    if len(counts) > 1:
        names = [f"{name} ({n})" for name, (_, n) in zip(names, counts)]
    total = count_text(sum(n for _, n in counts), "packet")
    return f"{total} not decoded: {'; '.join(map(printable, names))}"


def passed_over_text(names: Sequence[str]) -> str:
    """How many files in folders are not captures."""
    verb = "is not a capture" if len(names) == 1 else "are not captures"
    return f"{count_text(len(names), 'other file')} {verb}"


def totals(
    table: str, rows: int, messages: int, report: CaptureReport, filters: Sequence[str] = ()
) -> str:
    """The captures that were read and the number of their rows, on one line. `filters` names the options that
    may have excluded others."""
    packets = sum(file.packets for file in report.files)
    where = f"{count_text(packets, 'packet')} of {count_text(len(report.files), 'file')}"
    if report.passed_over:
        where += f"; {passed_over_text(report.passed_over)}"
    if not rows:
        if filters:
            return f"no row of {table} matches {' and '.join(filters)} in {where}"
        return f"no {_NONE.get(table, table)} in {where}"
    parts = [count_text(rows, TABLES[table].singular)]
    if table == "sessions":
        parts.append(count_text(messages, "message"))
    return f"{', '.join(parts)} in {where}"
