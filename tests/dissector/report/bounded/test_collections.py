"""Collections of bounded size keep what matters, and count the rest."""

from __future__ import annotations

import random

import pytest

from dissect.nats.durations import Durations
from dissect.nats.report.bounded.collections import Keyed, Largest


def parent(key: str) -> str:
    return key[:-1] or "all"


def filled(keys: str | list[str], limit: int) -> Keyed[str, Durations]:
    found: Keyed[str, Durations] = Keyed(Durations, parent, limit)
    for key in keys:
        found[key].add(1)
    return found


def test_the_largest_rows_in_order() -> None:
    largest: Largest[str] = Largest(3)
    for number in (5, 1, 9, 9, 2):
        largest.add((number,), f"row {number}")
    assert list(largest) == ["row 9", "row 9", "row 5"]
    assert (len(largest), largest.seen, largest.dropped) == (3, 5, 2)


def test_of_equal_rows_those_that_came_first_stay() -> None:
    largest: Largest[str] = Largest(2)
    for name in "abc":
        largest.add((0,), name)
    assert list(largest) == ["a", "b"]


def test_merged_parts_are_the_whole() -> None:
    whole, one, other = Largest[int](4), Largest[int](4), Largest[int](4)
    for number in random.Random(1).sample(range(100), 40):
        whole.add((number,), number)
        (one if number % 2 else other).add((number,), number)
    one.merge(other)
    assert list(one) == list(whole)
    assert one.seen == whole.seen


def test_light_keys_are_folded_and_no_count_is_lost() -> None:
    found = filled([*"aaaa", *(f"b{letter}" for letter in "uvwxyz"), "ca", "cb"], limit=4)
    assert sum(value.count for _, value in found.items()) == 12
    assert found.items()[0][0] in ("a", "b") and len(found) <= 8
    assert found.merged > 0


def test_few_keys_are_never_folded() -> None:
    found = filled([*"aab", *"cd"], limit=4)
    assert [(key, value.count) for key, value in found.items()] == [
        ("a", 2),
        ("b", 1),
        ("c", 1),
        ("d", 1),
    ]
    found.merge(filled("bb", limit=4))
    assert found.items()[0][0] == "b" and found.merged == 0


def test_keys_are_folded_several_times_until_some_become_one() -> None:
    # No two of these keys have the same parent, or the same parent's parent.
    found = filled([3 * letter for letter in "abcdefghi"], limit=4)
    assert sum(value.count for _, value in found.items()) == 9
    assert "all" in dict(found.items()) and len(found) <= 8


def test_keys_that_cannot_be_folded_are_an_error_and_no_endless_loop() -> None:
    found: Keyed[str, Durations] = Keyed(Durations, str, 1)
    with pytest.raises(ValueError, match="cannot be merged"):
        for key in "abcd":
            found[key].add(1)
