"""Packed cells become the arrays that their values would."""

from __future__ import annotations

import pytest

from dissect.nats.errors import MissingLibrary
from dissect.nats.output.arrow.packed_cells import Numbers, Texts, Values
from dissect.nats.output.arrow.types import pyarrow
from dissect.nats.schema.declaration import Type

from tests.support.requirements import missing

try:
    pyarrow()
except MissingLibrary as lack:
    missing("pyarrow", str(lack))


def test_numbers_beyond_64_bits_become_the_nearest_that_fit() -> None:
    cells = Numbers()
    cells.add([1, -2])
    cells.add((1 << 70, -1 << 70))
    assert cells.array().to_pylist() == [1, -2, (1 << 63) - 1, -1 << 63]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1000])
def test_an_empty_text_is_absent(count: int) -> None:
    cells = Texts()
    for at in range(count):
        cells.add([b"", b"t" * at])
    made = cells.array()
    made.validate(full=True)
    assert made.to_pylist() == [each for at in range(count) for each in (None, "t" * at or None)]
    assert len(cells) == sum(range(count))


def test_texts_that_are_no_utf8_stay_visible() -> None:
    cells = Texts()
    cells.add([b"gr\xc3\xbc\xc3\x9fe", b"", b"\xff\xed\xa0\x80"])
    assert cells.array().to_pylist() == ["gr\xfc\xdfe", None, "\\xff\\xed\\xa0\\x80"]


def test_two_texts_that_are_no_utf8_stay_so_although_their_bytes_would_be_together() -> None:
    cells = Texts()
    cells.add([b"\xc3", b"\xbc"])
    assert cells.array().to_pylist() == ["\\xc3", "\\xbc"]


def test_values_are_those_of_their_type() -> None:
    cells = Values(Type.TEXTS)
    assert not cells
    cells.add([None, ["a", "b"]])
    assert cells and cells.array().to_pylist() == [None, ["a", "b"]]
