"""Rows of NATS Streaming."""

from __future__ import annotations

from dissect.nats.application.streaming.records import mark, new_row

from tests.dissector.application.layer_talk import Nothing, Talk


def test_a_new_row_is_of_its_frame_and_may_be_marked() -> None:
    frame = Talk(Nothing()).pub("a")
    row = new_row(frame, "publish", "subject")
    assert (row.session, row.number, row.ts_ns, row.op) == ("s", 1, frame.ts_ns, "publish")
    for anomaly in ("one", "two"):
        mark(row, anomaly)
    assert row.anomalies == ["one", "two"]
