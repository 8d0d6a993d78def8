"""The figures of the report as Plotly figures, for notebooks such as Jupyter.

    from dissect.nats import frames, plots

    plots.traffic(frames("capture.pcap"))
    plots.latency(spark.read.parquet("tables/requests"))

Each function takes the rows of one table: records, an Arrow table, a pandas DataFrame or a Spark DataFrame.
They ask the questions of the report: in DuckDB, or in Spark for a Spark DataFrame, and only answers travel.
A missing column counts as a column without values. Raises MissingLibrary without the extra `report`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar, cast
from uuid import uuid4

from .audit.engines.duckdb import DuckDb, database
from .output.arrow.records import schema
from .output.arrow.types import pyarrow
from .output.duckdb import load
from .questions.ask import AnswerRow, QueryEngine, ask, columns_read, over, tables_read
from .report.answers import BYTES, DRAWN, MESSAGES, NAMED, stopped_of, subjects_of, traffic_of
from .report.figures import charts as figures
from .report.figures import ladder as ladder_figure
from .report.figures.ladder import STEPS, LadderStep, step_of_frame, step_of_hop
from .report.topology import topology_of
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


_T = TypeVar("_T")


def traffic(frames: Rows, measure: str = MESSAGES) -> Figure:
    """Messages, or BYTES, of `frames` over time by kind of connection and direction, with errors.
    Raises ValueError for another measure."""
    if measure not in (MESSAGES, BYTES):
        raise ValueError(f"measure must be {MESSAGES!r} or {BYTES!r}, not {measure!r}")
    return figures.traffic(_answer("frames", frames, ["traffic"], traffic_of), measure)


def subjects(frames: Rows) -> Figure:
    """The subjects of `frames` with the most bytes, as nested rectangles."""
    return figures.subjects(_answer("frames", frames, ["subjects"], subjects_of))


def latency(requests: Rows) -> Figure:
    """A histogram of the latency of the `requests` that were answered."""
    return figures.histogram(_rows("requests", requests, "latencies"))


def latency_over_time(requests: Rows) -> Figure:
    """Median and percentiles of the latency of `requests` over time."""
    return figures.percentiles(_rows("requests", requests, "latency_over_time"))


def talkers(sessions: Rows) -> Figure:
    """The originators of `sessions` that send and receive the most bytes, by name."""
    return figures.talkers(_rows("sessions", sessions, "talkers", limit=NAMED))


def topology(sessions: Rows) -> Figure:
    """The servers of `sessions` in their clusters, with links and clients."""
    return figures.topology(_answer("sessions", sessions, ["topology", "servers"], topology_of))


def stopped(flows: Rows) -> Figure:
    """How long receivers of `flows` stopped their senders with a zero window."""
    return figures.stopped(_answer("flows", flows, ["stopped"], stopped_of))


def lag(deliveries: Rows) -> Figure:
    """The messages that wait for each consumer over time, from `deliveries` of JetStream."""
    return figures.lag(_rows("deliveries", deliveries, "lag", limit=DRAWN))


def ladder(frames: Rows, session: str = "") -> Figure:
    """The first 200 `frames` of a session as a ladder diagram. `session` is the session's id or the start of
    it, and may be omitted if all rows are of one session. Raises ValueError if it matches none or several.
    """
    name = session if session.isalnum() else "" if not session else "-"
    rows = _rows("frames", frames, "ladder", name=name, limit=STEPS)
    return _ladder(rows, session, step_of_frame)


def message_path(paths: Rows, message: str) -> Figure:
    """The path of a message from server to server as a ladder diagram, from `paths`. `message` is
    `SESSION:NUMBER` of its publication. Raises ValueError if it matches none or several."""
    session, _, number = message.rpartition(":")
    if not (session + number).isalnum():
        session = number = "-"
    rows = _rows("paths", paths, "message_path", session=session, number=number, limit=STEPS)
    return _ladder(rows, message, step_of_hop)


def _ladder(
    rows: Sequence[AnswerRow], name: str, step_of: Callable[[AnswerRow], LadderStep]
) -> Figure:
    if not rows or rows[0].one != rows[0].another:
        some = "more than one session or message" if rows else "no session or message"
        raise ValueError(f"{some} in these rows has a name that matches {name!r}")
    return ladder_figure.ladder([*map(step_of, rows)], rows[0].one, rows[0].steps)


def _rows(table: str, rows: Rows, question: str, **values: object) -> list[AnswerRow]:
    return _answer(table, rows, [question], lambda engine: ask(engine, question, **values))


def _answer(
    table: str, rows: Rows, questions: Sequence[str], answer: Callable[[QueryEngine], _T]
) -> _T:
    """The answer that the rows of one table give. Other tables that the questions read are empty."""
    figures.plotly()
    columns = {name: columns_read(questions, name) for name in tables_read(questions)}
    if hasattr(rows, "sparkSession"):
        over_rows = _on_spark(table, cast("DataFrame", rows), columns)
    else:
        over_rows = _in_duckdb(table, rows, columns)
    with over_rows as engine:
        return answer(engine)


@contextmanager
def _in_duckdb(table: str, rows: object, columns: dict[str, list[str]]) -> Iterator[QueryEngine]:
    with database(columns, columns) as connection:
        if found := _arrow(table, rows, columns[table]):
            connection.register("rows", found)
            names = ", ".join(f'"{name}"' for name in found.schema.names)
            connection.execute(f"INSERT INTO {table} BY NAME SELECT {names} FROM rows")
        else:
            load(connection, _records(table, rows), columns)
        yield DuckDb(connection, columns)


def _arrow(table: str, rows: object, columns: Sequence[str]) -> pa.Table | pa.RecordBatch | None:
    """The columns that a question reads, of an Arrow table, a record batch or a pandas DataFrame; None for
    other rows."""
    if hasattr(rows, "to_pylist"):
        batch = cast("pa.Table | pa.RecordBatch", rows)
        return batch.select([name for name in columns if name in batch.schema.names])
    if hasattr(rows, "to_dict"):
        frame = cast("pandas.DataFrame", rows)
        known = [name for name in columns if name in frame.columns]
        return pyarrow().Table.from_pandas(frame[known], schema(table, known), preserve_index=False)
    return None


def _records(table: str, rows: object) -> Iterator[Record]:
    if isinstance(rows, str):
        raise TypeError(f"{table} must be rows, not the name of a file: {table}({rows!r})")
    row = TABLES[table].row
    for record in cast("Iterable[Record]", rows):
        if not isinstance(record, row):
            wrong = type(record).__name__
            raise TypeError(f"rows of {table} are {row.__name__}, not {wrong}")
        yield record


@contextmanager
def _on_spark(table: str, rows: DataFrame, columns: dict[str, list[str]]) -> Iterator[QueryEngine]:
    """Spark computes the answer where the rows are; only the answer travels."""
    from pyspark.sql.functions import col, lit

    from .audit.engines.spark import Spark
    from .spark.types import spark_schema

    spark = rows.sparkSession
    views = {name: f"nats_{name}_{uuid4().hex}" for name in columns}
    try:
        for name, view in views.items():
            wanted = spark_schema(name, columns[name])
            found = rows if name == table else spark.createDataFrame([], wanted)
            cells = [
                col(each.name) if each.name in found.columns else lit(None).cast(each.dataType)
                for each in wanted
            ]
            named = [cell.alias(each.name) for cell, each in zip(cells, wanted)]
            found.select(named).createOrReplaceTempView(view)
        yield _Views(Spark(spark, columns), views)
    finally:
        for view in views.values():
            spark.catalog.dropTempView(view)


class _Views:
    """An engine whose tables have other names."""

    def __init__(self, engine: QueryEngine, views: dict[str, str]) -> None:
        self.list_size = engine.list_size
        self._engine = engine
        self._views = views

    def named(self, sql: str) -> list[dict[str, object]]:
        """The rows of a query, by column."""
        return self._engine.named(over(sql, self._views))
