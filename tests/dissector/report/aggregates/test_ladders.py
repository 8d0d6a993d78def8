"""Sampled frames: the first and the last ones and those with errors, within a limit; paths of messages."""

from __future__ import annotations

from dissect.nats.application.paths.rows import PathRecord
from dissect.nats.report.aggregates.ladders import FIRST, LAST, Ladders, rung
from dissect.nats.schema.records import FrameRecord

from tests.dissector.samples.rows import rows
from tests.support.paths import CAPTURES


def frame(session: str, number: int, error: str | None = None) -> FrameRecord:
    return FrameRecord(
        session=session,
        number=number,
        ts_ns=number,
        packet=number,
        capture="a.pcap",
        sender="originator",
        kind="client",
        op="-ERR" if error else "PING",
        total_bytes=6,
        offset=6 * number,
        error=error,
    )


def numbers(found: Ladders, session: str) -> list[int]:
    return [item.number for item in found.samples[session].rungs]


def test_a_short_session_is_whole() -> None:
    found = Ladders()
    every = [row for row in rows([CAPTURES / "core-2.15.1.pcap"]) if isinstance(row, FrameRecord)]
    for row in every:
        found.add(row)
    for session, sample in found.samples.items():
        frames = sorted(
            (row for row in every if row.session == session), key=lambda row: row.number
        )
        assert sample.rungs == [rung(row) for row in frames]
        assert sample.count == len(frames)


def test_of_a_long_session_the_ends_and_the_errors() -> None:
    found = Ladders()
    for number in range(1, 5001):
        found.add(frame("a", number, "oops" if number == 2000 else None))
    assert numbers(found, "a") == [*range(1, FIRST + 1), 2000, *range(5001 - LAST, 5001)]
    assert found.samples["a"].count == found.frames == 5000


def test_many_sessions_share_the_room() -> None:
    found = Ladders(limit=1000)
    for number in range(1, 101):
        for session in map(str, range(50)):
            found.add(frame(session, number, "oops" if number == 50 else None))
    kept = [len(sample.rungs) for sample in found.samples.values()]
    assert max(kept) <= 25 + 1 + LAST and sum(kept) < 50 * 100
    for session in found.samples:
        assert numbers(found, session)[0] == 1 and numbers(found, session)[-1] == 100
        assert 50 in numbers(found, session)


def test_too_many_sessions_are_counted() -> None:
    found = Ladders()
    for number in range(1600):
        found.add(frame(str(number), 1))
    assert len(found.samples) == 1500 and len(found.sessions_left_out) == 100


def test_messages_with_the_longest_ways_come_first() -> None:
    found = Ladders()
    hops = rows([CAPTURES / "gateway-2.15.1.pcap"], ["paths"])
    for row in hops:
        found.add(row)
    found.finish()
    ways = list(found.messages)
    assert len(ways) > 2
    servers = [
        len({name for hop in way for name in (hop.from_server, hop.to_server) if name})
        for way in ways
    ]
    assert servers == sorted(servers, reverse=True) and servers[0] == 2
    for way in ways:
        whole = [
            row for row in hops if isinstance(row, PathRecord) and row.message == way[0].message
        ]
        assert [hop.hop for hop in way] == list(range(1, len(whole) + 1))
