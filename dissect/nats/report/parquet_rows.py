"""Rows from the Parquet tables that `nats-dissect spark` or `--format parquet` wrote: a folder with a folder
or a file for each table (`DIR/frames/`, `DIR/frames.parquet`).

A table that was written with `--columns`, or by an older version, may lack columns: their values are absent
in every row, or empty if a row must have them. Needs pyarrow, the extra `parquet`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from importlib import import_module
from typing import TYPE_CHECKING

from ..audit.folders import table_files, table_paths
from ..errors import DissectError, reason_of
from ..output.arrow.records import BATCH_ROWS
from ..output.arrow.types import pyarrow
from ..schema.declaration import Type
from ..schema.records import Record
from ..tables import TABLES

if TYPE_CHECKING:
    import pyarrow as pa

_BLANK = {Type.TEXT: "", Type.INTEGER: 0, Type.BOOLEAN: False}


class TablesError(DissectError):
    """A folder whose tables cannot be read. `reason` is a sentence without a full stop."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(path, reason)

    def __str__(self) -> str:
        return " ".join(f"{self.path}: {self.reason}".split())


def tables_in(folder: str, wanted: Sequence[str]) -> dict[str, str]:
    """The paths of the wanted tables that the folder has. Raises TablesError if it lacks `sessions`, or if
    one cannot be read."""
    try:
        places = table_paths(folder, wanted)
    except OSError as error:
        raise TablesError(str(error.filename), f"cannot be read: {reason_of(error)}") from None
    if "sessions" not in places:
        what = "has no table sessions" if os.path.isdir(folder) else "is not a folder"
        remedy = (
            "`nats-dissect spark CAPTURE... --out DIR --tables sessions,frames,...` writes tables"
        )
        raise TablesError(folder, f"{what}; {remedy}")
    return places


def rows_in(table: str, path: str) -> Iterator[Record]:
    """The rows of a table in the order of its files. Raises TablesError."""
    arrow = pyarrow()
    names = [column.name for column in TABLES[table].columns if column.type is not Type.TIME]
    try:
        data = import_module("pyarrow.dataset").dataset(table_files(path), format="parquet")
        known = [name for name in names if name in data.schema.names]
        for batch in data.to_batches(columns=known, batch_size=BATCH_ROWS, use_threads=False):
            yield from records_of(table, batch)
    except (arrow.ArrowException, OSError, TypeError) as error:
        raise TablesError(path, f"cannot be read as table {table}: {error}") from None


def records_of(table: str, batch: pa.RecordBatch | pa.Table) -> Iterator[Record]:
    """The rows of a batch, or of an Arrow table, as records."""
    known = {column.field for column in TABLES[table].columns if column.type is not Type.TIME}
    names = [name for name in batch.schema.names if name in known]
    return records_from(table, batch.select(names).to_pylist())


def records_from(table: str, rows: Iterable[Mapping[str, object]]) -> Iterator[Record]:
    """Records from rows as mappings. A column that a row lacks is absent, or empty if it is required."""
    declared = TABLES[table]
    types = {
        column.name: column.type for column in declared.columns if column.type is not Type.TIME
    }
    blank = {
        item.name: _BLANK[types[item.name]]
        for item in fields(declared.row)  # type: ignore[arg-type]  # a dataclass
        if item.default is MISSING
    }
    for row in rows:
        present = {
            name: _value(types[name], value)
            for name, value in row.items()
            if name in types and not _is_absent(value)
        }
        yield declared.row(**{**blank, **present})


def _is_absent(value: object) -> bool:
    """Whether a value is None, or NaN, which pandas has in its place."""
    return value is None or (isinstance(value, float) and value != value)


def _value(type_: Type, value: object) -> object:
    """A value as a record has it. Arrow returns maps as pairs; pandas has arrays, which are neither true nor
    false, in place of lists, and makes integers beside gaps floats."""
    if type_ is Type.COUNTS:
        return dict(value)  # type: ignore[call-overload]  # a mapping, or pairs
    if type_ is Type.HEADERS:
        pairs = dict(value)  # type: ignore[call-overload]  # as above
        return {name: list(texts) for name, texts in pairs.items()}
    if type_ is Type.TEXTS:
        return list(value)  # type: ignore[call-overload]  # a list, or an array
    if type_ is Type.INTEGER:
        return int(value)  # type: ignore[call-overload]  # a number
    return value
