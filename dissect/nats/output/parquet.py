"""Parquet (https://parquet.apache.org/docs/file-format), written row group by row group.

A row group is bounded in rows and in bytes, so memory does not grow with the table. A thread encodes one row
group while the next one is collected: pyarrow does that without Python's lock. Needs pyarrow, the extra
`parquet`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, BinaryIO, TextIO

from ..errors import FormatError
from ..schema.records import Value
from .arrow.records import BATCH_ROWS, batch_of_values, batches, frame_batches, schema, values
from .arrow.types import pyarrow
from .writer import Layout, OutputFormat, QueryFormat, Rendered, column_names

if TYPE_CHECKING:
    import pyarrow as pa

GROUP_ROWS = 65_536
"""The number of rows in a row group. The cost per group is negligible, and its rows take 10 to 20 MB."""
_GROUP_BYTES = 32 << 20


class ParquetFile:
    """A Parquet file of batches with one schema. It is complete only after `close`."""

    def __init__(self, output: BinaryIO, columns: pa.Schema) -> None:
        self._arrow = pyarrow()
        types = self._arrow.types
        numbers = [
            field.name
            for field in columns
            if types.is_int64(field.type) or types.is_timestamp(field.type)
        ]
        self._writer = import_module("pyarrow.parquet").ParquetWriter(
            output,
            columns,
            compression="zstd",
            # Times, sizes and offsets hardly repeat. As differences, and without an attempt at a dictionary,
            # rows of frames take 2/3 of the time and of the space (0.50 and 0.78 us, 21 and 29 bytes).
            use_dictionary=[name for name in columns.names if name not in numbers],
            column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        )
        self._batches: list[pa.RecordBatch] = []
        self._encoding: _Encoding | None = None

    def __del__(self) -> None:
        # After a failure, pyarrow would write the end of the file here, but the file is closed.
        if hasattr(self, "_writer"):
            self._writer.is_open = False

    def add(self, rows: pa.RecordBatch) -> None:
        """Adds rows."""
        self._batches.append(rows)
        if (
            sum(map(len, self._batches)) >= GROUP_ROWS
            or sum(part.nbytes for part in self._batches) >= _GROUP_BYTES
        ):
            group = self._group()
            self._wait()
            self._encoding = _Encoding(partial(self._writer.write_table, group))
            self._encoding.start()

    def close(self) -> None:
        """Writes the remaining rows and the end of the file. Does not close the output."""
        self._wait()
        if self._batches:
            self._writer.write_table(self._group())
        self._writer.close()

    def _group(self) -> pa.Table:
        """The rows of the next row group."""
        group = self._arrow.Table.from_batches(self._batches)
        self._batches = []
        return group

    def _wait(self) -> None:
        """Waits until the latest row group is written. Raises the error of writing it."""
        encoding, self._encoding = self._encoding, None
        if encoding:
            encoding.join()
            if encoding.error:
                raise encoding.error


class _Encoding(Thread):
    """A thread that writes one row group; `error` is set if that fails. It is not a daemon, so that the
    process waits for it."""

    def __init__(self, write: Callable[[], None]) -> None:
        super().__init__(name="parquet row group")
        self.error: Exception | None = None
        self._write = write

    def run(self) -> None:
        """Writes the row group."""
        try:
            self._write()
        except Exception as error:  # the thread stores it, and `ParquetFile` raises it
            self.error = error


class ParquetWriter:
    """Writes rows of one table to a Parquet file: batches, or the values of single rows, not both."""

    def __init__(self, output: TextIO, table: str, columns: Sequence[str]) -> None:
        self._table = table
        self._columns = columns
        self._payload = columns.index("payload") if "payload" in columns else None
        self._file = ParquetFile(output.buffer, schema(table, columns))
        self._rows: list[tuple[Value, ...]] = []
        self._payload_bytes = 0

    def write(self, rows: Sequence[Rendered]) -> None:
        """Adds rows."""
        for row in rows:
            assert not isinstance(row, str)
            if not isinstance(row, tuple):
                self._file.add(row)
                continue
            self._rows.append(row)
            payload = None if self._payload is None else row[self._payload]
            if isinstance(payload, str):
                self._payload_bytes += len(payload)
            if len(self._rows) >= BATCH_ROWS or self._payload_bytes >= _GROUP_BYTES:
                self._add()

    def close(self) -> None:
        """Writes the remaining rows and the end of the file. Does not close the output."""
        if self._rows:
            self._add()
        self._file.close()

    def _add(self) -> None:
        self._file.add(batch_of_values(self._table, self._rows, self._columns))
        self._rows = []
        self._payload_bytes = 0


class BatchWriter:
    """Writes batches of any columns to a Parquet file. Raises FormatError for a type that Parquet lacks."""

    def __init__(self, output: TextIO, columns: pa.Schema) -> None:
        with _explained():
            self._file = ParquetFile(output.buffer, columns)

    def write(self, rows: Sequence[Rendered]) -> None:
        """Adds batches."""
        with _explained():
            for batch in rows:
                self._file.add(batch)

    def close(self) -> None:
        """Writes the remaining rows and the end of the file. Does not close the output."""
        with _explained():
            self._file.close()


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except pyarrow().ArrowException as error:
        raise FormatError(f"Parquet cannot hold it: {error}") from None


class Parquet:
    """Apache Parquet."""

    meaning = "Apache Parquet"
    binary = True

    def table(self, table: str, layout: Layout) -> OutputFormat:
        """A file with the table's schema."""
        pyarrow()  # so that a missing library is reported before a capture is read
        names = column_names(table, layout)
        return OutputFormat(
            values(table, names),
            partial(ParquetWriter, table=table, columns=names),
            lambda lists: batches(table, lists, names),
            partial(frame_batches, columns=names) if table == "frames" else None,
        )

    def query(self, columns: pa.Schema, layout: Layout) -> QueryFormat:
        """A file with the columns of the query."""
        return QueryFormat(lambda batch: [batch], partial(BatchWriter, columns=columns))
