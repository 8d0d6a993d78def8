"""Facts about each capture file and about all files together, as text and as JSON."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from operator import itemgetter

from ...capture import CaptureReport, FileReport
from ...capture.report import DUPLICATE
from ...engine.dissection import Dissection
from ...number_formats import count_text, duration_text, size_text, time_text
from ...options import Options
from ...packet.link import linktype_name
from ...pipeline import timelines
from ...schema.records import AnomalyRecord, FlowRecord, SessionRecord, printable, text_of
from ...types import Packets
from ..sorting import SortOrder, order_among

InfoValue = str | int | Mapping[str, int] | list[str] | None

_KEY_WIDTH = 20


@dataclass(slots=True)
class PacketCounts:
    """Counts of packets, their bytes in the files and on the wire, and their earliest and latest times."""

    packets: int = 0
    captured_bytes: int = 0
    wire_bytes: int = 0
    cut_packets: int = 0
    first_ns: int | None = None
    last_ns: int | None = None

    def counting(self, runs: Iterable[Packets]) -> Iterator[Packets]:
        """Counts packets, and passes them on."""
        for run in runs:
            for ts_ns, start, end, wire_bytes in run.places:
                self.packets += 1
                self.captured_bytes += end - start
                self.wire_bytes += wire_bytes
                self.cut_packets += end - start < wire_bytes
                self.first_ns = ts_ns if self.first_ns is None else min(self.first_ns, ts_ns)
                self.last_ns = ts_ns if self.last_ns is None else max(self.last_ns, ts_ns)
            yield run


def _counts_of(files: Sequence[FileReport]) -> PacketCounts:
    return PacketCounts(
        packets=sum(file.packets for file in files),
        captured_bytes=sum(file.captured_bytes for file in files),
        wire_bytes=sum(file.wire_bytes for file in files),
        cut_packets=sum(file.cut_packets for file in files),
        first_ns=min((f.earliest_ns for f in files if f.earliest_ns is not None), default=None),
        last_ns=max((f.last_ns for f in files if f.last_ns is not None), default=None),
    )


@dataclass(slots=True)
class CaptureTraffic:
    """The traffic in all files. `in_range` are the packets in a range of time, None without a range. `no_tcp`
    and `udp_ports` count packets, `protocols` TCP connections, `one_way` TCP connections that have bytes, but
    no packet of one side, `kinds` NATS sessions; `anomalies` and `anomaly_bytes` are by name.
    """

    in_range: PacketCounts | None = None
    no_tcp: Counter[str] = field(default_factory=Counter)
    udp_ports: Counter[str] = field(default_factory=Counter)
    protocols: Counter[str] = field(default_factory=Counter)
    one_way: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    missing_bytes: int = 0
    anomalies: Counter[str] = field(default_factory=Counter)
    anomaly_bytes: Counter[str] = field(default_factory=Counter)


def traffic(paths: Sequence[str], options: Options, report: CaptureReport) -> CaptureTraffic:
    """Reads the captures to their ends, and updates `report`."""
    found = CaptureTraffic()
    if options.from_time is not None or options.until_time is not None:
        found.in_range = PacketCounts()
    tables = ("flows", "sessions", "anomalies")
    for timeline in timelines(paths, options, report):
        dissection = Dissection(tables, options, tcp_bytes=report.tcp_bytes)
        blocks: Iterable[Packets] = dissection.packets(timeline, report)
        if found.in_range:
            blocks = found.in_range.counting(blocks)
        for _, records in dissection.read(blocks):
            for record in records:
                _count(found, record)
        found.no_tcp += dissection.parser.passed_over
        found.udp_ports.update({str(port): n for port, n in dissection.parser.udp_ports.items()})
    return found


def _count(found: CaptureTraffic, record: object) -> None:
    if isinstance(record, FlowRecord):
        found.protocols[record.protocol] += 1
        found.one_way += _is_one_way(record)
        found.missing_bytes += record.missing_originator + record.missing_responder
    elif isinstance(record, SessionRecord):
        found.kinds[record.kind] += 1
        found.messages += record.messages_originator + record.messages_responder
    elif isinstance(record, AnomalyRecord):
        found.anomalies[record.anomaly] += 1
        found.anomaly_bytes[record.anomaly] += record.bytes


def _is_one_way(flow: FlowRecord) -> bool:
    is_seen = flow.bytes_originator or flow.bytes_responder
    return bool(is_seen and not (flow.packets_originator and flow.packets_responder))


def file_facts(file: FileReport) -> dict[str, InfoValue]:
    """The facts of one file, as in its JSON object."""
    linktypes: Counter[str] = Counter()  # several numbers have the name RAW
    for linktype, count in file.linktypes.items():
        linktypes[linktype_name(linktype)] += count
    facts: dict[str, InfoValue] = {
        "file": _name(file.path),
        "format": file.format,
        "packets": file.packets,
        "captured_bytes": file.captured_bytes,
        "wire_bytes": file.wire_bytes,
        "first_ns": file.earliest_ns,
        "last_ns": file.last_ns,
        "back_ns": file.back_ns or None,
        "linktypes": dict(linktypes.most_common()),
        "snaplens": {str(item): n for item, n in file.snaplens.most_common()},
        "cut_packets": file.cut_packets,
        "dropped_packets": file.dropped,
        "interfaces": [item.name for item in file.interfaces if item.name],
        "comments": file.comments,
        "other_blocks": dict(file.blocks),
        "skipped_records": dict(file.skipped),
        "damage": file.damage,
    }
    return {name: fact for name, fact in facts.items() if fact not in (None, [], {})}


_SORTABLE = (
    "file",
    "format",
    "packets",
    "captured_bytes",
    "wire_bytes",
    "first_ns",
    "last_ns",
    "cut_packets",
    "dropped_packets",
    "comments",
    "damage",
)


def file_order(sort: str) -> SortOrder:
    """The order of files that `COLUMN[:desc]` names. Raises ValueError."""
    return order_among({name: name for name in _SORTABLE}, sort, "a file")


def files_sorted(files: Iterable[FileReport], order: SortOrder) -> list[FileReport]:
    """The files in the order of a fact; files without it come last."""
    facts = [(file_facts(file).get(order.field), file) for file in files]
    known = [(fact, file) for fact, file in facts if fact is not None]
    known.sort(key=itemgetter(0), reverse=order.descending)
    return [file for _, file in known] + [file for fact, file in facts if fact is None]


def total_facts(report: CaptureReport, found: CaptureTraffic) -> dict[str, InfoValue]:
    """The facts of all files together, as in the last JSON object."""
    files = report.files
    facts: dict[str, InfoValue] = {
        "files": len(files),
        **asdict(found.in_range or _counts_of(files)),
        "dropped_packets": sum(file.dropped for file in files),
        "no_tcp": dict(found.no_tcp.most_common()),
        "udp_ports": dict(found.udp_ports.most_common(3)),
        "flows": dict(found.protocols.most_common()),
        "one_way_flows": found.one_way or None,
        "sessions": dict(found.kinds.most_common()),
        "messages": found.messages,
        "missing_bytes": found.missing_bytes,
        "duplicate_bytes": report.tcp_bytes[DUPLICATE] or None,
        "doubled": bool(report.doubled) or None,
        "anomalies": dict(found.anomalies.most_common()),
        "anomaly_bytes": dict(found.anomaly_bytes.most_common()),
        "no_captures": list(map(_name, report.passed_over)),
        "unreadable": list(map(_name, report.unreadable)),
    }
    return {name: fact for name, fact in facts.items() if fact not in (None, [], {})}


def _name(path: str) -> str:
    """A file name, which need not be UTF-8, as text."""
    return text_of(os.fsencode(path))


def json_text(report: CaptureReport, found: CaptureTraffic) -> Iterator[str]:
    """A JSON object for each file, then one for all of them."""
    for facts in (*map(file_facts, report.files), total_facts(report, found)):
        line = json.dumps(facts, separators=(",", ":"))
        yield f"{line}\n"


def info_text(report: CaptureReport, found: CaptureTraffic) -> Iterator[str]:
    """The same facts as text."""
    for file in report.files:
        yield f"{printable(file.path)}\n{_block(_file_lines(file))}\n"
    yield f"in all {count_text(len(report.files), 'file')}\n"
    yield _block(_traffic_lines(report, found))


def _file_lines(file: FileReport) -> Iterator[tuple[str, str]]:
    facts = file_facts(file)
    yield "format", file.format
    yield "packets", _packets(file.packets, file.captured_bytes, file.wire_bytes)
    yield "time", _span(file.earliest_ns, file.last_ns)
    if file.back_ns:
        yield "clock", f"goes back by up to {duration_text(file.back_ns)}: packets are not in order of time"
    yield "link types", _counts(facts.get("linktypes"))
    yield "snap length", ", ".join(str(n) if n else "none" for n in file.snaplens)
    yield "cut packets", f"{file.cut_packets} by the snap length" if file.cut_packets else ""
    yield "interfaces", ", ".join(map(printable, (i.name for i in file.interfaces if i.name)))
    yield "dropped", f"{count_text(file.dropped, 'packet')}, says the capture program" * bool(
        file.dropped
    )
    yield "comments", str(file.comments or "")
    yield "other blocks", _counts(file.blocks)
    yield "unusable", _counts(file.skipped)
    yield "damage", file.damage or ""


def _traffic_lines(report: CaptureReport, found: CaptureTraffic) -> Iterator[tuple[str, str]]:
    counts = found.in_range or _counts_of(report.files)
    text = _packets(counts.packets, counts.captured_bytes, counts.wire_bytes)
    yield "packets", text + ", in the range of time" * bool(found.in_range)
    yield "time", _span(counts.first_ns, counts.last_ns)
    yield "no TCP", _counts(found.no_tcp)
    yield "UDP ports", _counts(dict(found.udp_ports.most_common(3)))
    yield "TCP connections", _counts(found.protocols) or "none"
    yield "one direction", f"{found.one_way} TCP connections lack the packets of one side" * bool(
        found.one_way
    )
    yield "NATS sessions", _counts(found.kinds) or "none"
    yield "messages", str(found.messages or "")
    if duplicates := report.tcp_bytes[DUPLICATE]:
        twice = ", packets were captured more than once" * bool(report.doubled)
        yield "duplicates", size_text(duplicates) + twice
    yield "missing", size_text(found.missing_bytes) if found.missing_bytes else ""
    for name, count in found.anomalies.most_common():
        size = found.anomaly_bytes[name]
        yield f"! {name}", f"{count}" + (f" ({size_text(size)})" if size else "")
    yield "not captures", str(len(report.passed_over) or "")
    yield "not readable", str(len(report.unreadable) or "")


def _block(lines: Iterator[tuple[str, str]]) -> str:
    shown = [(name, text) for name, text in lines if text]
    width = max([_KEY_WIDTH, *(len(name) + 2 for name, _ in shown)])
    return "".join(f"  {name:<{width}}{text}\n" for name, text in shown)


def _counts(counts: InfoValue) -> str:
    if not isinstance(counts, Mapping):
        return ""
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{printable(name)} {count}" for name, count in ranked)


def _packets(packets: int, captured: int, wire: int) -> str:
    sizes = size_text(captured) + (f" of {size_text(wire)}" if wire != captured else "")
    return f"{packets} ({sizes})"


def _span(first_ns: int | None, last_ns: int | None) -> str:
    if first_ns is None or last_ns is None:
        return ""
    return f"{time_text(first_ns)} to {time_text(last_ns)} ({duration_text(last_ns - first_ns)})"
