"""Talks to records of several tables, in one pass."""

from __future__ import annotations

from pathlib import Path

from dissect.nats import anomalies, flows, frames, records, sessions
from dissect.nats.records import FlowRecord, FrameRecord, SessionRecord

CAPTURES = Path(__file__).parents[2] / "samples" / "captures"
CORE = [str(CAPTURES / "core-2.15.1.pcap")]


def test_one_pass_gives_what_several_give() -> None:
    found = list(records(CORE, ["frames", "sessions", "flows"]))
    assert [row for row in found if isinstance(row, FrameRecord)] == list(frames(CORE))
    assert [row for row in found if isinstance(row, SessionRecord)] == list(sessions(CORE))
    assert [row for row in found if isinstance(row, FlowRecord)] == list(flows(CORE))


def test_flows_are_there_whether_nats_or_not() -> None:
    flow, *_ = flows([str(CAPTURES / "http.pcap")])
    assert flow.protocol == "other" and flow.bytes_originator
    named = {flow.protocol for flow in flows([str(CAPTURES / "tls-2.15.1.pcap")])}
    assert "tls" in named


def test_sessions_have_their_flow() -> None:
    ids = {flow.session for flow in flows(CORE) if flow.protocol == "nats"}
    assert {session.session for session in sessions(CORE)} == ids


def test_oddities_are_rows_and_counts() -> None:
    path = [str(CAPTURES / "damaged-loss-reorder.pcap")]
    rows = list(anomalies(path))
    assert {row.anomaly for row in rows} >= {"lost"}
    lost = sum(row.bytes for row in rows if row.anomaly == "lost")
    assert lost == sum(session.missing_bytes for session in sessions(path))
