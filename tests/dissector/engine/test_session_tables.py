"""From connections to records of several tables, in one pass."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from dissect.nats import anomalies, flows, frames, records, requests, sessions, subscriptions
from dissect.nats.engine.session_tables import ReleasedRows
from dissect.nats.pipeline import released
from dissect.nats.schema.records import (
    AnomalyRecord,
    FlowRecord,
    FrameRecord,
    Record,
    RequestRecord,
    SessionRecord,
    SubscriptionRecord,
)
from dissect.nats.tables import TABLES

from tests.support.paths import CAPTURES
from tests.support.records import place_of

CORE = [str(CAPTURES / "core-2.15.1.pcap")]


def test_one_pass_gives_what_several_give() -> None:
    found = list(records(CORE, ["frames", "sessions", "flows"]))
    assert [row for row in found if isinstance(row, FrameRecord)] == list(frames(CORE))
    assert [row for row in found if isinstance(row, SessionRecord)] == list(sessions(CORE))
    assert [row for row in found if isinstance(row, FlowRecord)] == list(flows(CORE))


# Each table alone, because the tables that are asked for decide what is made; those of layers over the
# samples that have rows of them.
LAYERS = ("core", "cluster", "orders", "stores", "services", "streaming")


def apart(source: Iterable[ReleasedRows]) -> tuple[list[ReleasedRows], list[Record]]:
    """What was released, without the rows of sessions; and these, which come at the end with `together`."""
    others, found = [], []
    for release, rows in source:
        found += [row for row in rows if isinstance(row, SessionRecord)]
        if left := [row for row in rows if not isinstance(row, SessionRecord)]:
            others.append(ReleasedRows(release, left))
    return others, sorted(found, key=place_of)


@pytest.mark.parametrize("table", TABLES)
def test_what_is_worked_off_together_is_the_same(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [str(CAPTURES)]
    if TABLES[table].layer:
        paths = [str(CAPTURES / f"{name}-2.15.1.pcap") for name in LAYERS]
    one_by_one = apart(released(paths, [table]))
    assert any(one_by_one)
    monkeypatch.setattr("dissect.nats.engine.session_tables._TOGETHER_BYTES", 2000)
    assert apart(released(paths, [table], together=True)) == one_by_one
    monkeypatch.setattr("dissect.nats.engine.session_tables._TOGETHER_BYTES", 1 << 20)
    assert apart(released(paths, [table], together=True)) == one_by_one


def test_all_tables_worked_off_together_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    one_by_one = apart(released([str(CAPTURES)], list(TABLES)))
    monkeypatch.setattr("dissect.nats.engine.session_tables._TOGETHER_BYTES", 2000)
    assert apart(released([str(CAPTURES)], list(TABLES), together=True)) == one_by_one


def test_what_a_packet_expands_to_is_made_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> tuple[list[Record], int]:
        groups = list(released([str(CAPTURES)], TABLES))
        rows = [row for group in groups for row in group.records]
        return sorted(rows, key=place_and_table), len(groups)

    whole, groups = found()
    monkeypatch.setattr("dissect.nats.engine.session_tables._MOST_BYTES", 0)
    monkeypatch.setattr("dissect.nats.engine.session_tables._PART", 1)
    parts, more = found()
    assert parts == whole
    assert more > 1.2 * groups


def place_and_table(row: Record) -> tuple[str, object]:
    return type(row).__name__, place_of(row)


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


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.pcap*")), ids=lambda path: path.name)
def test_the_counts_of_sessions_are_those_of_the_rows(path: Path) -> None:
    found = list(records([str(path)], list(TABLES)))
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for row in found:
        if isinstance(row, SubscriptionRecord):
            counted[row.session]["subscriptions"] += 1
        elif isinstance(row, RequestRecord):
            nobody = row.status == 503 and not row.responses
            counted[row.session].update(requests=1, replies=row.responses, no_responders=nobody)
        elif isinstance(row, AnomalyRecord):
            counted[row.session][row.anomaly] += 1
    for row in found:
        if isinstance(row, SessionRecord):
            counts = row.anomalies or {}
            for name in ("subscriptions", "requests", "replies", "no_responders"):
                counts = {**counts, name: getattr(row, name) or 0}
            assert +Counter(counts) == +counted[row.session]
    for row in found:
        if isinstance(row, FrameRecord):
            for name in row.anomalies or []:
                assert counted[row.session][name], (row.session, row.number)


def test_what_is_odd_about_a_frame_is_reported_in_its_row() -> None:
    odd = [row for row in frames(CORE) if row.anomalies]
    assert [(row.op, row.subject, row.anomalies) for row in odd] == [
        ("SUB", "till..broken", ["invalid_subject"])
    ]
    (anomaly,) = anomalies(CORE)
    assert (anomaly.packet, anomaly.offset, anomaly.bytes) == (
        odd[0].packet,
        odd[0].offset,
        odd[0].total_bytes,
    )


def test_the_account_of_a_dedicated_route_is_that_of_its_interest() -> None:
    cluster = [str(CAPTURES / "cluster-2.15.1.pcap")]
    dedicated = {
        row.session: row.account
        for row in sessions(cluster)
        if row.kind == "route" and row.account == "BANK"
    }
    found = [row for row in subscriptions(cluster) if row.session in dedicated]
    assert found and {row.account for row in found} == {"BANK"}


def test_requests_by_hand() -> None:
    """Those of the client `shop` in samples/captures/README.md."""
    shop = next(row.session for row in sessions(CORE) if row.client_name == "shop")
    rows = [row for row in requests(CORE) if row.session == shop]
    assert [(row.subject, row.status, row.responses) for row in rows] == [
        ("price.get", None, 1),
        ("price.get", None, 1),
        ("nobody.home", 503, 0),
        ("price.slow", None, 0),
        ("price.list", None, 3),
    ]
    assert all(row.latency_ns is None or row.latency_ns > 0 for row in rows)


def test_frames_after_a_gap_come_in_order_of_time() -> None:
    """PINGs that had to wait for the end of a gap still meet their PONGs."""
    path = [str(CAPTURES / "damaged-loss-reorder.pcap")]
    frames_of: dict[str, list[FrameRecord]] = defaultdict(list)
    for row in frames(path):
        frames_of[row.session].append(row)
    seen = 0
    for session in sessions(path):
        rows = frames_of[session.session]
        assert [row.number for row in rows] == list(range(1, len(rows) + 1))
        assert [row.ts_ns for row in rows] == sorted(row.ts_ns for row in rows)
        pings, pongs = ([row.ts_ns for row in rows if row.op == op] for op in ("PING", "PONG"))
        if len(pings) == len(pongs):
            seen += 1
            assert session.rtt_ns == min(b - a for a, b in zip(pings, pongs))
    assert seen
