"""The figures of the report as Plotly figures, for notebooks such as Jupyter.

    from dissect.nats import frames, plots

    plots.traffic(frames("capture.pcap"))
    plots.latency(spark.read.parquet("tables/requests"))

Each function takes the rows of one table: records, an Arrow table, a pandas DataFrame or a Spark DataFrame.
Rows are aggregated and never collected: Spark aggregates them where they are, and only the aggregates travel.
A missing column counts as a column without values. Raises MissingLibrary without the extra `report`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from .output.arrow.types import pyarrow
from .report.aggregates.connections import Connections
from .report.aggregates.jetstream import JetStream
from .report.aggregates.requests import Requests
from .report.aggregates.subjects import Subjects
from .report.aggregates.topology import Topology
from .report.aggregates.traffic import BYTES, MESSAGES, Traffic
from .report.figures import charts as figures
from .report.figures import ladder as ladder_figure
from .report.figures.ladder import Steps
from .report.parquet_rows import records_from, records_of
from .schema.records import Record
from .tables import TABLES

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa
    from plotly.graph_objects import Figure
    from pyspark.sql import DataFrame
    from typing_extensions import TypeAlias

    Rows: TypeAlias = Iterable[Record] | pa.Table | pa.RecordBatch | pandas.DataFrame | DataFrame

__all__ = [
    "BYTES",
    "MESSAGES",
    "ladder",
    "lag",
    "latency",
    "latency_over_time",
    "message_path",
    "stopped",
    "subjects",
    "talkers",
    "topology",
    "traffic",
]


class _Part(Protocol):
    """An aggregate of rows."""

    def add(self, row: Record) -> None: ...

    def merge(self: _P, other: _P) -> None: ...


_P = TypeVar("_P", bound=_Part)


def traffic(frames: Rows, measure: str = MESSAGES) -> Figure:
    """Messages, or BYTES, of `frames` over time by kind of connection and direction, with errors.
    Raises ValueError for another measure."""
    if measure not in (MESSAGES, BYTES):
        raise ValueError(f"measure must be {MESSAGES!r} or {BYTES!r}, not {measure!r}")
    return figures.traffic(_added_up(Traffic, "frames", frames), measure)


def subjects(frames: Rows) -> Figure:
    """The subjects of `frames` with the most bytes, as nested rectangles."""
    return figures.subjects(_added_up(Subjects, "frames", frames))


def latency(requests: Rows) -> Figure:
    """A histogram of the latency of the `requests` that were answered."""
    return figures.histogram(_added_up(Requests, "requests", requests).latency)


def latency_over_time(requests: Rows) -> Figure:
    """Median and percentiles of the latency of `requests` over time."""
    return figures.percentiles(_added_up(Requests, "requests", requests).over_time)


def talkers(sessions: Rows) -> Figure:
    """The originators of `sessions` that send and receive the most bytes, by name."""
    return figures.talkers(_added_up(Connections, "sessions", sessions))


def topology(sessions: Rows) -> Figure:
    """The servers of `sessions` in their clusters, with links and clients."""
    return figures.topology(_added_up(Topology, "sessions", sessions))


def stopped(flows: Rows) -> Figure:
    """How long receivers of `flows` stopped their senders with a zero window."""
    return figures.stopped(_added_up(Connections, "flows", flows))


def lag(deliveries: Rows) -> Figure:
    """The messages that wait for each consumer over time, from `deliveries` of JetStream."""
    return figures.lag(_added_up(JetStream, "deliveries", deliveries))


def ladder(frames: Rows, session: str = "") -> Figure:
    """The first 200 `frames` of a session as a ladder diagram. `session` is the session's id or the start of
    it, and may be omitted if all rows are of one session. Raises ValueError if it matches none or several.
    """
    return ladder_figure.ladder(_added_up(partial(Steps, session), "frames", frames))


def message_path(paths: Rows, message: str) -> Figure:
    """The path of a message from server to server as a ladder diagram, from `paths`. `message` is
    `SESSION:NUMBER` of its publication. Raises ValueError if it matches none or several."""
    return ladder_figure.ladder(_added_up(partial(Steps, message), "paths", paths))


def _added_up(make: Callable[[], _P], table: str, rows: object) -> _P:
    figures.plotly()
    part = make()
    if hasattr(rows, "mapInArrow"):
        add_up = partial(_parts, make, table)
        for row in rows.mapInArrow(add_up, "part binary").toLocalIterator():
            part.merge(pickle.loads(row.part))  # written by `_parts`
        return part
    row = TABLES[table].row
    for record in _records(table, rows):
        if not isinstance(record, row):
            wrong = type(record).__name__
            raise TypeError(f"rows of {table} are {row.__name__}, not {wrong}")
        part.add(record)
    return part


def _parts(
    make: Callable[[], _P], table: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Aggregates some rows, on a Spark worker; yields one row with the pickled aggregate."""
    part = make()
    for batch in batches:
        for record in records_of(table, batch):
            part.add(record)
    arrow = pyarrow()
    yield arrow.RecordBatch.from_arrays(
        [arrow.array([pickle.dumps(part)], arrow.binary())], names=["part"]
    )


def _records(table: str, rows: object) -> Iterable[Record]:
    if hasattr(rows, "to_pylist"):
        return records_of(table, rows)
    if hasattr(rows, "to_dict"):
        return records_from(table, rows.to_dict("records"))
    if isinstance(rows, str):
        raise TypeError(f"{table} must be rows, not the name of a file: {table}({rows!r})")
    return cast("Iterable[Record]", rows)
