"""Cells of text tables."""

from __future__ import annotations

from types import SimpleNamespace

from dissect.nats.application.cells import cell, count_cell
from dissect.nats.number_formats import size_text


def test_what_is_absent_is_empty() -> None:
    row = SimpleNamespace(one=7, none=None, zero=0, size=2048)
    assert [cell(name)(row) for name in ("one", "none", "zero")] == ["7", "", "0"]
    assert [count_cell(name)(row) for name in ("one", "none", "zero")] == ["7", "", ""]
    assert cell("size", size_text)(row) == count_cell("size", size_text)(row) == size_text(2048)
