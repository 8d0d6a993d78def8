"""Entries that a session keeps, and the payloads that its rows hold."""

from __future__ import annotations

import pytest

from dissect.nats.application import recent
from dissect.nats.application.recent import HeldPayloads, Recent


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


def test_payloads_count_until_their_rows_no_longer_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "HELD_BYTES", 10)
    held = HeldPayloads()
    held.add("123456")
    assert not held.are_too_many_with("1234") and held.are_too_many_with("12345")
    assert not held.are_too_many
    held.add("12345")
    assert held.are_too_many
    held.remove("123456")
    assert not held.are_too_many


def test_rows_that_show_no_payload_always_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "HELD_BYTES", 0)
    held = HeldPayloads()
    for payload in (None, ""):
        held.add(payload)
        assert not held.are_too_many and not held.are_too_many_with(payload)
        held.remove(payload)
    assert not held.are_too_many
