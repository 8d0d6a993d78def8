"""Records -> JSON lines, CSV and fields between tabs, by the columns of `records`.

What makes a row's line is a pure function, so that it can run in another process than the one that
writes; a writer takes what it made. JSON lines leave absent values out; CSV leaves them empty, and holds
lists and maps as JSON.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring
from operator import attrgetter
from typing import Protocol, TextIO, cast

from ..records import COLUMNS, Record, Type, Value, printable

Rendered = str | tuple[Value, ...]
"""A row as its writer wants it: a line with its end, the cells of a table, or values."""

_Cell = str | int | None

Render = Callable[[Record], Rendered]

# What JSON may hold as it is, but some readers take for the end of a line, and terminals for a command.
_ESCAPED = {code: f"\\u{code:04x}" for code in (*range(128, 160), 0x2028, 0x2029)}

_QUOTED = 4096


class _Back:
    """Makes csv.writer return its lines."""

    @staticmethod
    def write(line: str) -> str:
        """Takes a line, gives it back."""
        return line


_csv = csv.writer(_Back())
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Writer(Protocol):
    """Where rendered rows go."""

    def write(self, rows: Sequence[Rendered]) -> None:
        """Takes the next rows."""

    def close(self) -> None:
        """There are no more. Does not close the output."""


class LineWriter:
    """Lines as they are, behind a head."""

    def __init__(self, output: TextIO, head: str = "") -> None:
        self._output = output
        output.write(head)

    def write(self, rows: Sequence[Rendered]) -> None:
        """Takes the next rows."""
        self._output.write("".join(rows))  # type: ignore[arg-type]  # lines, by `forms.form_of`

    def close(self) -> None:
        """There are no more."""


class _Quoted(dict[str, str]):
    """Texts that come again and again, as JSON."""

    def __missing__(self, text: str) -> str:
        if len(self) >= _QUOTED:
            self.clear()
        quoted = self[text] = encode_basestring(text)
        return quoted


# What the functions that `json_lines` writes use, and how they say a value; one that is never absent is
# said without a detour, its text looked up.
_USED = {"known": _Quoted(), "quoted": encode_basestring, "encode": _encode, "escaped": _ESCAPED}
_JSON = {
    Type.TEXT: "quoted(value)",
    Type.INTEGER: "value",
    Type.TEXTS: "encode(value)",
    Type.COUNTS: "encode(value)",
    Type.HEADERS: "encode(value)",
}
_JSON_NEEDED = {Type.TEXT: "known[record.{}]", Type.INTEGER: "record.{}"}


def json_lines(table: str, columns: Sequence[str]) -> Callable[[Record], str]:
    """One JSON object a line: what JSONEncoder would say of the values that are not None.

    Written out as a function of its own, a line or two for each column: a third of the encoder's time
    (2.6 and 8.5 us for a PUB, CPython 3.11).
    """
    declared = {column.name: column for column in COLUMNS[table]}
    body = ["line = ''"]
    needed = ""  # what columns say that are never absent, up to the next that may be
    for column in (declared[name] for name in dict.fromkeys(columns)):
        value = (_JSON if column.optional else _JSON_NEEDED)[column.type].format(column.name)
        said = f'"{column.name}":{{{value}}},'
        if not column.optional:
            needed += said
            continue
        if needed:
            body.append(f"line += f'{needed}'")
            needed = ""
        body += [f"value = record.{column.name}", f"if value is not None: line += f'{said}'"]
    body += [f"line += f'{needed}'", "line = f'{{{line[:-1]}}}\\n'"]
    body.append("return line if line.isascii() else line.translate(escaped)")
    head = f"def json_line(record, {', '.join(f'{name}={name}' for name in _USED)}):"
    scope: dict[str, Callable[[Record], str]] = {}
    # Compiled first: CPython ends by SIGINT, whatever handles it, if it meets a string that runs.
    exec(compile("\n ".join([head, *body]), __file__, "exec"), dict(_USED), scope)
    return scope["json_line"]


def json_text(value: object) -> str:
    """Any value that JSON can say, on one line."""
    return _encode(value).translate(_ESCAPED)


def csv_lines(table: str, columns: Sequence[str]) -> Callable[[Record], str]:
    """Comma separated values, as RFC 4180 but with plain line ends."""
    cells = _cells(table, columns)
    return lambda record: csv_line(cells(record))


def csv_line(cells: Sequence[_Cell]) -> str:
    """A line of comma separated values. The end is not told to csv.writer, which would leave a carriage
    return in a value without quotes."""
    line: str = _csv.writerow(cells)
    return line.removesuffix("\r\n") + "\n"


def field_lines(table: str, columns: Sequence[str]) -> Callable[[Record], str]:
    """Chosen columns for a person or for cut(1): values between tabs."""
    cells = _cells(table, columns)

    def line(record: Record) -> str:
        texts = ("" if cell is None else printable(str(cell)) for cell in cells(record))
        return "\t".join(texts) + "\n"

    return line


def _cells(table: str, columns: Sequence[str]) -> Callable[[Record], Sequence[_Cell]]:
    """What gets the values of columns, lists and maps as JSON."""
    # attrgetter gives tuples only of two and more
    get: Callable[[Record], tuple[Value, ...]] = attrgetter(*columns, columns[0])
    simple = {item.name for item in COLUMNS[table] if item.type in (Type.TEXT, Type.INTEGER)}
    rich = [at for at, name in enumerate(columns) if name not in simple]

    def cells(record: Record) -> Sequence[_Cell]:
        values = list(get(record))
        del values[-1]
        for at in rich:
            if values[at] is not None:
                values[at] = _encode(values[at])
        return cast(list[_Cell], values)

    return cells


def chosen_columns(table: str, names: str | None) -> list[str]:
    """The columns of `table` in `a,b`, or all. Raises ValueError for one that it does not have."""
    known = [column.name for column in COLUMNS[table]]
    if names is None:
        return known
    chosen = [name.strip() for name in names.split(",")]
    for name in chosen:
        if name not in known:
            raise ValueError(f"{table} has no column {name!r}; it has {', '.join(known)}")
        if chosen.count(name) > 1:
            raise ValueError(f"column {name} is named twice")
    return chosen
