"""Clocks of captures: corrected where latencies below zero prove it, with the error of the correction."""

from __future__ import annotations

from itertools import permutations

import pytest

from dissect.nats.application.paths.clocks import Clocks, Correction
from dissect.nats.application.paths.evidence import Pair

from tests.dissector.application.paths.grouping import hop

MS = 1_000_000


def corrections(latencies: dict[Pair, int]) -> dict[str, Correction]:
    return Clocks.of(latencies).corrections


def test_clocks_without_negative_latencies_are_left_alone() -> None:
    assert corrections({("a", "b"): 3, ("b", "a"): 500 * MS}) == {}
    assert corrections({}) == corrections({("a", "b"): 0}) == {}


def test_both_directions_give_the_middle_and_its_error() -> None:
    shown = {("a", "b"): -299 * MS, ("b", "a"): 301 * MS}
    assert corrections(shown) == {"b": Correction(300 * MS, MS)}
    clocks = Clocks.of(shown)
    assert clocks.error("a", "b") == clocks.error("b", "a") == MS
    assert clocks.error("a", "a") == 0
    assert clocks.time(hop(5, "p", tap="b")) == 300 * MS + 5 and clocks.time(hop(5, "p")) == 5


@pytest.mark.parametrize("pair", [("a", "b"), ("b", "a")])
def test_one_direction_gives_the_smallest_correction(pair: Pair) -> None:
    sign = 1 if pair == ("a", "b") else -1
    assert corrections({pair: -4 * MS}) == {"b": Correction(sign * 4 * MS, None)}
    assert Clocks.of({pair: 4 * MS}).error("a", "b") is None


def test_clocks_that_do_not_keep_their_distance() -> None:
    """A drift is half of the error; what contradicts more than it would correct corrects nothing."""
    drifted = {("a", "b"): -303 * MS, ("b", "a"): 297 * MS}
    assert corrections(drifted) == {"b": Correction(300 * MS, 3 * MS)}
    assert corrections({("a", "b"): -5000 * MS, ("b", "a"): 1}) == {}


@pytest.mark.parametrize("names", [*permutations("abc")])
def test_chains_of_captures(names: tuple[str, ...]) -> None:
    """The true clocks are ahead by 0, 100 and -50 ms, and each way takes 2 ms at least."""
    ahead = dict(zip(names, (0, 100 * MS, -50 * MS)))
    one, two, three = names
    links = [(one, two), (two, three)]
    shown = {}
    for source, target in [*links, *(link[::-1] for link in links)]:
        shown[source, target] = 2 * MS + ahead[target] - ahead[source]
    found = corrections(shown)

    def time(tap: str) -> int:
        return ahead[tap] + (found[tap].ns if tap in found else 0)

    assert len({time(tap) for tap in names}) == 1
    assert all(each.error_ns is not None for each in found.values()) and len(found) == 2
