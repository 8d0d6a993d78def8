"""Columns have places of their own."""

from __future__ import annotations

from dissect.nats.kernel import state


def test_no_two_columns_share_a_place() -> None:
    for prefix in "CWUEL":
        names = [name for name in vars(state) if name.startswith(f"{prefix}_")]
        values = [getattr(state, name) for name in names]
        assert len(names) > 3
        assert len(set(values)) == len(values)
