"""Levels."""

from __future__ import annotations

from dissect.nats.audit.sigma.levels import Level


def test_levels_are_ordered() -> None:
    assert [
        level.name for level in sorted(Level)
    ] == "informational low medium high critical".split()
