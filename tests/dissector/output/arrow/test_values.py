"""Arrow batches of any types as values for JSON."""

from __future__ import annotations

import pytest

from dissect.nats.errors import FormatError
from dissect.nats.output.arrow.values import query_rows

from tests.support.requirements import missing

try:
    import pyarrow as pa
except ImportError as lack:
    missing("pyarrow", str(lack))


def batch(values: list[object], type_: pa.DataType | None = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, type_)], names=["x"])


def test_values_that_json_has() -> None:
    rows = query_rows(batch([{"a": [1, None], "b": 1.5}, None]))
    assert rows == [({"a": [1, None], "b": 1.5},), (None,)]
    assert query_rows(batch([b"a\xff"])) == [("a\\xff",)]
    assert query_rows(batch([float("inf")])) == [("inf",)]


def test_times_are_texts() -> None:
    assert query_rows(batch([1], pa.timestamp("ns", "UTC"))) == [
        ("1970-01-01 00:00:00.000000001Z",)
    ]


@pytest.mark.parametrize(
    "interval, text",
    [
        ((0, 0, 2_117_284_000), "00:00:02.117284"),
        ((0, 0, 0), "00:00:00"),
        ((0, 0, 1), "00:00:00.000000001"),
        ((0, 0, -90 * 10**9), "-00:01:30"),
        ((14, 1, 36 * 3600 * 10**9), "1 year 2 months 1 day 36:00:00"),
        ((-14, 3, -5 * 10**9), "-1 year -2 months 3 days -00:00:05"),
        ((0, -1, 0), "-1 day"),
    ],
)
def test_intervals_are_texts_as_in_sql(interval: tuple[int, int, int], text: str) -> None:
    found = batch([pa.MonthDayNano(interval), None], pa.month_day_nano_interval())
    assert query_rows(found) == [(text,), (None,)]
    assert query_rows(batch([{"a": [pa.MonthDayNano(interval)]}])) == [({"a": [text]},)]


def test_a_value_beyond_python_names_its_column() -> None:
    far = pa.array([1 << 60], pa.int64()).cast(pa.timestamp("s"))
    nested = pa.StructArray.from_arrays([far], names=["a"])
    with pytest.raises(FormatError, match="column 'x' .* cast it to a text"):
        query_rows(pa.RecordBatch.from_arrays([nested], names=["x"]))
