"""Records -> JSON lines, CSV and plain text, by the columns of `records`.

A writer takes records with `write` and is told with `close` that there are no more. JSON lines leave
absent values out; CSV leaves them empty, and holds lists and maps as JSON.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from typing import Protocol, TextIO

from .records import COLUMNS, Record, Value, printable

# What JSON may hold as it is, but some readers take for the end of a line, and terminals for a command.
_ESCAPED = {code: f"\\u{code:04x}" for code in (*range(128, 160), 0x2028, 0x2029)}


class Writer(Protocol):
    """Where records go."""

    def write(self, record: Record) -> None:
        """Takes the next record."""

    def close(self) -> None:
        """There are no more. Does not close the output."""


class JsonLinesWriter:
    """One JSON object a line."""

    def __init__(self, output: TextIO, columns: Sequence[str]) -> None:
        self._output = output
        self._columns = columns
        self._encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

    def write(self, record: Record) -> None:
        """Takes the next record."""
        values = {}
        for name in self._columns:
            value = getattr(record, name)
            if value is not None:
                values[name] = value
        line = self._encode(values)
        self._output.write((line if line.isascii() else line.translate(_ESCAPED)) + "\n")

    def close(self) -> None:
        """There are no more."""


class _PlainEnds:
    """Ends lines with a line feed. Not told to csv.writer, which would leave a carriage return in a value
    without quotes."""

    def __init__(self, output: TextIO) -> None:
        self._output = output

    def write(self, line: str) -> None:
        """Takes a line that ends with CR LF."""
        self._output.write(line.removesuffix("\r\n") + "\n")


class CsvWriter:
    """Comma separated values with a line of names, as RFC 4180 but with plain line ends."""

    def __init__(self, output: TextIO, columns: Sequence[str]) -> None:
        self._columns = columns
        self._writer = csv.writer(_PlainEnds(output))
        self._writer.writerow(columns)

    def write(self, record: Record) -> None:
        """Takes the next record."""
        self._writer.writerow([_cell(getattr(record, name)) for name in self._columns])

    def close(self) -> None:
        """There are no more."""


class FieldsWriter:
    """Chosen columns for a person or for cut(1): a line of names, then values between tabs."""

    def __init__(self, output: TextIO, columns: Sequence[str]) -> None:
        self._output = output
        self._columns = columns
        output.write("\t".join(columns) + "\n")

    def write(self, record: Record) -> None:
        """Takes the next record."""
        cells = [printable(str(_cell(getattr(record, name)))) for name in self._columns]
        self._output.write("\t".join(cells) + "\n")

    def close(self) -> None:
        """There are no more."""


def chosen_columns(table: str, names: str | None) -> list[str]:
    """The columns of `table` in `a,b`, or all. Raises ValueError for one that it does not have."""
    known = [column.name for column in COLUMNS[table]]
    if not names:
        return known
    chosen = [name.strip() for name in names.split(",")]
    for name in chosen:
        if name not in known:
            raise ValueError(f"{table} has no column {name!r}; it has {', '.join(known)}")
    return chosen


def _cell(value: Value) -> str | int:
    if value is None:
        return ""
    if isinstance(value, (str, int)):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
