"""Sampled frames: the first and the last ones and those with errors, within a limit; paths of messages."""

from __future__ import annotations

from collections.abc import Iterable

from dissect.nats.application.paths.rows import PathRecord
from dissect.nats.report.ladders import FIRST, FRAMES, LAST, ODD, Ladders, ladders_of, rung
from dissect.nats.schema.records import FrameRecord, Record

from tests.dissector.samples.rows import rows
from tests.support.audit import frame
from tests.support.paths import CAPTURES
from tests.support.report import engine_over


def of(some: Iterable[Record], limit: int = FRAMES) -> Ladders:
    with engine_over(some) as engine:
        return ladders_of(engine, limit)


def ping(session: str, number: int, error: str | None = None) -> FrameRecord:
    op = "-ERR" if error else "PING"
    return frame(number, session=session, op=op, error=error)


def numbers(found: Ladders, session: str) -> list[int]:
    return [item.number for item in found.samples[session].rungs]


def test_a_short_session_is_whole() -> None:
    every = [row for row in rows([CAPTURES / "core-2.15.1.pcap"]) if isinstance(row, FrameRecord)]
    found = of(every)
    assert found.frames == len(every) and found.sessions == len(found.samples) > 3
    for session, sample in found.samples.items():
        frames = sorted(
            (row for row in every if row.session == session), key=lambda row: row.number
        )
        assert sample.rungs == [rung(row) for row in frames]
        assert sample.count == len(frames)


def test_of_a_long_session_the_ends_and_the_errors() -> None:
    odd = range(2000, 2100)
    found = of(ping("a", number, "oops" if number in odd else None) for number in range(1, 5001))
    assert numbers(found, "a") == [
        *range(1, FIRST + 1),
        *odd[:ODD],
        *range(5001 - LAST, 5001),
    ]
    assert found.samples["a"].count == found.frames == 5000


def test_many_sessions_share_the_room() -> None:
    every = [
        ping(f"{session:02}", number, "oops" if number == 50 else None)
        for number in range(1, 101)
        for session in range(50)
    ]
    found = of(every, 1000)
    kept = [len(sample.rungs) for sample in found.samples.values()]
    assert max(kept) <= 25 + 1 + LAST and sum(kept) < 50 * 100
    for session in found.samples:
        assert numbers(found, session)[0] == 1 and numbers(found, session)[-1] == 100
        assert 50 in numbers(found, session)


def test_too_many_sessions_are_counted() -> None:
    found = of(ping(f"{number:04}", 1) for number in range(1600))
    assert len(found.samples) == 1500 and found.sessions == 1600


def test_messages_with_the_longest_ways_come_first() -> None:
    hops = rows([CAPTURES / "gateway-2.15.1.pcap"], ["paths"])
    found = of(hops)
    assert len(found.messages) == found.paths > 2
    servers = [
        len({name for hop in way for name in (hop.from_server, hop.to_server) if name})
        for way in found.messages
    ]
    assert servers == sorted(servers, reverse=True) and servers[0] == 2
    for way in found.messages:
        whole = [
            row for row in hops if isinstance(row, PathRecord) and row.message == way[0].message
        ]
        assert [hop.hop for hop in way] == list(range(1, len(whole) + 1))
