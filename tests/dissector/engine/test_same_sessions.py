"""Sessions that show the same connection name each other, in captures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dissect.nats import sessions
from dissect.nats.engine import same_sessions
from dissect.nats.schema.records import SessionRecord

from tests.support.pcapwriter import START_NS, Record
from tests.support.sightings import POD, PROXY, capture_of, proxied, seen, translated

SECOND = 10**9


def rows(path: Path, *places: list[Record], live: bool = False) -> list[SessionRecord]:
    return list(sessions(capture_of(path / "seen.pcap", places), live=live))


def names(found: list[SessionRecord]) -> list[tuple[list[str] | None, str | None]]:
    return [(row.same_as, row.copy_of) for row in found]


@pytest.mark.parametrize("places", [translated, proxied])
def test_both_sides_name_each_other(
    tmp_path: Path, places: Callable[[], list[list[Record]]]
) -> None:
    first, second = found = rows(tmp_path, *places())
    assert [row.client_id for row in found] == [7, 7]
    assert names(found) == [([second.session], None), ([first.session], first.session)]


def test_three_places_name_the_two_others(tmp_path: Path) -> None:
    one, two, three = found = rows(tmp_path, *translated(), seen(PROXY, POD, START_NS + 100_000))
    assert names(found) == [
        ([two.session, three.session], None),
        ([one.session, three.session], one.session),
        ([one.session, two.session], one.session),
    ]


@pytest.mark.parametrize(
    "other",
    [
        seen(PROXY, POD, number=8),
        seen(PROXY, POD, server_id=b"NBBB"),
        seen(PROXY, POD, now_ns=START_NS + SECOND),
        seen(PROXY, POD, from_packet=5),
        seen(PROXY, POD, number=0),
        seen(PROXY, POD, number=1 << 63),
    ],
    ids=["number", "restart of the server", "later", "without INFO", "no number", "huge number"],
)
def test_others_stay_apart(tmp_path: Path, other: list[Record]) -> None:
    assert names(rows(tmp_path, seen(), other)) == [(None, None)] * 2


def test_of_many_connections_each_has_its_own_copy(tmp_path: Path) -> None:
    start_ns = START_NS + SECOND
    places = [each for at in range(1, 30) for each in proxied(start_ns + at * SECOND // 1000, at)]
    found = rows(tmp_path, *places)
    assert [row.copy_of is None for row in found] == [True, False] * 29
    for first, second in zip(found[::2], found[1::2]):
        assert (first.client_id, first.same_as) == (second.client_id, [second.session])


def test_rows_on_disk_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [
        *proxied(),
        *translated(START_NS + SECOND, number=8),
        seen(now_ns=START_NS + 9 * SECOND),
    ]
    expected = rows(tmp_path, *places)
    monkeypatch.setattr(same_sessions, "_HELD", 2)
    monkeypatch.setattr(same_sessions, "_TOGETHER", 1)
    assert rows(tmp_path, *places) == expected


def test_while_packets_arrive_the_later_row_names_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = found = rows(tmp_path, *proxied(), live=True)
    assert names(found) == [(None, None), ([first.session], first.session)]
    monkeypatch.setattr(same_sessions, "_KNOWN", 0)
    assert names(rows(tmp_path, *proxied(), live=True)) == [(None, None)] * 2
    assert second.client_id == 7
