"""Released rows -> Arrow batches of one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..engine.session_tables import Rows
from ..engine.time_order import payload_bytes
from ..output.arrow import BATCH_ROWS, batch
from ..records import Record

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_BYTES = 8 << 20


def batches(
    table: str, source: Iterable[Rows], columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one table as Arrow batches, limited in rows and payload bytes; all columns, or the
    listed ones."""
    waiting: list[Record] = []
    size = 0
    for rows in source:
        waiting += rows.records
        size += payload_bytes(rows.records)
        if len(waiting) >= BATCH_ROWS or size >= _BATCH_BYTES:
            yield batch(table, waiting, columns)
            waiting, size = [], 0
    if waiting:
        yield batch(table, waiting, columns)
