"""`nats-dissect slice`: captures -> the packets of some sessions, as a new capture.

The first pass finds the sessions, and the time at which each connection began, because a later connection on
the same ports is another session. The second pass finds the packets of the sessions, and the third copies
them. Copying is a separate pass because the output format depends on all files that have such packets, and
because only the last fragment of a datagram shows whether the datagram is wanted. If every packet is copied,
the third pass takes 2 % of the time.

Exit status: 0 done, also if no session matches (no file is written then); 2 if an input is not a capture or
an ID is unknown or not unique; 3 done, but a capture was cut short or damaged.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, NamedTuple

from ...capture import CaptureReport, read_runs
from ...capture.slices import ChosenPackets, write_slice
from ...capture.time_range import packets_between
from ...errors import DissectError
from ...number_formats import count_text
from ...option_types import Opt, OptionGroup, text, texts
from ...options import Options
from ...output.duckdb import Where
from ...output.sink import Fault, say, sink_of, writing
from ...output.text.lines import input_lines
from ...packet import PacketParser
from ...pipeline import records, timelines
from ...schema.records import FlowRecord, SessionRecord
from ...tcp.flow import community_id
from ...types import Segment
from ..command_options import CommandOptions, file_of
from ..session.detail import Unclear

_DAMAGED = 3
_SESSION = re.compile(r"[0-9a-fA-F]{4,16}")
_ASKED_ROWS = 4096
_MOST_WAITING = 1024  # fragmented datagrams, as many as `packet.fragments` keeps

_community_id = lru_cache(maxsize=1 << 16)(community_id)


class _Selection(NamedTuple):
    """Captures, and their connections: Community ID -> time of the first packet -> session id."""

    paths: Sequence[str]
    begins: dict[str, dict[int, str]]


def ids_and_captures(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The session IDs and the captures. An ID is 4 to 16 hexadecimal digits that name no file or folder."""
    ids = [text for text in arguments if _SESSION.fullmatch(text) and not os.path.exists(text)]
    return ids, [text for text in arguments if text not in ids]


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceOptions(CommandOptions):
    """Session IDs and captures, and the options of the command."""

    output: Annotated[
        str | None,
        file_of("Write to this file: pcap if all captures are pcap, else pcapng.", required=True),
    ] = None
    where: Annotated[
        str | None,
        "Only sessions that match this SQL condition on the columns of `sessions`.",
        Opt(OptionGroup.SELECTION, text("EXPR"), common=True),
    ] = None
    sessions: Annotated[
        tuple[str, ...],
        "Write this session, like an ID argument; the start of the ID is enough. Repeatable.",
        Opt(OptionGroup.SELECTION, texts("ID", "a session ID or several"), flags=("--session",)),
    ] = ()


def slice_captures(options: SliceOptions) -> None:
    """Writes the packets of the sessions whose ids begin with these texts (of all sessions if there are none)
    and which match `--where` and `--kind`. Exits with status 3 unless everything was read."""
    ids, captures = ids_and_captures(options.captures)
    ids += options.sessions
    options = replace(options, captures=tuple(captures))
    if not options.captures:
        raise Fault(
            "no capture is named; an argument of 4 to 16 hexadecimal digits is a session ID"
        )
    if options.live:
        raise Fault("standard input cannot be read twice; write it to a file first")
    sink = sink_of(options.path, options.captures, binary=True, others=options.other_inputs)
    report = CaptureReport()
    try:
        lines, rows = _sessions(options, report)
        wanted = _chosen_sessions(rows, [start.lower() for start in ids], options)
        chosen = _packets(lines, wanted, options.dissection)
    except DissectError as error:
        raise Fault(str(error)) from None
    total = sum(file.packets for file in report.files)
    if wanted:
        paths = [line.paths for line in lines]
        with writing(sink) as output:
            write_slice(paths, chosen, output.buffer, options.dissection.max_expanded)
    for line in input_lines(report):
        say(line)
    count = sum(each.count for each in chosen)
    text = f"{count_text(len(wanted), 'session')}, {count_text(count, 'packet')} of {total}"
    say(f"{text} in {sink.name}" if wanted else "no session matches; nothing is written")
    if report.damaged or report.unreadable:
        sys.exit(_DAMAGED)


