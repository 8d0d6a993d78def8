"""The way of messages through real servers (samples/captures/README.md), and the state's limits."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dissect.nats import sessions
from dissect.nats.application.paths import facts as path_facts
from dissect.nats.application.paths import items as path_items
from dissect.nats.application.paths.rows import PathRecord
from dissect.nats.application.paths.session import PathSession
from dissect.nats.application.paths.table import PATHS
from dissect.nats.pipeline import records, released
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.schema.declaration import LayerFrame
from dissect.nats.tables import frames_for

from tests.dissector.application.paths.grouping import Scattered, items_of, path_rows
from tests.dissector.application.scripted_session import ScriptedSession, values
from tests.support.paths import CAPTURES
from tests.support.pcapwriter import Record
from tests.support.sightings import capture_of, proxied, translated


def hops(name: str) -> dict[str, list[PathRecord]]:
    found: dict[str, list[PathRecord]] = {}
    for row in records([str(CAPTURES / name)], ["paths"]):
        assert isinstance(row, PathRecord)
        found.setdefault(row.message, []).append(row)
    return {message: sorted(rows, key=lambda row: row.hop) for message, rows in found.items()}


def rows_in(path: Path) -> list[PathRecord]:
    return [row for row in records([str(path)], ["paths"]) if isinstance(row, PathRecord)]


def route(rows: list[PathRecord]) -> list[tuple[str | None, str | None]]:
    return [(row.from_server, row.to_server) for row in rows]


@pytest.mark.parametrize("version", ["2.9.10", "2.15.1"])
def test_from_a_client_over_a_route_and_a_leafnode(version: str) -> None:
    found = hops(f"leafcluster-{version}.pcap")
    ways = [route(rows) for rows in found.values() if rows[0].subject == "orders.new"]
    way = [(None, "hub-2"), ("hub-2", "hub"), ("hub", "spoke"), ("spoke", None)]
    assert way in ways
    for rows in found.values():
        assert [row.hop for row in rows] == list(range(1, len(rows) + 1))
        assert rows[0].matched_by is None and rows[0].op in ("PUB", "HPUB")
        assert all(row.matched_by for row in rows[1:])


@pytest.mark.parametrize("version", ["2.9.10", "2.15.1"])
def test_requests_over_gateways_and_their_replies(version: str) -> None:
    ways = [route(rows) for rows in hops(f"gateway-{version}.pcap").values()]
    assert [(None, "east-1"), ("east-1", "west-1"), ("west-1", None)] in ways
    assert [(None, "west-1"), ("west-1", "east-1"), ("east-1", None)] in ways


def test_a_stored_message_and_each_attempt_to_deliver_it() -> None:
    found = hops("jetstream-2.15.1.pcap")
    assert sorted(len(rows) for rows in found.values()) == [1, 2, 2, 3]
    (again,) = [rows for rows in found.values() if len(rows) == 3]
    assert [row.matched_by for row in again] == [None, "unique", "unique"]
    assert all(row.since_ns and row.since_ns > 0 for row in again[1:])


def test_what_is_not_proven_is_left_out() -> None:
    """Four equal orders, to two members of a queue group: nobody knows who got which."""
    rows = [rows for rows in hops("core-2.15.1.pcap").values() if rows[0].copies == 4]
    assert len(rows) == 4
    for each in rows:
        assert {row.matched_by for row in each[1:]} == {"ordered"} and len(each) < 6


@pytest.mark.parametrize("places", [translated, proxied])
def test_a_connection_that_is_seen_twice_is_followed_once(
    tmp_path: Path, places: Callable[[], list[list[Record]]]
) -> None:
    once = rows_in(capture_of(tmp_path / "seen.pcap", places()[:1]))
    twice = rows_in(capture_of(tmp_path / "seen.pcap", places()))
    first, other = sessions([str(tmp_path / "seen.pcap")])
    assert {row.session for row in twice} == {first.session}
    assert all(row.same_as == [other.session] for row in twice) and len(twice) == 11
    assert [replace(row, same_as=None) for row in twice] == once


def test_the_order_of_sessions_does_not_matter() -> None:
    name = frames_for("paths")
    made = [row for each in released([str(CAPTURES)], [name]) for row in each.records]
    frames = [row for row in made if isinstance(row, LayerFrame)]
    rng = random.Random(7)
    found = []
    for _ in range(3):
        order = {frame.session: rng.random() for frame in frames}
        frames.sort(key=lambda frame: (order[frame.session], frame.number))
        found.append(path_rows(items_of(frames)))
    found += (Scattered(items_of(frames), tasks).rows() for tasks in (1, 2, 7))
    assert found[0] and all(one == found[0] for one in found)
    for row in found[0]:
        assert all(isinstance(column.cell(row), str) for column in PATHS.text)


def paths_of(session: ScriptedSession) -> list[PathRecord]:
    return path_rows(session.close())


def test_an_ack_that_cannot_be_read_or_is_a_duplicate_names_no_place() -> None:
    session = ScriptedSession(PathSession())
    for body in (
        b'{"seq":',
        b'{"seq": 7}',
        b'{"seq": 7, "stream": "S", "duplicate": true}',
    ):
        session.pub("a", b"x", "_INBOX.1")
        session.msg("_INBOX.1", body)
    session.msg("a", b"x", "$JS.ACK.S.C.1.7.7.1.0")
    assert values(paths_of(session), "op", "matched_by") == 3 * [("PUB", None)]


@pytest.mark.parametrize("lost", [0, 1])
def test_equal_messages_after_a_loss_are_not_matched(lost: int) -> None:
    session = ScriptedSession(PathSession())
    for _ in range(3):
        session.pub("a", b"x")
        frame = session.frame("responder", "PING", "", b"", None, {})
        frame.offset += lost
        session.say(frame)
        session.msg("a", b"x")
    found = [row.matched_by for row in paths_of(session)]
    assert found.count("ordered") == (0 if lost else 3) and found.count(None) == 3


def test_of_too_many_equal_messages_none_is_matched_and_the_rows_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(path_items, "GROUP_ITEMS", 3)
    session = ScriptedSession(PathSession())
    for content in (b"many", b"many", b"few"):
        session.pub("a", content)
        session.msg("a", content)
    forgotten = [Anomaly.FORGOTTEN.value]
    assert values(paths_of(session), "matched_by", "copies", "anomalies") == [
        (None, None, forgotten),
        (None, None, forgotten),
        (None, 1, None),
        ("unique", 1, None),
    ]


def test_of_too_many_connections_the_servers_are_missing_and_the_rows_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(path_facts, "CONNECTIONS", 1)
    items = []
    for name in "ab":
        session = ScriptedSession(PathSession())
        for frame in (
            session.frame("responder", "INFO", "", b"", None, {}),
            session.pub("x", name.encode()),
        ):
            frame.session = name
            frame.json = '{"server_id": "NA"}' if frame.op == "INFO" else None
            items += [*session.state.add(frame)]
        items += session.state.finish()
    assert values(path_rows(items), "to_server", "anomalies") == [
        ("NA", [Anomaly.FORGOTTEN.value]),
        (None, [Anomaly.FORGOTTEN.value]),
    ]
