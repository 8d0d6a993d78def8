"""The limit on payloads that rows show while they wait."""

from __future__ import annotations

import pytest

from dissect.nats.application import held_payloads
from dissect.nats.application.held_payloads import HeldPayloads


def test_payloads_count_until_their_rows_no_longer_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_payloads, "HELD_BYTES", 10)
    held = HeldPayloads()
    held.add("123456")
    assert not held.are_too_many_with("1234") and held.are_too_many_with("12345")
    assert not held.are_too_many
    held.add("12345")
    assert held.are_too_many
    held.remove("123456")
    assert not held.are_too_many


def test_rows_that_show_no_payload_always_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_payloads, "HELD_BYTES", 0)
    held = HeldPayloads()
    for payload in (None, ""):
        held.add(payload)
        assert not held.are_too_many and not held.are_too_many_with(payload)
        held.remove(payload)
    assert not held.are_too_many
