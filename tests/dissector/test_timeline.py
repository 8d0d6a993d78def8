"""Rows of all sessions in order of time, as far as the reach goes."""

from __future__ import annotations

from dissect.nats.records import AnomalyRecord, Record
from dissect.nats.timeline import Timeline, place_of


def row(ts_ns: int) -> AnomalyRecord:
    return AnomalyRecord(
        session="s", ts_ns=ts_ns, packet=1, sender="responder", anomaly="lost", offset=0, bytes=1
    )


def times(rows: list[Record]) -> list[object]:
    return [place_of(row)[0] for row in rows]


def test_late_rows_take_their_place() -> None:
    line = Timeline(4)
    assert line.put([row(1), row(3)]) == []
    assert times(line.put([row(2), row(4)])) == [1, 2]
    assert times(line.rest()) == [3, 4]


def test_too_late_is_late() -> None:
    line = Timeline(2)
    assert times(line.put([row(5), row(6)])) == [5]
    assert times(line.put([row(1)])) == [1]
    assert times(line.rest()) == [6]


def test_without_reach_rows_go_as_they_come() -> None:
    line = Timeline(0)
    assert times(line.put([row(2), row(1)])) == [2, 1]
    assert line.rest() == []


def test_what_came_free_together_may_come_in_any_order() -> None:
    one, other = Timeline(3), Timeline(3)
    rows = [row(9), row(7), row(8), row(6)]
    assert one.put(rows) == other.put(rows[::-1])
    assert one.rest() == other.rest()
