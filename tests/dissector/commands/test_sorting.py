"""`--sort`: orders, absent values, and runs that wait in files."""

from __future__ import annotations

import random

import pytest

from dissect.nats.commands import sorting
from dissect.nats.commands.sorting import RenderedRow, SortOrder, sort_order, sorted_rows

from tests.support.records import frame_record


def rows(*values: int | None, descending: bool = False) -> list[RenderedRow]:
    key = SortOrder("max_msgs", descending).key()
    found: list[RenderedRow] = []
    for number, value in enumerate(values):
        row = frame_record()
        row.max_msgs = value
        found.append((f"{value} {number}", 0, key(row)))
    return found


def test_absent_values_come_last_and_equal_ones_keep_their_order() -> None:
    values = (3, None, 1, 3, None, 2)
    up = [str(row[0]) for row in sorted_rows(rows(*values), descending=False)]
    assert up == ["1 2", "2 5", "3 0", "3 3", "None 1", "None 4"]
    down = [str(row[0]) for row in sorted_rows(rows(*values, descending=True), descending=True)]
    assert down == ["3 0", "3 3", "2 5", "1 2", "None 1", "None 4"]


@pytest.mark.parametrize("descending", [False, True])
def test_runs_in_files_change_nothing(descending: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = random.Random(7)
    values = [numbers.choice([None, *range(50)]) for _ in range(1000)]
    whole = list(sorted_rows(rows(*values, descending=descending), descending))
    monkeypatch.setattr(sorting, "_RUN_ROWS", 10)
    monkeypatch.setattr(sorting, "_RUNS", 4)
    assert list(sorted_rows(rows(*values, descending=descending), descending)) == whole
    monkeypatch.setattr(sorting, "_RUN_ROWS", 1000)
    monkeypatch.setattr(sorting, "_RUN_BYTES", 100)
    assert list(sorted_rows(rows(*values, descending=descending), descending)) == whole


def test_orders_by_name() -> None:
    assert sort_order("sessions", "bytes_originator:desc") == ("bytes_originator", True)
    assert sort_order("frames", " subject") == sort_order("frames", "subject:asc")
    for text in ("nope", "headers", "subject:up"):
        with pytest.raises(ValueError):
            sort_order("frames", text)
