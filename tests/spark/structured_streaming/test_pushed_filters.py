"""What filters of Spark leave out, and that no row is lost by it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest

from dissect.nats.options import Options
from dissect.nats.pipeline import records
from dissect.nats.tables import TABLES
from natsync.protocol import Kind

from tests.support.paths import CAPTURES
from tests.support.requirements import missing

try:
    from pyspark.sql.datasource import (
        EqualTo,
        Filter,
        GreaterThan,
        GreaterThanOrEqual,
        In,
        IsNotNull,
        LessThanOrEqual,
    )
except ImportError:
    missing("pyspark 4.1 or later", "pip install 'natsync[spark]'")

from dissect.nats.capture.time_range import TimeRange
from dissect.nats.spark.options.settings import settings_of
from dissect.nats.spark.structured_streaming import pushed_filters
from dissect.nats.spark.structured_streaming.pushed_filters import meets, time_range_of, with_kinds
from dissect.nats.spark.structured_streaming.source import FilteringReader

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


def times_of(path: str | Path) -> list[int]:
    """The times of the frames of a capture."""
    return [row.ts_ns for row in records([str(path)], ["frames"])]  # type: ignore[attr-defined]  # frames


def test_a_capture_meets_the_range_of_its_packets() -> None:
    path = str(CAPTURES / "core-2.15.1.pcap")
    times = times_of(path)
    assert meets(path, TimeRange(max(times)), None) and meets(
        path, TimeRange(None, max(times)), None
    )
    assert not meets(path, TimeRange(max(times) + 10**12), None)
    assert not meets(path, TimeRange(None, min(times) - 10**12), None)


def test_a_capture_is_read_until_its_times_meet_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def runs(*_: object, **__: object) -> Iterator[SimpleNamespace]:
        for first_ns in (500, 400, 600, 700):
            read.append(first_ns)
            yield SimpleNamespace(places=[(first_ns, 0), (first_ns + 9, 0)])

    monkeypatch.setattr(pushed_filters, "read_file", runs)
    for window, met, count in (
        (TimeRange(505, 506), True, 1),
        (TimeRange(None, 450), True, 2),
        (TimeRange(550, 560), True, 3),  # between packets: something may have this time
        (TimeRange(710), False, 4),
        (TimeRange(None, 400), False, 4),
    ):
        read.clear()
        assert meets("a.pcap", window, None) is met
        assert len(read) == count


def test_filters_leave_out_captures_and_rows_in_the_source(tmp_path: Path) -> None:
    def read_rows(path: str, *filters: Filter, **options: str) -> tuple[int, list[object]]:
        """How many captures the tasks read, and the kinds of the rows that they make."""
        given = {"path": path, "separate": "true", "shares": "1", **options}
        reader = FilteringReader(settings_of(given), ["kind"])
        assert reader.pushFilters([*filters]) == [*filters]  # Spark evaluates them, too
        (partition,) = reader.partitions()
        rows = [row["kind"] for some in reader.read(partition) for row in some.to_pylist()]
        return len(partition.value[2]), rows

    for name in ("core", "orders", "leafnode"):
        capture = CAPTURES / f"{name}-2.15.1.pcap"
        (tmp_path / capture.name).write_bytes(capture.read_bytes())
    folder = str(tmp_path)
    orders = times_of(CAPTURES / "orders-2.15.1.pcap")
    files, every = read_rows(folder)
    assert files == 3 and set(every) == {"client", "leafnode"}
    later = [GreaterThanOrEqual(("ts_ns",), min(orders))]
    files, some = read_rows(folder, *later)
    assert 1 <= files < 3 and len(orders) <= len(some) < len(every)
    assert read_rows(folder, *later, separate="false") == (3, every)
    files, leafnodes = read_rows(folder, EqualTo(("kind",), "leafnode"))
    assert files == 3 and leafnodes == [kind for kind in every if kind == "leafnode"] != []
