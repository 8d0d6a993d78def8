"""The Python functions: the records of a table, as objects, as an Arrow table or as a pandas DataFrame.

    from dissect.nats import sessions

    for row in sessions("capture.pcap"):
        print(row.kind, row.originator, row.messages_originator)

    frames(["monday.pcap", "tuesday.pcap"]).to_pandas()

Records are made as you iterate: memory does not grow with the capture, unless you collect the rows. Pass a
`CaptureReport` to learn which files were read and which were damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from inspect import cleandoc
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from . import pipeline
from .application.servers import ServerRecord
from .capture import CaptureReport
from .capture.files import Paths, capture_names
from .capture.report import check_report
from .errors import imported
from .options import Options, changed_options
from .output.arrow.records import batch, batches, frame_batches, schema
from .output.arrow.types import pyarrow
from .schema.records import (
    AnomalyRecord,
    FlowRecord,
    FrameRecord,
    Record,
    RequestRecord,
    SessionRecord,
    SubscriptionRecord,
)
from .tables import TABLE_OF, TABLES

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa

_DEFAULTS = Options()

_R = TypeVar("_R", bound=Record)


class Rows(Generic[_R]):
    """The records of one table: an iterator that reads the captures while it is used.

    To stop early, call `close` or use a `with` block: both close the files. Iteration raises CaptureError if
    an input is not a capture.
    """

    def __init__(
        self,
        table: str,
        lists: Generator[Sequence[Record], None, None],
        row: type[_R],
        columns: Callable[[], Iterable[pa.RecordBatch]] | None = None,
    ) -> None:
        self._table = table
        self._lists = lists
        self._columns = columns  # makes all rows as columns, where that is faster than records
        self._records: Iterator[Record] = iter(())  # of the latest list
        self._row = row

    def __iter__(self) -> Iterator[_R]:
        return self

    def __next__(self) -> _R:
        self._columns = None
        while True:
            for record in self._records:
                assert isinstance(record, self._row)
                return record
            self._records = iter(next(self._lists))

    def close(self) -> None:
        """Closes the captures; there are no more records."""
        self._lists.close()
        self._records = iter(())
        self._columns = None

    def __enter__(self) -> Rows[_R]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def to_arrow(self) -> pa.Table:
        """The records not read yet, as a `pyarrow.Table`. Raises MissingLibrary without pyarrow."""
        if self._columns:
            whole = list(self._columns())
            self.close()
            return pyarrow().Table.from_batches(whole, schema=schema(self._table))
        begun = list(self._records)
        whole = [batch(self._table, begun)] if begun else []
        whole += batches(self._table, self._lists)
        return pyarrow().Table.from_batches(whole, schema=schema(self._table))

    def to_pandas(self) -> pandas.DataFrame:
        """The records not read yet, as a `pandas.DataFrame`; `time` is a timestamp in UTC. Raises
        MissingLibrary without pandas or pyarrow."""
        imported("pandas", "all")  # pyarrow needs it, but its error says less
        return self.to_arrow().to_pandas()


class TableFunction(Protocol[_R]):
    """A function that returns the records of one table: `frames(paths)`, `sessions(paths)`, and so on."""

    def __call__(
        self,
        paths: Paths,
        options: Options = _DEFAULTS,
        report: CaptureReport | None = None,
        live: bool = False,
        **changes: object,
    ) -> Rows[_R]:
        """The records, in order of time; with `live`, as soon as each is complete. `changes` are single
        `options` by name: `payload="text"`, `max_flows=100`. `report` is updated while captures are read.
        Raises CaptureError if an input is not a capture, ValueError if there are no `paths` or for a wrong
        value of an option, and TypeError for an argument of another type."""


def rows_of(row: type[_R]) -> TableFunction[_R]:
    """The function for the table with this class of records."""
    table = TABLE_OF[row]

    def rows(
        paths: Paths,
        options: Options = _DEFAULTS,
        report: CaptureReport | None = None,
        live: bool = False,
        **changes: object,
    ) -> Rows[_R]:
        names = capture_names(paths)
        options = changed_options(table.name, options, changes)
        _check(report, live)
        lists = pipeline.record_lists(names, [table.name], options, report, live)
        columns = None
        if row is FrameRecord and not live:
            columns = partial(_frame_batches, names, options, report)
        return Rows(table.name, lists, row, columns)

    rows.__name__ = rows.__qualname__ = table.name
    rows.__doc__ = f"{table.summary}\n\n{cleandoc(TableFunction.__call__.__doc__ or '')}"
    return rows


def _frame_batches(
    paths: Sequence[str], options: Options, report: CaptureReport | None
) -> Iterator[pa.RecordBatch]:
    """The rows of `frames`, as Arrow record batches."""
    report = CaptureReport() if report is None else report
    for timeline in pipeline.timelines(paths, options, report):
        source = pipeline.released(
            timeline, ["frames"], options, report, together=True, blocks=True
        )
        with closing(source):
            yield from frame_batches(source)


def records(
    paths: Paths,
    tables: Iterable[str] | str,
    options: Options = _DEFAULTS,
    report: CaptureReport | None = None,
    live: bool = False,
    **changes: object,
) -> Generator[Record, None, None]:
    """The records of several tables in one pass over the captures. Each table is in order of time.

    `tables` has names from `TABLES`; `changes` are single `options` by name. Raises ValueError for any other
    name, for a wrong value, or if there are no `paths`, CaptureError if an input is not a capture, and
    TypeError for an argument of another type.
    """
    wanted = [tables] if isinstance(tables, str) else tables
    if isinstance(wanted, bytes) or not isinstance(wanted, Iterable):
        raise TypeError(f"tables must be names of tables, not {tables!r}")
    wanted = list(wanted)
    for name in wanted:
        _check_table(name)
    options = changed_options("records", options, changes)
    _check(report, live)
    return pipeline.records(capture_names(paths), wanted, options, report, live)


def table(
    paths: Paths,
    name: str,
    options: Options = _DEFAULTS,
    report: CaptureReport | None = None,
    live: bool = False,
    **changes: object,
) -> Rows[Record]:
    """The records of any table by its name in `TABLES`: `table("capture.pcap", "kv").to_pandas()`.

    Raises ValueError for any other name, or if there are no `paths`, CaptureError if an input is not a
    capture, and TypeError for an argument of another type.
    """
    _check_table(name)
    return rows_of(TABLES[name].row)(paths, options, report, live, **changes)


def _check_table(name: object) -> None:
    if not isinstance(name, str) or name not in TABLES:
        raise ValueError(f"{name!r} is not a table; tables are {', '.join(TABLES)}")


def _check(report: object, live: object) -> None:
    """Raises TypeError for arguments of another type."""
    check_report(report)
    if not isinstance(live, bool):  # "no" would mean True
        raise TypeError(f"live must be True or False, not {live!r}")


frames = rows_of(FrameRecord)
sessions = rows_of(SessionRecord)
subscriptions = rows_of(SubscriptionRecord)
requests = rows_of(RequestRecord)
flows = rows_of(FlowRecord)
anomalies = rows_of(AnomalyRecord)
servers = rows_of(ServerRecord)
