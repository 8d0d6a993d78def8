"""The most recently used entries."""

from __future__ import annotations

from dissect.nats.application.recent import Recent


def test_the_entry_that_was_not_used_for_longest_is_forgotten() -> None:
    recent = Recent[str, int](2)
    for key, value in (("a", 1), ("b", 2), ("a", 3), ("c", 4)):
        recent.put(key, value)
    assert (len(recent), recent.get("a"), recent.get("b"), recent.get("c")) == (2, 3, None, 4)
    assert recent.get("a") == 3
    recent.put("d", 5)
    assert (recent.get("a"), recent.get("c"), recent.take("d"), recent.take("d")) == (
        3,
        None,
        5,
        None,
    )


def test_the_forgotten_entry_is_returned_and_a_look_is_no_use() -> None:
    recent = Recent[str, int](2)
    assert [recent.put(key, value) for key, value in (("a", 1), ("b", 2), ("a", 3))] == [None] * 3
    assert recent.peek("b") == 2 and recent.peek("z") is None
    assert recent.put("c", 4) == 2
    assert [*recent.items()] == [("a", 3), ("c", 4)] and [*recent.values()] == [3, 4]
