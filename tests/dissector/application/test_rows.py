"""Columns and text cells that rows of application layers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from dissect.nats.application.rows import (
    ODD,
    SessionRow,
    counted,
    head,
    lasting,
    mark,
    sized,
)
from dissect.nats.number_formats import size_text
from dissect.nats.schema.declaration import text_columns

from tests.dissector.application.scripted_session import Nothing, ScriptedSession


@dataclass(slots=True, kw_only=True)
class CountRecord(SessionRow):
    """A row of a made-up table."""

    count: Annotated[int | None, "a count", counted("count", 5)] = None
    size: Annotated[int | None, "a size", sized("size")] = None
    lasted_ns: Annotated[int | None, "a duration", lasting("lasted")] = None
    anomalies: Annotated[list[str] | None, "anomalies", ODD] = None


def row() -> CountRecord:
    frame = ScriptedSession(Nothing(), "route").pub("a")
    frame.account = "A"
    return CountRecord(**head(frame))


def cells(of: CountRecord, names: str) -> list[str]:
    return [column.cell(of) for column in text_columns(CountRecord, names)]


def test_a_row_begins_with_the_facts_of_its_frame() -> None:
    begun = row()
    shown = begun.session, begun.number, begun.ts_ns, begun.kind, begun.account
    assert shown == ("s", 1, 1_000_000, "route", "A")


def test_cells_of_absent_values_and_of_counts_and_sizes_that_are_0_are_empty() -> None:
    begun = row()
    names = "count size lasted_ns anomalies"
    assert cells(begun, names) == ["", "", "", ""]
    begun.count, begun.size, begun.lasted_ns = 0, 0, 0
    assert cells(begun, names) == ["", "", "0 ns", ""]
    begun.count, begun.size, begun.lasted_ns = 7, 2048, 1_500_000
    assert cells(begun, names) == ["7", size_text(2048), "1.50 ms", ""]


def test_marks_add_up() -> None:
    begun = row()
    mark(begun, None)
    assert begun.anomalies is None
    mark(begun, "one")
    mark(begun, "two")
    assert cells(begun, "anomalies") == ["one two"]
