"""The servers of a capture, by hand for the samples (samples/captures/README.md)."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import permutations

import pytest

from dissect.nats import records
from dissect.nats.application.servers import SERVERS, ServerRecord, Servers
from dissect.nats.pipeline import released
from dissect.nats.schema.declaration import LayerFrame
from dissect.nats.tables import frames_for

from tests.support.paths import CAPTURES


def servers(name: str) -> dict[str | None, ServerRecord]:
    rows = records([str(CAPTURES / name)], ["servers"])
    return {row.server_name: row for row in rows if isinstance(row, ServerRecord)}


def info_frame(frame: tuple[str, str, str, dict[str, object]], number: int = 1) -> LayerFrame:
    sender, kind, op, values = frame
    return LayerFrame(
        session="s",
        number=number,
        ts_ns=number,
        packet=1,
        capture="c",
        sender=sender,
        kind=kind,
        op=op,
        total_bytes=1,
        offset=0,
        json=json.dumps(values),
    )


@pytest.mark.parametrize("version", ["2.9.10", "2.15.1"])
def test_servers_of_a_cluster_are_linked_by_routes(version: str) -> None:
    found = servers(f"cluster-{version}.pcap")
    assert {name: row.links for name, row in found.items()} == {
        "shop-1": ["route shop-2", "route shop-3"],
        "shop-2": ["route shop-1", "route shop-3"],
        "shop-3": ["route shop-1", "route shop-2"],
    }
    assert {row.cluster for row in found.values()} == {"shops"}
    assert {row.server_version for row in found.values()} == {version}


@pytest.mark.parametrize("version", ["2.9.10", "2.15.1"])
def test_gateways_and_leafnodes(version: str) -> None:
    found = servers(f"gateway-{version}.pcap")
    assert {(row.cluster, *(row.links or ())) for row in found.values()} == {
        ("west", "gateway east-1"),
        ("east", "gateway west-1"),
    }
    leaf = servers(f"leafcluster-{version}.pcap")
    assert leaf["spoke"].links == ["leafnode hub"] and leaf["spoke"].clients == 1
    assert leaf["hub"].links == ["leafnode spoke", "route hub-2"]


def test_clients_are_counted_once_each() -> None:
    (row,) = servers("core-2.15.1.pcap").values()
    assert (row.server_name, row.clients, row.links) == ("demo", row.connections, None)


def test_the_order_of_connections_does_not_matter() -> None:
    name = frames_for("servers")
    rows = [row for each in released([str(CAPTURES)], [name]) for row in each.records]
    frames = [row for row in rows if isinstance(row, LayerFrame)]
    rng = random.Random(7)
    made = []
    for _ in range(5):
        order = {frame.session: rng.random() for frame in frames}
        frames.sort(key=lambda frame: (order[frame.session], frame.number))
        assert SERVERS.layer
        made.append(sorted(SERVERS.layer.rows(frames), key=SERVERS.position))
    assert made[0] and all(one == made[0] for one in made)


def test_the_order_of_the_senders_of_a_connection_does_not_matter() -> None:
    """Spark orders frames by time, and a clock may have gone back between an INFO and its CONNECT."""
    info = {"server_id": "A", "server_name": "a"}
    client = [("responder", "client", "INFO", info), ("originator", "client", "CONNECT", {})]
    link = [
        ("responder", "unknown", "INFO", info),
        ("originator", "route", "CONNECT", {"name": "B"}),
    ]
    for greetings, expected in ((client, (1, None)), (link, (0, ["route B"]))):
        for order in (greetings, greetings[::-1]):
            state = Servers()
            for greeting in order:
                state.add(info_frame(greeting))
            rows = {row.server_id: row for row in state.finish() if isinstance(row, ServerRecord)}
            assert (rows["A"].clients, rows["A"].links) == expected


def test_what_announces_another_server_says_nothing_of_its_sender() -> None:
    state = Servers()
    for number, values in enumerate(
        (
            {"server_id": "A", "server_name": "a"},
            {"server_id": "B", "server_name": "b", "ip": "nats-route://1.2.3.4:6222/"},
            {"server_id": "B", "server_name": "b"},
            {"server_id": "A", "server_name": "x", "gateway_cmd": 2},
        )
    ):
        state.add(info_frame(("responder", "route", "INFO", values), number))
    (row,) = state.finish()
    assert isinstance(row, ServerRecord)
    assert (row.server_id, row.server_name, row.last_ns) == ("A", "a", 0)


def test_a_server_that_dials_its_own_address_is_not_linked_to_itself() -> None:
    """Operators list all servers of a cluster in each `routes`; a server closes the connection to itself."""
    state = Servers()
    state.add(info_frame(("originator", "route", "CONNECT", {"name": "A"})))
    state.add(info_frame(("responder", "route", "INFO", {"server_id": "A", "server_name": "a"}), 2))
    (row,) = state.finish()
    assert isinstance(row, ServerRecord)
    assert (row.server_name, row.links, row.connections) == ("a", None, 1)


def test_a_connection_that_several_sessions_show_counts_once_in_any_order() -> None:
    numbered = {"server_id": "A", "server_name": "a", "client_id": 7}
    first, second = (
        [
            (session, ("responder", "leafnode", "INFO", numbered)),
            (session, ("originator", "leafnode", "CONNECT", {"name": "leaf", "server_id": "L"})),
        ]
        for session in ("one", "two")
    )
    other = [("three", ("responder", "client", "INFO", {**numbered, "client_id": 8}))]
    client = [("three", ("originator", "client", "CONNECT", {"name": "c"}))]
    for order in permutations([*first, *second]):
        state = Servers()
        for session, greeting in [*order, *other, *client]:
            state.add(replace(info_frame(greeting), session=session))
        rows = [row for row in state.finish() if isinstance(row, ServerRecord)]
        assert sorted(
            (row.server_id, row.connections, row.clients, row.copies) for row in rows
        ) == [
            ("A", 2, 1, 1),
            ("L", 1, 0, None),
        ]


def test_what_cannot_be_read_is_left_out() -> None:
    state = Servers()
    for values in ([], {"server_id": 7}, {"server_id": "A", "connect_urls": [1, "u", None]}):
        frame = info_frame(("responder", "client", "INFO", {}))
        frame.json = json.dumps(values)
        state.add(frame)
    frame.json = "***"
    state.add(frame)
    (row,) = state.finish()
    assert isinstance(row, ServerRecord)
    assert (row.server_id, row.connect_urls) == ("A", ["u"])


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dissect.nats.application.servers._SERVERS", 3)
    monkeypatch.setattr("dissect.nats.application.servers._CONNECTIONS", 2)
    state = Servers()
    for number in range(9):
        frame = info_frame(("responder", "client", "INFO", {"server_id": f"S{number}"}))
        frame.session = str(number)
        state.add(frame)
    assert len(list(state.finish())) == 3
