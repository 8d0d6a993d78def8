"""Columns of the work have places of their own."""

from __future__ import annotations

import re

from dissect.nats.kernel import frames


def test_columns_of_the_work_are_all_in_its_array() -> None:
    columns = {
        name: value for name, value in vars(frames).items() if re.fullmatch("[KT]_[A-Z]+", name)
    }
    for prefix in "KT":
        own = [value for name, value in columns.items() if name[0] == prefix]
        assert sorted(own) == list(range(columns[f"{prefix}_WIDTH"] + 1))
