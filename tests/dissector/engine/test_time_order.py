"""Rows of all sessions in order of time, as far as the reach goes."""

from __future__ import annotations

from dissect.nats.engine.time_order import TimeOrder, payload_bytes, placed
from dissect.nats.schema.records import AnomalyRecord, FrameRecord, Record

from tests.support.records import place_of


def row(ts_ns: int) -> AnomalyRecord:
    return AnomalyRecord(
        session="s", ts_ns=ts_ns, packet=1, sender="responder", anomaly="lost", offset=0, bytes=1
    )


class _Line(TimeOrder[Record]):
    def put_all(self, rows: list[Record]) -> list[Record]:
        return self.put(placed(rows), payload_bytes(rows))


def times(rows: list[Record]) -> list[object]:
    return [place_of(row)[0] for row in rows]


def test_late_rows_take_their_place() -> None:
    line = _Line(4)
    assert line.put_all([row(1), row(3)]) == []
    assert times(line.put_all([row(2), row(4)])) == [1, 2]
    assert times(line.flush()) == [3, 4]


def test_too_late_is_late() -> None:
    line = _Line(2)
    assert times(line.put_all([row(5), row(6)])) == [5]
    assert times(line.put_all([row(1)])) == [1]
    assert times(line.flush()) == [6]


def test_without_reach_rows_go_as_they_come() -> None:
    line = _Line(0)
    assert times(line.put_all([row(2), row(1)])) == [2, 1]
    assert line.flush() == []


def test_what_came_free_together_may_come_in_any_order() -> None:
    one, other = _Line(3), _Line(3)
    rows = [row(9), row(7), row(8), row(6)]
    assert one.put_all(rows) == other.put_all(rows[::-1])
    assert one.flush() == other.flush()


def test_rows_with_big_payloads_are_kept_back_less() -> None:
    line = TimeOrder[str](1000)
    assert line.put([((1,), "a"), ((2,), "b")], 1 << 20) == []
    assert line.put([((3,), "c"), ((4,), "d")], 32 << 20) == ["a", "b"]
    assert line.flush() == ["c", "d"]


def test_the_bytes_of_payloads_are_counted() -> None:
    frame = FrameRecord(
        session="s",
        number=1,
        ts_ns=1,
        packet=1,
        capture="c",
        sender="originator",
        kind="client",
        op="PUB",
        total_bytes=13,
        offset=0,
        payload="four",
    )
    assert payload_bytes([row(1)]) == 0
    assert payload_bytes([frame, row(1), frame]) == 8
