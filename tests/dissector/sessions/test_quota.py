"""Places for what sessions remember."""

from __future__ import annotations

from dissect.nats.sessions.quota import EntryQuota


def test_what_is_taken_is_gone_until_it_is_given_back() -> None:
    budget = EntryQuota(3)
    assert budget.acquire(2)
    assert not budget.acquire(2)
    assert budget.acquire(1)
    budget.release(3)
    assert budget.left == 3
