"""Fragments: in any order, twice, overlapping, cut, never complete."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissect.nats.packet import fragments as module
from dissect.nats.packet.fragments import MOST_DATAGRAMS, MOST_PARTS, PATIENCE_NS, Fragments
from dissect.nats.packet.ip import TCP, UDP, Fragment

DATA = bytes(range(256)) * 4


class Table:
    """`Fragments`, and how many packets it gave up."""

    def __init__(self) -> None:
        self.lost = 0
        self.fragments = Fragments(self._lose)

    def _lose(self, packets: int) -> None:
        self.lost += packets

    def put(
        self,
        at: int,
        end: int,
        *,
        name: bytes = b"a",
        ts_ns: int = 0,
        cut: int = 0,
        data: bytes = DATA,
    ) -> tuple[int, bytes, int, int] | None:
        """Bytes `at` to `end` of DATA, without the last `cut`."""
        part = Fragment(name, at, end < len(data))
        return self.fragments.put(ts_ns, part, TCP, data[at : end - cut], end - at)


def parts(size: int) -> list[tuple[int, int]]:
    return [(at, min(at + size, len(DATA))) for at in range(0, len(DATA), size)]


@settings(deadline=None)
@given(st.permutations(parts(128)))
def test_any_order_will_do(order: list[tuple[int, int]]) -> None:
    table = Table()
    found = [table.put(*part) for part in order]
    assert found == [None] * 7 + [(TCP, DATA, len(DATA), 7)]
    table.fragments.finish()
    assert table.lost == 0


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 127), st.integers(1, 128)), max_size=30))
def test_of_bytes_that_come_twice_the_first_copy_wins(extra: list[tuple[int, int]]) -> None:
    """Every part has bytes of its own; the witness puts them into an array where nothing is yet."""
    wanted: list[int | None] = [None] * len(DATA)
    table = Table()
    found = None
    pieces = [(at * 8, min(at * 8 + size * 8, len(DATA))) for at, size in extra] + parts(64)
    for number, (at, end) in enumerate(pieces):
        own = bytes([number]) * len(DATA)
        found = table.put(at, end, data=own)
        for place in range(at, end):
            wanted[place] = number if wanted[place] is None else wanted[place]
        if found:
            break
    assert found is not None
    assert list(found[1]) == wanted


def test_a_cut_fragment_ends_the_bytes_but_not_the_length() -> None:
    table = Table()
    assert table.put(0, 512, cut=10) is None
    assert table.put(512, 1024) == (TCP, DATA[:502], 1024, 1)


def test_the_protocol_is_that_of_the_first_part() -> None:
    fragments = Fragments(lambda packets: None)
    assert fragments.put(0, Fragment(b"a", 8, False), UDP, bytes(8), 8) is None
    assert fragments.put(0, Fragment(b"a", 0, True), TCP, bytes(8), 8) == (TCP, bytes(16), 16, 1)


def test_datagrams_do_not_mix() -> None:
    table = Table()
    assert table.put(0, 512, name=b"a") is None
    assert table.put(512, 1024, name=b"b") is None
    assert table.put(512, 1024, name=b"a") is not None
    table.fragments.finish()
    assert table.lost == 1


def test_one_that_is_not_complete_in_time_is_given_up() -> None:
    table = Table()
    table.put(0, 512)
    table.put(0, 512, name=b"b", ts_ns=PATIENCE_NS)
    assert table.lost == 0
    table.put(512, 1024, ts_ns=PATIENCE_NS + 1)
    assert table.lost == 1
    table.fragments.finish()
    assert table.lost == 3


@pytest.mark.parametrize(
    ("offset", "more", "size"), [(65528, True, 16), (8, True, 0), (8, False, -4), (2048, True, 8)]
)
def test_a_part_that_cannot_be_is_given_up_alone(offset: int, more: bool, size: int) -> None:
    table = Table()
    table.put(512, 1024)  # the last one: its end is the datagram's
    part = Fragment(b"a", offset, more)
    assert table.fragments.put(0, part, TCP, bytes(max(size, 0)), size) is None
    assert table.lost == 1
    assert table.put(0, 512) == (TCP, DATA, 1024, 1)


def test_two_different_ends_cannot_be() -> None:
    table = Table()
    table.put(512, 1024)
    assert table.fragments.put(0, Fragment(b"a", 512, False), TCP, bytes(8), 8) is None
    table.put(0, 512, name=b"b")
    assert table.fragments.put(0, Fragment(b"b", 8, False), TCP, bytes(8), 8) is None
    assert table.lost == 2


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table()
    for number in range(65536):
        table.put(0, 8, name=number.to_bytes(4, "big"))
    assert table.lost == 65536 - MOST_DATAGRAMS
    table = Table()
    for at in range(0, 8 * (MOST_PARTS + 9) * 2, 16):
        table.fragments.put(0, Fragment(b"a", at, True), TCP, bytes(8), 8)
    assert table.lost == 9
    monkeypatch.setattr(module, "MOST_BYTES", 1 << 20)
    table = Table()
    whole = bytes(65000)
    tracemalloc.start()
    for number in range(300):
        part = Fragment(number.to_bytes(4, "big"), 0, True)
        table.fragments.put(0, part, TCP, bytes(bytearray(whole)), len(whole))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert table.lost == 300 - (1 << 20) // 65000
    assert peak < 2 << 20
