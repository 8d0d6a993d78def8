"""Prints streams, consumers and stored messages: as text for people, or as JSON like the server's API."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime

from .._json import JSONObject, format_time
from ..jetstream import StoredMsg
from ..message import Msg
from .output import Shown, print_json, print_line, show

__all__ = ["print_fields", "print_info", "print_object", "show_stored"]


_EMPTY: tuple[object, ...] = (None, "", (), {}, -1)


def print_info(value: JSONObject) -> None:
    """Prints the whole object as one line of JSON, with the server's names and units."""
    print_json(value.to_json(complete=True))


def print_fields(**fields: str | int) -> None:
    """Prints `fields` as one line of JSON."""
    print_json(fields)


def print_object(value: JSONObject, *, zeros: bool = False, indent: str = "") -> None:
    """Prints one line for each field. Leaves out fields that are empty, false or -1 (no limit), and, unless
    `zeros` is true, those that are 0."""
    shown = {item.name: getattr(value, item.name) for item in fields(value)}
    shown |= shown.pop("extra")
    del shown["_exact"]
    wide = max(map(len, shown)) + 2
    for name, field in shown.items():
        empty = field.to_json() == {} if isinstance(field, JSONObject) else field in _EMPTY
        if empty or field is False or not (field or zeros):
            continue
        if isinstance(field, JSONObject):
            print_line(f"{indent}{name}:")
            print_object(field, zeros=zeros and name != "config", indent=f"{indent}  ")
        elif isinstance(field, tuple) and isinstance(field[0], JSONObject):
            for part in field:
                print_line(f"{indent}{name}:")
                print_object(part, zeros=zeros, indent=f"{indent}  ")
        else:
            print_line(f"{indent}{name + ':':{wide}}{_text(field)}")


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, tuple):
        return ", ".join(map(_text, value))
    if isinstance(value, dict):
        return ", ".join(f"{name}={_text(item)}" for name, item in value.items())
    return f"{value:g} s" if isinstance(value, float) else str(value)


def show_stored(msg: StoredMsg, form: str) -> None:
    """Prints a message of a stream; JSON adds the stream, the sequence and the time."""
    place: dict[str, Shown] = {
        "stream": msg.stream,
        "seq": msg.seq,
        "time": format_time(msg.time),
    }
    show(Msg(msg.subject, msg.data, headers=msg.headers), form, more=place)
