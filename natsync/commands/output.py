"""Prints what commands found: lines, tables and messages as text, JSON, or payloads alone.

What others wrote (names, subjects, headers, descriptions, errors) cannot affect a terminal, and a line break
in it does not begin a line: control characters are shown as \\xNN or \\uNNNN, as is invalid UTF-8. In a
payload, they are on a terminal only, and line breaks are kept. `--raw` prints the bytes of a payload as they
are; JSON data that is not UTF-8 is `data_base64`.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Mapping, Sequence

from ..errors import ProtocolError
from ..message import Msg

__all__ = [
    "Shown",
    "flush",
    "print_facts",
    "print_json",
    "print_line",
    "print_payload",
    "print_raw",
    "print_table",
    "printable",
    "show",
]

Shown = str | int | float | dict[str, list[str]]

_UNPRINTABLE = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
# Line ends that are not control characters, and marks that change the direction of the text after them.
_UNPRINTABLE |= {
    code: f"\\u{code:04x}"
    for code in (0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
}
# Surrogates, which Python uses for bytes that are not UTF-8.
_UNPRINTABLE |= {0xDC00 + byte: f"\\x{byte:02x}" for byte in range(128, 256)}
_IN_PAYLOADS = {code: text for code, text in _UNPRINTABLE.items() if chr(code) not in "\t\n"}


def printable(text: str) -> str:
    """Returns `text` with control characters as \\xNN or \\uNNNN."""
    return text if text.isprintable() else text.translate(_UNPRINTABLE)


def print_line(text: str) -> None:
    """Prints one line, whatever is in `text`."""
    print(printable(text))


def print_json(value: object) -> None:
    """Prints `value` as one line of JSON."""
    print(json.dumps(value).replace("\x7f", "\\u007f"))  # all others are escaped by json


def print_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints columns under their titles, and aligns numbers to the right."""
    values = list(rows)
    table = [[printable(str(cell)) for cell in row] for row in (titles, *values)]
    wide = [max(map(len, column)) for column in zip(*table)]
    right = [isinstance(cell, int) for cell in (values or [titles])[0]]
    for row in table:
        cells = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, wide, right)
        ]
        print("  ".join(cells).rstrip())


def print_facts(facts: Mapping[str, object], indent: str = "") -> None:
    """Prints a line for each fact, and a block for one that consists of facts itself."""
    wide = max(map(len, facts), default=0) + 2
    for name, fact in facts.items():
        parts = fact if isinstance(fact, list) else [fact]
        texts = ", ".join(str(part) for part in parts if not isinstance(part, dict))
        if texts or not parts:
            print_line(f"{indent}{name + ':':{wide}}{texts}".rstrip())
        for part in parts:
            if isinstance(part, dict):
                print_line(f"{indent}{name}:")
                print_facts(part, f"{indent}  ")


def print_payload(place: str, data: bytes) -> None:
    """Prints `[place] data`."""
    text = data.decode("utf-8", "backslashreplace")
    if sys.stdout and sys.stdout.isatty():
        text = text.replace("\r\n", "\n").translate(_IN_PAYLOADS)
    print(f"[{printable(place)}] {text}")


def print_raw(data: bytes, end: bytes = b"\n") -> None:
    """Writes the bytes as they are."""
    if sys.stdout:  # None if it is closed, which `print` allows for
        sys.stdout.flush()
        sys.stdout.buffer.write(data + end)


def flush() -> None:
    """Sends what was printed on its way now."""
    print(end="", flush=True)


def show(
    msg: Msg, form: str, flushes: bool = True, more: Mapping[str, Shown] | None = None
) -> None:
    """Prints `msg`; `form` is `text`, `json` or `raw`. `more` comes first in the JSON object."""
    if form == "raw":
        print_raw(msg.data)
    elif form == "json":
        print_json({**(more or {}), **_fields(msg)})
    else:
        print_payload(msg.subject, msg.data)
    if flushes:
        flush()


def _fields(msg: Msg) -> dict[str, Shown]:
    fields: dict[str, Shown] = {"subject": _readable(msg.subject)}
    if msg.reply:
        fields["reply"] = _readable(msg.reply)
    try:
        headers, status, description = msg.headers.to_dict(), msg.status, msg.description
    except ProtocolError:  # the rest of the message is still of use
        headers, status, description = {}, 0, ""
    if headers:
        fields["headers"] = {
            _readable(name): [_readable(value) for value in values]
            for name, values in headers.items()
        }
    if status:
        fields["status"] = status
        fields["description"] = _readable(description)
    try:
        fields["data"] = msg.data.decode()
    except UnicodeDecodeError:
        fields["data_base64"] = base64.b64encode(msg.data).decode()
    return fields


def _readable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
