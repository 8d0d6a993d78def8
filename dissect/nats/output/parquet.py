"""Arrow batches -> Parquet (https://parquet.apache.org/docs/file-format), row group by row group.

A row group is bounded in rows and in bytes, so memory does not grow with the table. Needs pyarrow.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, BinaryIO, TextIO

from ..records import Value
from .arrow import BATCH_ROWS, batch_of_values, pyarrow, schema

if TYPE_CHECKING:
    import pyarrow as pa

_GROUP_ROWS = 65_536
_GROUP_BYTES = 32 << 20


class ParquetFile:
    """A Parquet file of batches with one schema. It is whole only after `close`."""

    def __init__(self, output: BinaryIO, columns: pa.Schema) -> None:
        self._arrow = pyarrow()
        self._writer = import_module("pyarrow.parquet").ParquetWriter(
            output, columns, compression="zstd"
        )
        self._batches: list[pa.RecordBatch] = []

    def __del__(self) -> None:
        # Where the work broke off, pyarrow would end the file now, which is closed.
        if hasattr(self, "_writer"):
            self._writer.is_open = False

    def add(self, rows: pa.RecordBatch) -> None:
        """Takes the next rows."""
        self._batches.append(rows)
        if (
            sum(map(len, self._batches)) >= _GROUP_ROWS
            or sum(part.nbytes for part in self._batches) >= _GROUP_BYTES
        ):
            self._write()

    def close(self) -> None:
        """There are no more. Does not close the output."""
        if self._batches:
            self._write()
        self._writer.close()

    def _write(self) -> None:
        self._writer.write_table(self._arrow.Table.from_batches(self._batches))
        self._batches = []


class ParquetWriter:
    """Rows of one table, each the values of the columns, into a Parquet file."""

    def __init__(self, output: TextIO, table: str, columns: Sequence[str]) -> None:
        self._table = table
        self._columns = columns
        self._payload = columns.index("payload") if "payload" in columns else None
        self._file = ParquetFile(output.buffer, schema(table, columns))
        self._rows: list[tuple[Value, ...]] = []
        self._payload_bytes = 0

    def write(self, rows: Sequence[str | tuple[Value, ...]]) -> None:
        """Takes the next rows."""
        for row in rows:
            assert not isinstance(row, str)
            self._rows.append(row)
            payload = None if self._payload is None else row[self._payload]
            if isinstance(payload, str):
                self._payload_bytes += len(payload)
            if len(self._rows) >= BATCH_ROWS or self._payload_bytes >= _GROUP_BYTES:
                self._add()

    def close(self) -> None:
        """There are no more. Does not close the output."""
        if self._rows:
            self._add()
        self._file.close()

    def _add(self) -> None:
        self._file.add(batch_of_values(self._table, self._rows, self._columns))
        self._rows = []
        self._payload_bytes = 0


@contextmanager
def whole_file(path: str) -> Iterator[TextIO]:
    """A file that has its name when the block is done; where it fails, whatever had that name stays. What
    is no plain file, as /dev/stdout, is written as it is. Bytes go to its `buffer`."""
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "w", encoding="utf-8") as output:
            yield output
        return
    path = os.path.realpath(path)
    beside = f"{path}.{os.getpid()}.part"
    with open(beside, "x", encoding="utf-8") as output:
        try:
            yield output
            output.flush()
            os.replace(beside, path)
        except BaseException:
            os.unlink(beside)
            raise
