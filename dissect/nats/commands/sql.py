"""`nats-dissect sql`: the rows of a query in any output format.

The query determines the columns. JSON lines leave out absent values, as for tables. Times are written as in
SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from typing import TextIO

from ..output.arrow.records import frame_batches
from ..output.duckdb import Answer, Loadable, answer
from ..output.folders import is_folder
from ..output.formats import FORMATS
from ..output.sink import Fault
from ..output.table_views import answer_of_folder
from ..output.writer import OutputFormat, QueryFormat, Writer
from ..pipeline import records, released, timelines
from .command_options import SqlOptions
from .run import Command, RenderedRows, print_chunks
from .sorting import order_among

_CHUNK_ROWS = 1024


def print_answer(query: str, options: SqlOptions) -> None:
    """Prints the rows of a query over the captures, or over a folder of tables."""
    if bool(options.captures) is (options.tables is not None):
        raise Fault("sql takes captures, or --tables with a folder of Parquet tables")
    if options.tables is not None:
        options.refuse_reading()
        if not is_folder(options.tables):
            raise Fault(f"{options.tables}: no folder with tables")
    run = Command("sql", options)
    rows = _QueryRows(query, run, options)
    with closing(rows.chunks()) as chunks:
        print_chunks(run, OutputFormat(str, rows.writer), chunks, silent=True)


class _QueryRows:
    """The rows of a query. Their format needs the columns, which are known only with the first chunk."""

    def __init__(self, query: str, run: Command, options: SqlOptions) -> None:
        self._query = query
        self._run = run
        self._options = options
        self._format: QueryFormat

    def chunks(self) -> Generator[RenderedRows, None, None]:
        """The rows, rendered."""
        options = self._options
        sort = options.sort
        order = None if sort is None else partial(_order, sort)
        with self._answer(options, order) as (schema, batches):
            self._format = FORMATS[options.format].query(schema, self._run.layout)
            left = options.limit
            for batch in batches:
                if left is not None:
                    batch = batch.slice(0, left)
                    left -= batch.num_rows
                for start in range(0, batch.num_rows, _CHUNK_ROWS):
                    yield RenderedRows([*self._format.render(batch.slice(start, _CHUNK_ROWS))])
                if left == 0:
                    break

    def _answer(
        self, options: SqlOptions, order: Callable[[Sequence[str]], tuple[str, bool]] | None
    ) -> AbstractContextManager[Answer]:
        if options.tables is not None:
            return answer_of_folder(self._query, options.tables, options.between, order)
        return answer(self._query, self._rows, order)

    def _rows(self, tables: Collection[str]) -> Generator[Loadable, None, None]:
        """The rows of these tables, of frames alone as columns."""
        captures, options = self._options.captures, self._options.dissection
        report = self._run.report
        if [*tables] != ["frames"]:
            yield from records(captures, tables, options, report)
            return
        for timeline in timelines(captures, options, report):
            source = released(timeline, tables, options, report, together=True, blocks=True)
            with closing(source):
                yield from frame_batches(source)

    def writer(self, output: TextIO) -> Writer:
        """The writer of the rows, made after the first chunk."""
        return self._format.writer(output)


def _order(sort: str, columns: Sequence[str]) -> tuple[str, bool]:
    try:
        return order_among({name: name for name in columns}, sort, "the result")
    except ValueError as error:
        raise Fault(f"--sort: {error}") from None
