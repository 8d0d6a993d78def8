"""Prints messages: as text, as JSON, or only their payloads.

Invalid UTF-8 is shown as \\xNN; in JSON, data that is not UTF-8 is `data_base64`.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping

from ..errors import ProtocolError
from ..message import Msg

__all__ = ["Shown", "show"]

Shown = str | int | float | dict[str, list[str]]


def show(msg: Msg, form: str, flush: bool = True, more: Mapping[str, Shown] | None = None) -> None:
    """Prints `msg`; `form` is `text`, `json` or `raw`. `more` comes first in the JSON object."""
    if form == "raw":
        if sys.stdout:  # None if it is closed, which `print` allows for
            sys.stdout.flush()
            sys.stdout.buffer.write(msg.data + b"\n")
    elif form == "json":
        print(json.dumps({**(more or {}), **_fields(msg)}))
    else:
        print(f"[{_readable(msg.subject)}] {msg.data.decode('utf-8', 'backslashreplace')}")
    if flush:
        print(end="", flush=True)


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
