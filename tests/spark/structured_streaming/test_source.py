"""The data source: the rows of the command line, by shares of flows."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dissect.nats import Options, Payload
from dissect.nats.errors import CaptureError, SparkError
from dissect.nats.pipeline import records
from dissect.nats.schema.records import FrameRecord
from dissect.nats.spark import read, register
from dissect.nats.spark.spark_errors import fault_of
from dissect.nats.tables import TABLES
from natsync.protocol import Kind

from tests.support.paths import CAPTURES
from tests.support.sightings import capture_of, proxied
from tests.support.spark import drop_views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

CORE = str(CAPTURES / "core-2.15.1.pcap")
APPLIED = {
    table: str(CAPTURES / f"{name}-2.15.1.pcap")
    for name, tables in (
        ("orders", ("api", "deliveries", "pulls", "streams", "consumers")),
        ("stores", ("kv", "objects")),
        ("services", ("services",)),
        ("streaming", ("streaming",)),
    )
    for table in tables
}
"""The samples for the layers above NATS."""

LOSSY = str(CAPTURES / "damaged-loss-reorder.pcap")


def source(spark: SparkSession, *paths: str, **options: object) -> DataFrame:
    register(spark)
    texts = {name: str(value) for name, value in options.items()}
    return spark.read.format("nats-capture").options(**texts).load(list(paths))


def lines(frame: DataFrame) -> list[str]:
    """The rows as values, in an order that does not depend on tasks, nor on Java's maps; `time` has a test
    of its own."""
    return sorted(map(plain, frame.drop("time").collect()))


def expected(paths: Iterable[str], table: str, options: Options = Options()) -> list[str]:
    return sorted(plain(astuple(row)) for row in records(list(paths), [table], options))


def plain(row: Iterable[object]) -> str:
    return repr([sorted(cell.items()) if isinstance(cell, dict) else cell for cell in row])


@pytest.mark.parametrize("table", TABLES)
def test_rows_are_those_of_the_command_line(spark: SparkSession, table: str) -> None:
    """And `time` is their time as a timestamp; one query says both, because a query takes long."""
    paths = [CORE, APPLIED.get(table, LOSSY)]
    made = source(spark, *paths, table=table, shares=3)
    same_time = f"unix_micros(time) <=> {TABLES[table].time} div 1000 AS same_time"
    rows = made.selectExpr("*", same_time).drop("time").collect()
    assert all(row.same_time for row in rows)
    assert sorted(plain(row[:-1]) for row in rows) == expected(paths, table) != []


def test_sessions_name_those_of_other_flows(spark: SparkSession, tmp_path: Path) -> None:
    path = str(capture_of(tmp_path / "seen.pcap", proxied()))
    made = source(spark, path, table="sessions", columns="session,same_as,copy_of", shares=2)
    first, second = made.orderBy(made.copy_of.asc_nulls_first()).collect()
    assert (first.same_as, first.copy_of) == ([second.session], None)
    assert (second.same_as, second.copy_of) == ([first.session], first.session)
    assert source(spark, path, table="sessions", columns="session", shares=2).count() == 2


def test_the_time_can_be_chosen(spark: SparkSession) -> None:
    made = source(spark, CORE, table="sessions", columns="time, first_ns", shares=1)
    assert made.columns == ["time", "first_ns"]
    rows = made.selectExpr("unix_micros(time) AS micros", "first_ns").collect()
    assert [row.micros for row in rows] == [row.first_ns // 1000 for row in rows] != []


def test_options_are_those_of_the_command_line(spark: SparkSession) -> None:
    made = source(spark, CORE, payload="text", redact="FALSE", port="4222=client", shares=1)
    options = Options({4222: Kind.CLIENT}, Payload.TEXT, redact=False)
    assert lines(made) == expected([CORE], "frames", options)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("cluster", {"kind": "route,gateway"}),
        ("core", {"from_time": "0.5", "until_time": "1.5"}),
        ("core", {"max_flows": "1", "idle_seconds": "100ms", "gap_seconds": "1ms"}),
        ("core", {"max_stream_bytes": "1k", "max_held_bytes": "1k"}),
        ("tls-keys", {"keylog": str(CAPTURES / "tls-keys-2.15.1.keylog")}),
    ],
)
def test_every_option_of_a_dissection_is_one_of_the_source(
    spark: SparkSession, name: str, options: dict[str, str]
) -> None:
    path = str(CAPTURES / f"{name}-2.15.1.pcap")
    made = lines(source(spark, path, table="sessions", shares=1, **options))
    assert made == expected([path], "sessions", Options(**options))  # type: ignore[arg-type]  # texts
    assert made != expected([path], "sessions") or "max_stream_bytes" in options
    assert made == sorted(
        plain(row) for row in read(spark, path, "sessions", **options).drop("time").collect()
    )


def test_each_capture_may_be_a_timeline_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    paths = [tmp_path / "a.pcap", tmp_path / "b.pcap"]
    for path in paths:
        path.write_bytes(Path(CORE).read_bytes())
    names = list(map(str, paths))
    made = lines(source(spark, *names, table="sessions", separate="true", shares=2))
    assert made == expected(names, "sessions", Options(separate=True))
    assert len(made) == 2 * len(expected([CORE], "sessions"))


def test_a_compressed_capture_is_read_up_to_a_limit(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.pcap.gz"
    path.write_bytes(gzip.compress(Path(CORE).read_bytes()))
    few = source(spark, str(path), max_expanded="8k", shares=1).count()
    assert 0 < few < source(spark, str(path), shares=1).count()


def test_only_the_named_columns_are_made(spark: SparkSession) -> None:
    made = source(spark, CORE, columns="subject, op", shares=2)
    assert made.columns == ["subject", "op"]
    assert made.where("op = 'PUB' and subject = 'orders.created'").count() > 0


def test_a_schema_is_not_for_users_to_say(spark: SparkSession) -> None:
    from pyspark.errors import PySparkException

    register(spark)
    with pytest.raises(
        PySparkException, match="nats-capture has a schema of its own; choose columns"
    ):
        spark.read.format("nats-capture").schema("op string, ts_ns long").load(CORE).count()


def test_a_view_of_a_capture_answers_sql(spark: SparkSession) -> None:
    register(spark)
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW captured USING `nats-capture` "
        f"OPTIONS (path '{CORE}', table 'sessions')"
    )
    assert spark.sql("SELECT count(*) AS n FROM captured").collect()[0].n == 7
    assert drop_views(spark) == ["captured"]


@pytest.mark.parametrize(
    "options, expected",
    [
        (
            {"tables": "frames"},
            "nats-capture has no option 'tables'; there are columns, from_time, ",
        ),
        ({"table": "frame"}, "option table must be frames, sessions, "),
        ({"columns": "nope"}, "option columns: frames has no column 'nope'"),
        ({"shares": "0"}, "option shares must be a whole number, 1 to 10000, not '0'"),
        ({"max_flows": "0"}, "option max_flows must be a whole number, 1 or more, not '0'"),
        ({"settle": "5"}, "spark.read has no option 'settle'; spark.readStream has it"),
        ({"limit": "3"}, "nats-capture has no option 'limit'; limit the DataFrame: .limit(N)"),
        ({"mode": "dropmalformed"}, "option mode must be PERMISSIVE or FAILFAST, not"),
    ],
)
def test_a_wrong_option_is_named(
    spark: SparkSession, options: dict[str, str], expected: str
) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as error:
        source(spark, CORE, **options).count()
    assert f"dissect.nats.errors.SparkError: {expected}" in str(error.value).splitlines()[0]
    assert "Traceback" not in str(error.value)


@pytest.mark.parametrize(
    "path, expected", [("nowhere.pcap", "no such file"), (__file__, "not a capture")]
)
def test_what_is_no_capture_is_reported_before_work_begins(
    spark: SparkSession, path: str, expected: str
) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as error:
        source(spark, path).count()
    assert CaptureError.__name__ in str(error.value) and expected in str(error.value)
    assert "Traceback" not in str(error.value)


@pytest.fixture
def short(tmp_path: Path) -> Path:
    whole = Path(CORE).read_bytes()
    path = tmp_path / "core-2.15.1.pcap"
    path.write_bytes(whole[: len(whole) // 2])
    return path


def test_a_damaged_capture_gives_what_it_has_and_the_driver_names_it(
    spark: SparkSession, short: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = lines(source(spark, str(short), shares=2))
    assert made == expected([str(short)], "frames")
    assert set(made) < set(expected([CORE], "frames"))
    said = capsys.readouterr().err
    assert said.count(f"nats-dissect: {short}: ") == 1
    assert lines(source(spark, str(short), mode="permissive", shares=1)) == made


def test_a_damaged_capture_fails_fast(spark: SparkSession, short: Path) -> None:
    from pyspark.errors import PySparkException

    made = source(spark, str(short), mode="FAILFAST", shares=2)
    with pytest.raises(PySparkException) as error:
        made.collect()
    *_, said = str(error.value).splitlines()
    assert said.startswith(f"dissect.nats.errors.CaptureError: {short}: ")
    assert said.endswith("; mode PERMISSIVE reads what can be read")
    assert isinstance(fault_of(error.value), SparkError)
    assert str(fault_of(error.value)).startswith(f"{short}: ")
    assert source(spark, CORE, mode="FAILFAST").count() == len(expected([CORE], "frames"))


def test_filters_on_the_kind_reach_the_source(spark: SparkSession) -> None:
    capture = str(CAPTURES / "leafnode-2.15.1.pcap")
    made = source(spark, capture, shares=1).where("kind = 'leafnode' AND op = 'INFO'")
    rows = [row for row in records([capture], ["frames"]) if isinstance(row, FrameRecord)]
    infos = [row for row in rows if row.kind == "leafnode" and row.op == "INFO"]
    assert lines(made) == sorted(plain(astuple(row)) for row in infos) != []
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"


def test_filters_on_the_time_lose_no_row(spark: SparkSession) -> None:
    orders = str(CAPTURES / "orders-2.15.1.pcap")
    times = [
        row.ts_ns
        for path in (CORE, orders)
        for row in records([path], ["frames"])
        if isinstance(row, FrameRecord)
    ]
    bound = sorted(times)[len(times) // 3]
    made = source(spark, CORE, orders, shares=1, separate="true")
    assert made.where(f"ts_ns >= {bound}").count() == sum(ts_ns >= bound for ts_ns in times)
    assert made.where(f"ts_ns < {bound}").count() == sum(ts_ns < bound for ts_ns in times)
    assert made.where(f"ts_ns > {max(times)}").count() == 0
