"""The stages in a row: packets -> segments -> talks -> records. Streaming generators all the way.

    for row in sessions(["capture.pcap"]):
        print(row.kind, row.originator, row.messages_originator)

Paths in, records out. CaptureError is raised where an input is no capture; what is damaged ends up in the
`report` handed in. Memory does not grow with the capture.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing
from typing import TypeVar

from .capture import CaptureReport, read_packets
from .folds import Rows, fold
from .layers import Layers
from .options import Options
from .records import (
    ROWS,
    AnomalyRecord,
    FlowRecord,
    FrameRecord,
    Record,
    RequestRecord,
    SessionRecord,
    SubscriptionRecord,
)
from .talks import Clock, talks
from .timeline import REACH, Timeline
from .wire import Segment

_DEFAULTS = Options()

_R = TypeVar("_R", bound=Record)


def segments(
    paths: Sequence[str],
    report: CaptureReport | None = None,
    layers: Layers | None = None,
    clock: Clock | None = None,
) -> Iterator[Segment]:
    """The TCP segments in the captures, in order of their times."""
    segment_of = (layers or Layers()).segment_of
    clock = clock or Clock()
    for packet in read_packets(paths, CaptureReport() if report is None else report):
        clock.packets += 1
        segment = segment_of(packet)
        if segment:
            yield segment


def released(
    paths: Sequence[str],
    tables: Collection[str],
    options: Options = _DEFAULTS,
    report: CaptureReport | None = None,
) -> Iterator[Rows]:
    """The records of several tables in one pass, as they become complete."""
    clock = Clock()
    source = segments(paths, report, clock=clock)
    return fold(talks(source, options, clock), tables, options)


def records(
    paths: Sequence[str],
    tables: Collection[str],
    options: Options = _DEFAULTS,
    report: CaptureReport | None = None,
    live: bool = False,
) -> Generator[Record, None, None]:
    """The records of several tables in one pass. Each table is in order of time, as far as `REACH` says;
    with `live` its rows come as soon as they are complete."""
    lines = {ROWS[name]: Timeline(0 if live else REACH[name]) for name in tables}
    for _, rows in released(paths, tables, options, report):
        for kind, line in lines.items():
            yield from line.put([row for row in rows if row.__class__ is kind])
    for line in lines.values():
        yield from line.rest()


# Of each table, what users call. All take the same: `paths` are files, folders, patterns or `-` for
# standard input, together one timeline. Who stops early calls `close`, which closes the files.


def frames(
    paths: Sequence[str],
    options: Options = _DEFAULTS,
    report: CaptureReport | None = None,
    live: bool = False,
) -> Generator[FrameRecord, None, None]:
    """The frames in the captures: one record an operation. Arguments as in `records`."""
    return _only(FrameRecord, records(paths, ["frames"], options, report, live))


def sessions(
    paths: Sequence[str],
    options: Options = _DEFAULTS,
    report: CaptureReport | None = None,
    live: bool = False,
) -> Generator[SessionRecord, None, None]:
    """The NATS connections in the captures: one record each. Arguments as in `records`."""
    return _only(SessionRecord, records(paths, ["sessions"], options, report, live))


def subscriptions(
    paths: Sequence[str],
    options: Options = _DEFAULTS,
    report: CaptureReport | None = None,
    live: bool = False,
) -> Generator[SubscriptionRecord, None, None]:
    """What was subscribed: one record a subscription. Arguments as in `records`."""
    return _only(SubscriptionRecord, records(paths, ["subscriptions"], options, report, live))


def requests(
    paths: Sequence[str],
    options: Options = _DEFAULTS,
    report: CaptureReport | None = None,
    live: bool = False,
) -> Generator[RequestRecord, None, None]:
    """What was asked, and whether it was answered: one record a request. Arguments as in `records`."""
    return _only(RequestRecord, records(paths, ["requests"], options, report, live))


def flows(
    paths: Sequence[str],
    options: Options = _DEFAULTS,
    report: CaptureReport | None = None,
    live: bool = False,
) -> Generator[FlowRecord, None, None]:
    """The TCP connections in the captures, NATS or not. Arguments as in `records`."""
    return _only(FlowRecord, records(paths, ["flows"], options, report, live))


def anomalies(
    paths: Sequence[str],
    options: Options = _DEFAULTS,
    report: CaptureReport | None = None,
    live: bool = False,
) -> Generator[AnomalyRecord, None, None]:
    """What is odd, lost or skipped: one record an oddity. Arguments as in `records`."""
    return _only(AnomalyRecord, records(paths, ["anomalies"], options, report, live))


def _only(kind: type[_R], rows: Generator[Record, None, None]) -> Generator[_R, None, None]:
    with closing(rows):
        for row in rows:
            assert isinstance(row, kind)
            yield row
