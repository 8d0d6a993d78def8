"""What a query in SQL says, for people, as JSON lines, as CSV or as Parquet.

The columns are the query's own. JSON lines leave absent values out, as for the tables; of several columns
with one name the last one counts there. Times are written as SQL writes them.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, TextIO

from ..errors import QueryError
from ..output.arrow import pyarrow
from ..output.duckdb import answer
from ..output.formats import OutputFormat
from ..output.lines import LineWriter, Rendered, Writer, csv_line, json_text
from ..output.parquet import ParquetFile
from ..output.text_table import Field, GridWriter
from ..pipeline import records
from .arguments import CommandOptions
from .run import Chunk, Command, print_chunks

if TYPE_CHECKING:
    import pyarrow as pa

_USUAL = 12  # how wide a column is where nothing is known of it
_CHUNK_ROWS = 1024


def print_answer(query: str, given: CommandOptions) -> None:
    """Prints what the query says about the captures."""
    run = Command("sql", given)
    told = _Told(query, run)
    with closing(told.chunks()) as chunks:
        print_chunks(run, OutputFormat(str, told.writer), chunks, silent=True)


class _Told:
    """An answer on its way to the output. Its columns are known with the first chunk."""

    def __init__(self, query: str, run: Command) -> None:
        self._query = query
        self._run = run
        self._schema: pa.Schema = None

    def chunks(self) -> Generator[Chunk, None, None]:
        """The rows, as the writer wants them."""
        given = self._run.given
        source = partial(records, given.captures, options=given.options, report=self._run.report)
        with answer(self._query, source) as (self._schema, batches):
            left = given.limit
            for batch in batches:
                if left is not None:
                    batch = batch.slice(0, left)
                    left -= batch.num_rows
                for start in range(0, batch.num_rows, _CHUNK_ROWS):
                    yield Chunk(self._rows(batch.slice(start, _CHUNK_ROWS)))
                if left == 0:
                    break

    def writer(self, output: TextIO) -> Writer:
        """What writes them."""
        form, schema = self._run.given.form, self._schema
        if form == "parquet":
            return _BatchWriter(self._query, output, schema)
        if form == "text":
            fields = [_field(column) for column in schema]
            return GridWriter(output, fields, self._run.look, live=False)
        return LineWriter(output, csv_line(schema.names) if form == "csv" else "")

    def _rows(self, batch: pa.RecordBatch) -> list[Rendered]:
        form, names = self._run.given.form, batch.schema.names
        if form == "parquet":
            return [batch]
        try:
            rows = list(zip(*map(_values, batch.columns)))
        except (
            ValueError
        ) as error:  # Python has no nanoseconds; in a list or struct nothing else is tried
            raise QueryError(
                self._query, f"this cannot be shown, cast it to a text: {error}"
            ) from None
        if form == "jsonl":
            return [_json_line(names, row) for row in rows]
        cells = ([_cell(value) for value in row] for row in rows)
        return [csv_line(row) if form == "csv" else tuple(row) for row in cells]


class _BatchWriter:
    """Batches of any columns into a Parquet file."""

    def __init__(self, query: str, output: TextIO, schema: pa.Schema) -> None:
        self._query = query
        with self._explained():
            self._file = ParquetFile(output.buffer, schema)

    def write(self, rows: Sequence[pa.RecordBatch]) -> None:
        """Takes the next batches."""
        with self._explained():
            for batch in rows:
                self._file.add(batch)

    def close(self) -> None:
        """There are no more."""
        with self._explained():
            self._file.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except pyarrow().ArrowException as error:  # a type that Parquet does not have
            raise QueryError(self._query, f"Parquet cannot hold it: {error}") from None


def _field(column: pa.Field) -> Field:
    types = pyarrow().types
    number = types.is_integer(column.type) or types.is_floating(column.type)
    right = number or types.is_decimal(column.type)
    return Field(column.name, _USUAL, right=right, gives=not right)


def _values(column: pa.Array) -> list[object]:
    """The values of a column, as JSON has them."""
    arrow = pyarrow()
    if arrow.types.is_temporal(column.type) and not arrow.types.is_interval(column.type):
        column = column.cast(arrow.string())
    is_map = arrow.types.is_map(column.type)
    return [_plain(dict(value) if is_map and value else value) for value in column.to_pylist()]


def _plain(value: object) -> object:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value)


def _json_line(names: Sequence[str], row: Sequence[object]) -> str:
    values = {name: value for name, value in zip(names, row) if value is not None}
    return json_text(values) + "\n"


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text(value)
