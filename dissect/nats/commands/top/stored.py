"""The traffic in a folder of tables, counted as `top --once` counts that of captures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from ...capture import CaptureReport, FileReport
from ...capture.time_range import TimeRange
from ...output.duckdb import create_tables, explained
from ...output.folders import lacking_text
from ...output.sink import say
from ...output.table_views import views
from ...schema.records import AnomalyRecord, FrameRecord, Record, RequestRecord
from ...sessions import Moment, RequestEvent
from ...tcp.flow import End
from .traffic import StoredConnection, StoredFlow, TopTraffic

if TYPE_CHECKING:
    import duckdb

_ROWS = 8192
_READ = ("flows", "frames", "requests", "anomalies")
_SPAN = "SELECT sum(packets_originator + packets_responder), min(first_ns), max(last_ns) FROM flows"
_FLOWS = 'SELECT session, originator, responder, first_ns, last_ns, "end" FROM flows'
# Connections that are still open have no row in `flows` yet.
_OPEN = (
    "SELECT session, '?', '?', min(ts_ns), max(ts_ns), 'open' FROM frames"
    " WHERE session NOT IN (SELECT session FROM flows) GROUP BY session"
)
_FRAMES = (
    "SELECT session, number, ts_ns, sender, kind, op, subject, header_bytes, payload_bytes, json, error"
    " FROM frames ORDER BY ts_ns, session, number"
)
_REQUEST = (
    "SELECT session, subject, reply, sent_ns, replied_ns, latency_ns, outcome, request_bytes"
    " FROM requests"
)
_REQUESTS = f"{_REQUEST} ORDER BY sent_ns, session"
_UNANSWERED = f"{_REQUEST} WHERE replied_ns IS NULL ORDER BY sent_ns, session"
_ANOMALIES = (
    'SELECT session, ts_ns, packet, sender, anomaly, "offset", bytes, text FROM anomalies'
    " ORDER BY ts_ns, session"
)


_request_row: Callable[..., RequestRecord] = RequestRecord
_flow: Callable[..., StoredFlow] = StoredFlow
_frame: Callable[..., Record] = partial(
    FrameRecord, packet=0, capture="", total_bytes=0, offset=0  # which nobody counts
)


def _request(**row: object) -> Iterator[Record]:
    """The first moments of a request."""
    request = _request_row(**row)
    yield RequestEvent(Moment.SENT, request)
    if request.replied_ns is not None:
        yield RequestEvent(Moment.ANSWERED, request)


def _anomaly(**row: object) -> Iterator[Record]:
    make: Callable[..., Record] = AnomalyRecord
    yield make(**row)


def count_tables(root: str, between: TimeRange, traffic: TopTraffic, report: CaptureReport) -> None:
    """Counts the rows in a range of time. The report gets the packets and times of their connections. Raises
    QueryError."""
    with explained(root), views(_READ, root, between) as (connection, lacking):
        if some := {table: names for table, names in lacking.items() if names}:
            say(lacking_text(root, some))
        create_tables(connection, sorted({*_READ} - lacking.keys()))
        for packets, first_ns, last_ns in connection.execute(_SPAN).fetchall():
            report.files.append(
                FileReport(root, "", packets=packets or 0, first_ns=first_ns, last_ns=last_ns)
            )
        for sql in (_FLOWS, _OPEN):
            for *values, end in connection.execute(sql).fetchall():
                traffic.meet(StoredConnection(_flow(*values, End(end))))
        for row in _named(connection, _FRAMES):
            traffic.add([_frame(**row)])
        for row in _named(connection, _REQUESTS):
            traffic.add(_request(**row))
        for row in _named(connection, _UNANSWERED):  # it is known at the end of their connections
            traffic.add([RequestEvent(Moment.OVER, _request_row(**row))])
        for row in _named(connection, _ANOMALIES):
            traffic.add(_anomaly(**row))


def _named(connection: duckdb.DuckDBPyConnection, sql: str) -> Iterator[dict[str, object]]:
    """The rows of a query, by column."""
    found = connection.execute(sql)
    names = [column[0] for column in found.description]
    while some := found.fetchmany(_ROWS):
        for row in some:
            yield dict(zip(names, row))
