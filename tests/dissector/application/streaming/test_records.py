"""Rows of NATS Streaming."""

from __future__ import annotations

from dissect.nats.application.streaming.records import mark, new_row

from tests.dissector.application.scripted_session import Nothing, ScriptedSession


def test_a_new_row_is_of_its_frame_and_may_be_marked() -> None:
    frame = ScriptedSession(Nothing()).pub("a")
    row = new_row(frame, "publish", "subject")
    assert (row.session, row.number, row.ts_ns, row.op) == ("s", 1, frame.ts_ns, "publish")
    for anomaly in ("one", "two"):
        mark(row, anomaly)
    assert row.anomalies == ["one", "two"]
