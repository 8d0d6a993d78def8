"""What filters of Spark leave out, and that no row is lost by it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from dissect.nats.options import Options
from dissect.nats.pipeline import records
from dissect.nats.tables import TABLES
from natsync.protocol import Kind

from tests.support.paths import CAPTURES
from tests.support.requirements import missing

try:
    from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, In, IsNotNull, LessThanOrEqual
except ImportError:
    missing("pyspark 4.1 or later", "pip install 'natsync[spark]'")

from dissect.nats.capture.time_range import TimeRange
from dissect.nats.spark.structured_streaming.pushed_filters import meets, time_range_of, with_kinds

KIND, TS, TIME = ("kind",), ("ts_ns",), ("time",)


@pytest.mark.parametrize(
    "given, filters, kinds",
    [
        (None, [], None),
        (None, [EqualTo(KIND, "route")], {Kind.ROUTE}),
        (None, [In(KIND, ("route", "gateway", "other"))], {Kind.ROUTE, Kind.GATEWAY}),
        (None, [IsNotNull(KIND), EqualTo(("op",), "route")], None),
        (None, [EqualTo(KIND, "nobody")], None),  # Spark leaves nothing of the rows
        (["route", "client"], [In(KIND, ("route", "gateway"))], {Kind.ROUTE}),
        (["client"], [EqualTo(KIND, "route")], {Kind.CLIENT}),
    ],
)
def test_a_filter_on_the_kind_is_the_option(
    given: list[str] | None, filters: list[Filter], kinds: set[Kind] | None
) -> None:
    made = with_kinds(Options(kind=given), "frames", filters)
    assert made == Options(kind=kinds)
    assert with_kinds(Options(kind=given), "flows", filters) == Options(kind=given)


def test_the_option_makes_the_rows_that_the_filter_keeps() -> None:
    tables = [
        name
        for name, table in TABLES.items()
        if any(column.name == "kind" for column in table.columns)
        and not (table.layer and table.layer.across)
    ]
    for name in ("gateway", "leafcluster", "leafnode"):
        paths = [str(CAPTURES / f"{name}-2.15.1.pcap")]
        rows = [*records(paths, tables)]
        for kind in Kind:
            kept = sorted(repr(row) for row in rows if getattr(row, "kind") == kind.value)
            made = records(paths, tables, Options(kind=kind))
            assert sorted(map(repr, made)) == kept


def test_filters_on_the_time_are_a_range() -> None:
    moment = datetime(2026, 11, 21, 3, tzinfo=timezone(timedelta(hours=1)))
    ns = int(moment.timestamp()) * 10**9
    cases: list[tuple[list[Filter], TimeRange]] = [
        ([], TimeRange()),
        ([GreaterThan(TS, 5), LessThanOrEqual(TS, 9)], TimeRange(5, 10)),
        ([EqualTo(TS, 7), GreaterThan(TS, 3)], TimeRange(7, 8)),
        ([EqualTo(TIME, moment)], TimeRange(ns, ns + 1000)),
        ([GreaterThan(TIME, moment.replace(tzinfo=None))], TimeRange()),
        ([GreaterThan(("offset",), 5)], TimeRange()),
    ]
    for filters, expected in cases:
        assert time_range_of("frames", filters) == expected
    assert time_range_of("sessions", [GreaterThan(TS, 5)]) == TimeRange()


def test_a_capture_meets_the_range_of_its_packets() -> None:
    path = str(CAPTURES / "core-2.15.1.pcap")
    times = [row.ts_ns for row in records([path], ["frames"])]  # type: ignore[attr-defined]  # frames
    assert meets(path, TimeRange(max(times)), None) and meets(
        path, TimeRange(None, max(times)), None
    )
    assert not meets(path, TimeRange(max(times) + 10**12), None)
    assert not meets(path, TimeRange(None, min(times) - 10**12), None)
