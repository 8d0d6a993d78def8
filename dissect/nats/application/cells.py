"""Cells of text tables: empty if the value is absent."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from ..schema.records import Record


def cell(name: str, render: Callable[..., str] = str) -> Callable[..., str]:
    """A function for the cell of a column: empty if the value is absent."""
    get = attrgetter(name)

    def text(row: Record) -> str:
        value = get(row)
        return "" if value is None else render(value)

    return text


def payload_cell(row: Record) -> str:
    """The payload of a row or its digest, whichever the row shows."""
    shown: str | None = getattr(row, "payload") or getattr(row, "payload_sha256")
    return shown or ""


def count_cell(name: str, render: Callable[..., str] = str) -> Callable[..., str]:
    """A function for the cell of a count or size: empty if it is absent or 0."""
    get = attrgetter(name)

    def text(row: Record) -> str:
        value = get(row)
        return render(value) if value else ""

    return text
