"""Values as Arrow holds them."""

from __future__ import annotations

from datetime import datetime, timezone

from dissect.nats.errors import MissingLibrary
from dissect.nats.output.arrow.types import array, arrow_type, pyarrow, times, wire_texts
from dissect.nats.schema.declaration import Type

from tests.support.requirements import missing

try:
    pyarrow()
except MissingLibrary as lack:
    missing("pyarrow", str(lack))


def test_numbers_beyond_64_bits_become_the_nearest() -> None:
    assert array(Type.INTEGER, [1, 1 << 70, -(1 << 70), None]).to_pylist() == [
        1,
        (1 << 63) - 1,
        -(1 << 63),
        None,
    ]


def test_half_a_surrogate_pair_is_written_out() -> None:
    assert array(Type.TEXT, ["a\ud800", None]).to_pylist() == ["a\\ud800", None]


def test_times_have_microseconds() -> None:
    made = times(array(Type.INTEGER, [1_500_000_000_000_001_999, None]))
    assert made.type == arrow_type(Type.TIME)
    moment = datetime(2017, 7, 14, 2, 40, 0, 1, tzinfo=timezone.utc)
    assert made.to_pylist() == [moment, None]


def test_wire_bytes_are_texts_as_everywhere() -> None:
    assert wire_texts([b"a", "\xfc".encode(), None]).to_pylist() == ["a", "\xfc", None]
    assert wire_texts([b"a", b"\xff", None]).to_pylist() == ["a", "\\xff", None]
    assert wire_texts([]).type == arrow_type(Type.TEXT)
