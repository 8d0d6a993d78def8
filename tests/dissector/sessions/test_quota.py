"""Places for what sessions remember."""

from __future__ import annotations

from dissect.nats.sessions.quota import EntryQuota


def test_what_is_taken_is_gone_until_it_is_given_back() -> None:
    quota = EntryQuota(3)
    assert quota.acquire(2)
    assert not quota.acquire(2)
    assert quota.acquire(1)
    quota.release(3)
    assert quota.left == 3
