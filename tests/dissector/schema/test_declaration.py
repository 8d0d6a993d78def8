"""What a table declares."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated

from dissect.nats.schema.declaration import Column, Table, TextColumn, Type
from dissect.nats.schema.records import Record


@dataclass(slots=True, kw_only=True)
class _PingRecord(Record):
    session: Annotated[str, "session id"]
    sent_ns: Annotated[int | None, "when it was sent"] = None


def test_the_columns_are_the_fields_and_the_time_beside_its_nanoseconds() -> None:
    table = Table(
        name="pings",
        singular="ping",
        summary="One row per PING.",
        row=_PingRecord,
        time="sent_ns",
        position=attrgetter("sent_ns", "session"),
    )
    assert table.columns == (
        Column("session", Type.TEXT, "session id", False, "session"),
        Column("sent_ns", Type.INTEGER, "when it was sent", True, "sent_ns"),
        Column("time", Type.TIME, "`sent_ns` as a time in UTC", True, "sent_ns"),
    )


def test_a_text_column_shows_a_cell_as_it_is_by_default() -> None:
    assert TextColumn("id", 4).cell("x") == "x"
