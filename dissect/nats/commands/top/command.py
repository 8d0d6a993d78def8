"""`nats-dissect top`: the traffic of a capture while it arrives, on a screen that is redrawn each second.

A single capture file is followed while it grows; standard input is read while packets arrive; dumpcap or
tcpdump captures on a network interface; several captures are read once. With `--once`, or if standard output
is not a terminal, the tables are printed after the end of the input. The exit status is as for every command;
leaving with `q` is not an error.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import replace
from itertools import islice

from ...capture import CaptureReport
from ...capture.files import capture_name, opened
from ...capture.reader import Pieces
from ...capture.report import FileReport
from ...capture.sources import STDIN, read_records, unpacked
from ...engine.connections import PacketEvents
from ...engine.dissection import Dissection
from ...errors import DissectError
from ...options import Options
from ...output.folders import is_folder
from ...output.sink import Fault, writing
from ...output.terminal import Terminal, terminal_of
from ...output.writer import LineWriter, OutputFormat
from ...pipeline import timelines
from ...secrets.key_log import KeyLog
from ...types import Packets
from ..run import Command, RenderedRows, leave, print_chunks
from .options import TopOptions
from .page import summary
from .screen import Keys, Quit, Screen
from .sniffer import sniffing
from .stored import count_tables
from .traffic import TopTraffic
from .views import VIEWS, Controls, TopTable, json_lines, ordered, table_text

Sniffed = tuple[bytes, int]
_TABLES = ("frames", "requests", "anomalies")
_POLL_SECONDS = 0.2
"""The interval at which a file that had no more bytes is read again: hardly visible, and hardly any load."""


def show_top(options: TopOptions) -> None:
    """Shows the traffic of captures, or of a network interface, until the user leaves, or prints it once."""
    interface, tables = options.interface, options.tables
    if [bool(options.captures), interface is not None, tables is not None].count(True) != 1:
        raise Fault(
            "top takes captures, --interface with the name of an interface, or --tables with a"
            " folder of tables"
        )
    if tables is not None:
        _check_tables(options, tables)
    if interface is not None:
        options = replace(options, captures=(STDIN,))
    controls = _controls(options.sort, options.view, options.filter)
    run = Command("top", options)
    terminal = terminal_of(sys.stdout) if options.path is None and sys.stdout else Terminal()
    dumb = os.environ.get("TERM") in ("dumb", "unknown")
    if (
        options.once
        or tables is not None
        or options.format != "text"
        or terminal.width is None
        or dumb
    ):
        if interface is not None:
            raise Fault(
                f"--interface needs a terminal, and no --once, for it has no end: `tcpdump -i {interface}"
                " -c 10000 -w - | nats-dissect top --once -` ends"
            )
        options.refuse(("interval",), "tables that are printed once")
        chosen = VIEWS if options.view is None else (controls.view,)
        chunks = _once(run, options, controls, chosen, terminal)
        print_chunks(run, OutputFormat(str, LineWriter), chunks, silent=True)
        return
    options.refuse(("limit", "progress"), "the live view, which is as long as the screen")
    try:
        with nullcontext() if interface is None else sniffing(interface) as sniffed:
            _live(run, controls, terminal.colour, options.interval, sniffed)
    except Quit:
        leave(run.report, interrupted=False)


def _controls(sort: str | None, view: str | None, wanted: str) -> Controls:
    """The view, order and filter of the command line."""
    controls = Controls(filter=wanted)
    controls.view = next((each for each in VIEWS if each.name == view), VIEWS[0])
    if sort is not None:
        name, _, way = sort.partition(":")
        if way not in ("", "asc", "desc"):
            raise Fault(f"--sort: {sort!r} is neither COLUMN nor COLUMN:desc")
        try:
            controls.view.field(name)
        except ValueError as error:
            raise Fault(f"--sort: {error}") from None
        controls.sorts[controls.view.name] = name, way == "desc"
    return controls


def _check_tables(options: TopOptions, folder: str) -> None:
    options.refuse_reading()
    if not is_folder(folder):
        raise Fault(f"{folder}: no folder with tables")


def _once(
    run: Command,
    options: TopOptions,
    controls: Controls,
    views: Sequence[TopTable],
    terminal: Terminal,
) -> Iterator[RenderedRows]:
    """The tables after the end of the input. Rates are averages over the time of the capture."""
    report, traffic = run.report, TopTraffic()
    if options.tables is not None:
        count_tables(options.tables, options.between, traffic, report)
    every = timelines(options.captures, options.dissection, report) if options.captures else ()
    for timeline in every:
        dissection = open_dissection(options.dissection, report)
        with closing(dissection.packets(timeline, report)) as blocks:
            count(blocks, dissection, traffic)
    traffic.measure(max(_span_ns(report) / 1e9, 1e-9))
    if options.format == "jsonl":
        yield RenderedRows(list(islice(json_lines(traffic, controls, views), options.limit)))
        return
    yield RenderedRows([f"{line}\n" for line in summary(traffic, report)])
    for view in views:
        lines = ordered(traffic, controls, view)[: options.limit]
        if lines:
            yield RenderedRows([f"\n{view.name}\n", table_text(view, lines, terminal)])


def _span_ns(report: CaptureReport) -> int:
    """The time from the first packet to the last one."""
    first_ns = min((file.first_ns for file in report.files if file.first_ns is not None), default=0)
    return (
        max((file.last_ns for file in report.files if file.last_ns is not None), default=0)
        - first_ns
    )


def _live(
    run: Command, controls: Controls, colour: bool, interval: float, sniffed: Sniffed | None
) -> None:
    """Shows the traffic until the user leaves. Raises Quit then."""
    traffic, options, report = TopTraffic(), run.options.dissection, run.report

    def look() -> tuple[Terminal, int]:
        size = shutil.get_terminal_size()
        return Terminal(size.columns, colour), size.lines

    with (
        writing(run.sink),
        Keys() as keys,
        Screen(traffic, report, controls, keys, interval, look) as screen,
    ):
        for timeline in timelines(run.options.captures, options, report):
            dissection = open_dissection(options, report)
            blocks = _arriving(timeline, dissection, options.max_expanded, report, screen, sniffed)
            with closing(blocks):
                count(blocks, dissection, traffic)
        screen.note = "the input has ended"
        while True:
            screen.wait([])


def _follows(paths: Sequence[str]) -> bool:
    """Whether these inputs may get more packets."""
    return len(paths) == 1 and (paths[0] == STDIN or os.path.isfile(paths[0]))


def _arriving(
    paths: Sequence[str],
    dissection: Dissection,
    max_expanded: int | None,
    report: CaptureReport,
    screen: Screen,
    sniffed: Sniffed | None,
) -> Generator[Packets, None, None]:
    """The packets of the captures, within the time range. The screen is polled after each run of packets."""
    if _follows(paths):
        pieces = _pieces(paths[0], screen, sniffed)
        embedded = dissection.key_logs.embedded
        source = _followed(paths[0], report, max_expanded, pieces, embedded)
    else:
        source = dissection.packets(paths, report)
    with closing(source):
        for run in dissection.within(source) if _follows(paths) else source:
            yield run
            screen.poll()


def _followed(
    path: str,
    report: CaptureReport,
    max_expanded: int | None,
    pieces: AbstractContextManager[Pieces],
    embedded: KeyLog,
) -> Generator[Packets, None, None]:
    """The packets of standard input as they arrive, or of a file while it grows."""
    file = FileReport(path, capture_name(path))
    report.files.append(file)
    with unpacked(path, file, max_expanded, pieces) as blocks:
        yield from read_records(file.format, blocks, file, embedded=embedded)


@contextmanager
def _pieces(path: str, screen: Screen, sniffed: Sniffed | None) -> Iterator[Pieces]:
    """The bytes of a file, of standard input or of an interface. Reading serves the screen while it waits."""
    if sniffed is not None:
        yield _Pipe(sniffed[1], screen, sniffed[0])
        return
    if path == STDIN:
        if sys.stdin is None:
            raise DissectError("-: standard input is closed")
        yield _Pipe(sys.stdin.fileno(), screen)
        return
    with opened(path) as file:
        yield _GrowingFile(file, screen)


class _Pipe:
    """A pipe, which ends when its writer closes it. `first` are bytes that were read from it already."""

    def __init__(self, descriptor: int, screen: Screen, first: bytes = b"") -> None:
        self._descriptor = descriptor
        self._screen = screen
        self._first = first

    def read1(self, size: int, /) -> bytes:
        """The bytes that are available; waits until there are some."""
        if self._first:
            data, self._first = self._first[:size], self._first[size:]
            return data
        while not self._screen.wait([self._descriptor]):
            pass
        return os.read(self._descriptor, size)


class _GrowingFile:
    """A file that never ends, because more may be written to it."""

    def __init__(self, file: Pieces, screen: Screen) -> None:
        self._file = file
        self._screen = screen

    def read1(self, size: int, /) -> bytes:
        """The bytes that are available; waits until there are some."""
        while not (data := self._file.read1(size)):
            self._screen.wait([], _POLL_SECONDS)
        return data


def open_dissection(options: Options, report: CaptureReport) -> Dissection:
    """A dissection into what `count` reads."""
    return Dissection(_TABLES, options, request_events=True, protocols=report.protocols)


def count(blocks: Iterable[Packets], dissection: Dissection, traffic: TopTraffic) -> None:
    """Counts the packets of one timeline."""

    def observed(groups: Iterable[PacketEvents]) -> Iterator[PacketEvents]:
        for group in groups:
            for connection, _ in group.connections:
                traffic.meet(connection)
            yield group  # its rows are counted before the next group is requested
            for connection, _ in group.connections:
                if connection.over:
                    traffic.part(connection)

    for rows in dissection.tables(observed(dissection.events(blocks))):
        traffic.add(rows.records)
