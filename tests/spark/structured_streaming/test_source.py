"""The data source: the rows of the command line, by shares of flows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dissect.nats import Options, Payload
from dissect.nats.errors import CaptureError
from dissect.nats.pipeline import records
from dissect.nats.spark import register
from dissect.nats.tables import TABLES
from natsync.protocol import Kind

from tests.support.paths import CAPTURES

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


def test_the_time_can_be_chosen(spark: SparkSession) -> None:
    made = source(spark, CORE, table="sessions", columns="time, first_ns", shares=1)
    assert made.columns == ["time", "first_ns"]
    rows = made.selectExpr("unix_micros(time) AS micros", "first_ns").collect()
    assert [row.micros for row in rows] == [row.first_ns // 1000 for row in rows] != []


def test_options_are_those_of_the_command_line(spark: SparkSession) -> None:
    made = source(spark, CORE, payload="text", redact="FALSE", port="4222=client", shares=1)
    options = Options({4222: Kind.CLIENT}, Payload.TEXT, redact=False)
    assert lines(made) == expected([CORE], "frames", options)


def test_some_columns(spark: SparkSession) -> None:
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


def test_sql(spark: SparkSession) -> None:
    register(spark)
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW captured USING `nats-capture` "
        f"OPTIONS (path '{CORE}', table 'sessions')"
    )
    assert spark.sql("SELECT count(*) AS n FROM captured").collect()[0].n == 7


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"tables": "frames"}, "nats-capture has no option tables"),
        ({"table": "frame"}, "option table: there is no 'frame'; there are frames, sessions"),
        ({"columns": "nope"}, "option columns: there is no 'nope'"),
        ({"shares": "0"}, "option shares: '0' is not a number from 1 to 10000"),
    ],
)
def test_a_wrong_option_is_named(
    spark: SparkSession, options: dict[str, str], expected: str
) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as error:
        source(spark, CORE, **options).count()
    assert expected in str(error.value)


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


def test_a_damaged_capture_gives_what_it_has(spark: SparkSession, tmp_path: Path) -> None:
    whole = Path(CORE).read_bytes()
    short = tmp_path / "core-2.15.1.pcap"
    short.write_bytes(whole[: len(whole) // 2])
    made = lines(source(spark, str(short), shares=2))
    assert made == expected([str(short)], "frames")
    assert set(made) < set(expected([CORE], "frames"))
