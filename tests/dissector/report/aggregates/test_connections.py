"""Connections: sums over sessions, those with trouble first, and receivers that were too slow."""

from __future__ import annotations

from collections import Counter

from dissect.nats.report.aggregates.connections import Connections, host, trouble, who
from dissect.nats.schema.records import FlowRecord, SessionRecord

from tests.dissector.samples.rows import rows
from tests.support.paths import CAPTURES


def of(*names: str) -> tuple[Connections, list[SessionRecord]]:
    found = Connections()
    every = rows([CAPTURES / name for name in names], Connections.tables)
    for row in every:
        found.add(row)
    return found, [row for row in every if isinstance(row, SessionRecord)]


def test_sums_of_all_sessions() -> None:
    found, sessions = of("core-2.15.1.pcap", "gateway-2.15.1.pcap", "tls-2.15.1.pcap")
    assert found.kinds == Counter(row.kind for row in sessions)
    assert found.kinds.keys() == {"client", "gateway"}
    assert found.errors == Counter(text for row in sessions for text in row.errors or ())
    sent = sum(talker.sent_bytes for _, talker in found.talkers.items())
    assert sent == sum(row.bytes_originator for row in sessions) > 0
    assert found.sums["undecrypted"] == found.sums["tls"] > 0


def test_sessions_with_trouble_come_first() -> None:
    found, _ = of("core-2.15.1.pcap", "auth-2.15.1.pcap")
    ranks = [trouble(row) for row in found.sessions]
    assert ranks == sorted(ranks, reverse=True)
    assert ranks[0] > 0 == ranks[-1]


def test_slow_receivers() -> None:
    found, sessions = of("slow-2.15.1.pcap")
    assert (
        {row.session for row in found.slow}
        == {row.session for row in sessions if row.slow_consumer}
        != set()
    )
    stopped = next(iter(found.stopped))
    assert isinstance(stopped, FlowRecord)
    assert max(stopped.zero_window_ns_originator, stopped.zero_window_ns_responder) > 10**9


def test_parts_add_up() -> None:
    one, _ = of("core-2.15.1.pcap")
    other, _ = of("slow-2.15.1.pcap")
    both, _ = of("core-2.15.1.pcap", "slow-2.15.1.pcap")
    one.merge(other)
    assert (one.kinds, one.sums, one.errors) == (both.kinds, both.sums, both.errors)
    assert one.talkers.items() == both.talkers.items()


def test_names_of_both_ends() -> None:
    _, sessions = of("core-2.15.1.pcap")
    assert host("[::1]:4222") == "[::1]" and host("10.0.0.1:4222") == "10.0.0.1"
    assert {who(row) for row in sessions if row.client_name is None} <= {"127.0.0.1"}