def _sessions(
    options: CommandOptions, report: CaptureReport
) -> tuple[list[_Selection], list[SessionRecord]]:
    """The timelines with the start times of all connections, and the sessions."""
    dissection = options.dissection
    # A connection of any kind can reuse the ports of a wanted session.
    alone = replace(dissection, kind=None, separate=False)
    lines: list[_Selection] = []
    rows: list[SessionRecord] = []
    for paths in timelines(options.captures, dissection, report):
        line = _Selection(paths, {})
        lines.append(line)
        with closing(records(paths, ("sessions", "flows"), alone, report)) as source:
            for row in source:
                if isinstance(row, FlowRecord):
                    line.begins.setdefault(row.community_id, {})[row.first_ns] = row.session
                elif isinstance(row, SessionRecord):
                    rows.append(row)
    return lines, rows


def _chosen_sessions(
    rows: Sequence[SessionRecord], starts: Sequence[str], options: CommandOptions
) -> set[str]:
    """The ids of the sessions to write. Raises Unclear unless each start begins exactly one id."""
    ids = {row.session for row in rows}
    for start in starts:
        found = sorted(session for session in ids if session.startswith(start))
        if len(found) != 1:
            raise Unclear(start, found)
    kinds = {kind.value for kind in options.dissection.kind or ()}
    left = [
        row
        for row in rows
        if (not starts or row.session.startswith(tuple(starts)))
        and (not kinds or row.kind in kinds)
    ]
    where = None if options.where is None else Where("sessions", options.where)
    with closing(where) if where else nullcontext():
        for at in range(0, len(left) if where else 0, _ASKED_ROWS):
            some = left[at : at + _ASKED_ROWS]
            kept = set(map(id, where.matching(some))) if where else set()
            ids -= {row.session for row in some if id(row) not in kept}
    return ids & {row.session for row in left}


def _packets(
    lines: Sequence[_Selection], wanted: Collection[str], options: Options
) -> list[ChosenPackets]:
    """The packets of the wanted sessions, by file."""
    chosen: dict[str, ChosenPackets] = {}
    for paths, begins in lines:
        ports = _Ports(begins, wanted)
        parser = PacketParser()
        # Fragmented datagrams that are not complete: path, number and time of each packet.
        waiting: dict[bytes, list[tuple[str, int, int]]] = {}
        runs = read_runs(paths, CaptureReport(), options.max_expanded, name=str)
        with closing(runs):
            between = packets_between(runs, options.from_time, options.until_time)
            for packet in (packet for run in between for packet in run):
                segment = parser.segment_of(packet)
                marks = [(packet.capture, packet.number, packet.ts_ns)]
                for datagram in parser.datagrams:
                    marks = waiting.pop(datagram, []) + marks
                if segment is None:
                    if parser.datagrams:
                        waiting[parser.datagrams[-1]] = marks
                        if len(waiting) > _MOST_WAITING:
                            del waiting[next(iter(waiting))]
                elif ports.is_wanted(segment):
                    for path, number, ts_ns in marks:
                        each = chosen.setdefault(path, ChosenPackets(path, ts_ns, ts_ns))
                        each.add(number, ts_ns)
    return list(chosen.values())


class _Ports:
    """The connections that share the endpoints of wanted sessions, and whether the current connection between
    two endpoints is wanted."""

    def __init__(self, begins: dict[str, dict[int, str]], wanted: Collection[str]) -> None:
        self._begins = {
            name: {first_ns: session in wanted for first_ns, session in connections.items()}
            for name, connections in begins.items()
            if any(session in wanted for session in connections.values())
        }
        self._current: dict[str, bool] = {}

    def is_wanted(self, segment: Segment) -> bool:
        """Whether a segment belongs to a wanted session. Segments must come in the timeline's order."""
        name = _community_id(segment.key)
        if name not in self._begins:
            return False
        # A connection begins once: a later packet at the same time is not another beginning.
        begun = self._begins[name].pop(segment.ts_ns, None)
        if begun is not None:
            self._current[name] = begun
        return self._current.get(name, False)
