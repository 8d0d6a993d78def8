"""Several captures as one timeline: `heapq.merge` of their packets is the witness."""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterator, Sequence
from itertools import chain
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissect.nats.capture import merge as module
from dissect.nats.capture.merge import merge
from dissect.nats.types import Packets


class Source:
    """A capture whose packets have these times, some of them in each block."""

    def __init__(self, name: str, times: Sequence[int], size: int = 2) -> None:
        self.name = name
        self.times = times
        self.size = size
        self.is_open = False
        self.was_open = False

    def read(self) -> Generator[Packets, None, None]:
        self.is_open = self.was_open = True
        try:
            for at in range(0, len(self.times), self.size):
                places = [(ts_ns, 0, 0, 0) for ts_ns in self.times[at : at + self.size]]
                yield Packets(self.name, 1, b"", at + 1, places)
        finally:
            self.is_open = False


def merged(*sources: Source) -> Iterator[tuple[str, int, int]]:
    """Source, number and time of each packet."""
    row = sorted(
        ((source.times[0] if source.times else inf, source) for source in sources),
        key=lambda pair: pair[0],
    )
    pairs = [(first_ns, source.read) for first_ns, source in row]
    for packet in chain.from_iterable(merge(pairs, RuntimeError("too many"))):
        yield packet.capture, packet.number, packet.ts_ns


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 20), max_size=12), max_size=6),
    st.integers(1, 5),
)
def test_packets_come_as_heapq_would_merge_them(times: list[list[int]], size: int) -> None:
    sources = [Source(str(number), each, size) for number, each in enumerate(times)]
    row = sorted(sources, key=lambda source: source.times[0] if source.times else inf)
    lists = [
        [(source.name, number, ts_ns) for number, ts_ns in enumerate(source.times, 1)]
        for source in row
    ]
    assert list(merged(*sources)) == list(heapq.merge(*lists, key=lambda each: each[2]))
    assert not any(source.is_open for source in sources)


def test_files_that_follow_each_other_are_never_open_together() -> None:
    sources = [Source(str(at), range(10 * at, 10 * at + 10)) for at in range(5)]
    for name, _, _ in merged(*sources):
        assert [source.name for source in sources if source.is_open] == [name]


def test_a_file_is_not_opened_before_its_time() -> None:
    early, late = Source("a", [1, 2, 9]), Source("b", [5, 6])
    packets = merged(early, late)
    assert [next(packets)[2] for _ in range(2)] == [1, 2]
    assert not late.was_open
    assert [ts_ns for _, _, ts_ns in packets] == [5, 6, 9]


def test_who_stops_early_closes_all() -> None:
    sources = [Source("a", range(9)), Source("b", range(9))]
    runs = merge([(0, source.read) for source in sources], RuntimeError())
    next(runs)
    next(runs)
    assert all(source.is_open for source in sources)
    runs.close()
    assert not any(source.is_open for source in sources)


def test_too_many_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OPEN", 3)
    assert len(list(merged(*(Source(name, range(9)) for name in "abc")))) == 27
    with pytest.raises(RuntimeError, match="too many"):
        list(merged(*(Source(name, range(9)) for name in "abcd")))


def test_a_block_that_is_alone_in_its_time_is_handed_on_as_it_is() -> None:
    sources = [Source("a", range(100), 50), Source("b", range(200, 300), 50)]
    runs = list(merge([(each.times[0], each.read) for each in sources], RuntimeError()))
    assert [len(run.places) for run in runs] == [50] * 4
