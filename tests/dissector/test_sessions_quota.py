"""Places for what sessions remember."""

from __future__ import annotations

from dissect.nats.sessions.quota import Budget


def test_what_is_taken_is_gone_until_it_is_given_back() -> None:
    budget = Budget(3)
    assert budget.take(2)
    assert not budget.take(2)
    assert budget.take(1)
    budget.give(3)
    assert budget.left == 3
