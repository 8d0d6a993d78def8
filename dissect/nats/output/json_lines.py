"""JSON lines: one object per row (https://jsonlines.org); absent values are left out.

JSON allows characters that some readers take for the end of a line, or that terminals take for commands:
C1 controls, DEL, U+2028, U+2029 and marks of text direction. They are written as `\\uNNNN`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring
from typing import TYPE_CHECKING

from ..number_formats import iso_time
from ..schema.declaration import Type
from ..schema.records import JSON_ESCAPES, Record, printable_json
from ..tables import TABLES
from .arrow.values import query_rows
from .writer import Layout, LineWriter, OutputFormat, QueryFormat, column_names

if TYPE_CHECKING:
    import pyarrow as pa

_QUOTED = 4096

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class _Quoted(dict[str, str]):
    """Cached JSON of texts that occur often."""

    def __missing__(self, text: str) -> str:
        if len(self) >= _QUOTED:
            self.clear()
        quoted = self[text] = encode_basestring(text)
        return quoted


# The names that a function made by `json_line` uses, and the expressions with which it writes values. Values
# that are never absent are written directly, and texts among them are looked up in `known`.
_USED = {
    "known": _Quoted(),
    "quoted": encode_basestring,
    "encode": _encode,
    "escaped": JSON_ESCAPES,
    "time": iso_time,
}
_JSON = {
    Type.TEXT: "quoted(value)",
    Type.INTEGER: "value",
    Type.BOOLEAN: "encode(value)",
    Type.TIME: "time(value)",
    Type.TEXTS: "encode(value)",
    Type.COUNTS: "encode(value)",
    Type.HEADERS: "encode(value)",
}
_JSON_NEEDED = {
    Type.TEXT: "known[record.{}]",
    Type.INTEGER: "record.{}",
    Type.BOOLEAN: "encode(record.{})",
    Type.TIME: "time(record.{})",
}


def json_line(table: str, columns: Sequence[str]) -> Callable[[Record], str]:
    """The function that makes one line of a record: JSONEncoder's JSON of all values other than None.

    It is generated, with a line or two per column, because that takes a third of the encoder's time
    (2.6 against 8.5 us for a PUB, CPython 3.11).
    """
    declared = {column.name: column for column in TABLES[table].columns}
    body = ["line = ''"]
    needed = ""  # the columns that are never absent, up to the next one that may be
    for column in (declared[name] for name in dict.fromkeys(columns)):
        value = (_JSON if column.optional else _JSON_NEEDED)[column.type].format(column.field)
        quote = '"' if column.type is Type.TIME else ""
        member = f'"{column.name}":{quote}{{{value}}}{quote},'
        if not column.optional:
            needed += member
            continue
        if needed:
            body.append(f"line += f'{needed}'")
            needed = ""
        body += [f"value = record.{column.field}", f"if value is not None: line += f'{member}'"]
    body += [f"line += f'{needed}'", "line = f'{{{line[:-1]}}}\\n'"]
    body.append("plain = line.isascii() and '\\x7f' not in line")
    body.append("return line if plain else line.translate(escaped)")
    head = f"def json_line(record, {', '.join(f'{name}={name}' for name in _USED)}):"
    scope: dict[str, Callable[[Record], str]] = {}
    # Compiled first: if Ctrl-C interrupts the `exec` of a string, CPython ends by SIGINT, even if the
    # KeyboardInterrupt is handled.
    exec(compile("\n ".join([head, *body]), __file__, "exec"), dict(_USED), scope)
    return scope["json_line"]


def json_text(value: object) -> str:
    """Any value that JSON can express, on one line."""
    return printable_json(_encode(value))


class JsonLines:
    """One JSON object per line."""

    meaning = "one JSON object per line"
    binary = False

    def table(self, table: str, layout: Layout) -> OutputFormat:
        """One object per record."""
        return OutputFormat(json_line(table, column_names(table, layout)), LineWriter)

    def query(self, columns: pa.Schema, layout: Layout) -> QueryFormat:
        """One object per row; if several columns have the same name, the last one counts."""
        names = columns.names
        return QueryFormat(
            lambda batch: [_object(names, row) for row in query_rows(batch)], LineWriter
        )


def _object(names: Sequence[str], row: Sequence[object]) -> str:
    values = {name: value for name, value in zip(names, row) if value is not None}
    return json_text(values) + "\n"
