"""Columns of the work have places of their own."""

from __future__ import annotations

import re

from dissect.nats.kernel import state


def test_columns_of_the_work_are_all_in_its_array() -> None:
    columns = {
        name: value
        for name, value in vars(state).items()
        if re.fullmatch("[CEFKLRSUW]_[A-Z_]+", name)
    }
    for prefix in "FKR":
        own = [value for name, value in columns.items() if name[0] == prefix]
        assert sorted(own) == list(range(columns[f"{prefix}_WIDTH"] + 1))
