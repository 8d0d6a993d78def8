"""Rows of all sessions in order of time, as far as the reach goes."""

from __future__ import annotations

import random

from dissect.nats.engine.frame_rows import rows_of
from dissect.nats.engine.frame_runs import FrameRun
from dissect.nats.engine.time_order import (
    RunOrder,
    TimeOrder,
    payload_bytes,
    place_of,
    placed,
    row_count,
)
from dissect.nats.options import Payload
from dissect.nats.records import AnomalyRecord, FrameRecord, Record
from natsync.protocol import Ping


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


def run(ts_ns: int, session: str, number: int, frames: int) -> FrameRun:
    pings = [Ping() for _ in range(frames)]
    return FrameRun(
        session, number, ts_ns, 1, "c", "originator", "client", "", pings, Payload.NONE, {}
    )


def test_runs_come_in_the_order_of_their_rows_and_are_cut_like_them() -> None:
    dice = random.Random(7)
    numbers = {"s": 1, "t": 1}
    of_rows, of_runs = TimeOrder[FrameRecord](10), RunOrder(10)
    rows: list[FrameRecord] = []
    runs: list[FrameRun] = []
    for _ in range(500):
        session, frames = dice.choice("st"), dice.randrange(1, 9)
        one = run(dice.randrange(100), session, numbers[session], frames)
        numbers[session] += frames
        released = [(place_of(row), row) for row in rows_of(one)]
        rows += of_rows.put(released)
        runs += of_runs.put([(one.position, one)])
        assert row_count(runs) == len(rows)
    rows += of_rows.flush()
    runs += of_runs.flush()
    assert [row for one in runs for row in rows_of(one)] == rows
