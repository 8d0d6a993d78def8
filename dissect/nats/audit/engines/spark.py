"""Runs the queries of rules with Spark SQL, over Parquet tables of any size.

The rows that rules match are found and counted on the cluster. The findings of one rule at a time come to
this process, in parts of bounded size, however many they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...spark.options.settings import absolute
from ...spark.submit import session
from ...tables import TABLES
from ..sql.dialect import Dialect
from ..sql.query import Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Spark:
    """Queries over tables in a folder, which has `tables`."""

    dialect = Dialect.SPARK

    def __init__(self, spark: SparkSession, tables: Collection[str]) -> None:
        self._spark = spark
        self.tables = frozenset(tables)

    def rows(self, sql: str) -> Iterator[Row]:
        """The rows of a query. Raises SparkError."""
        # Spark writes the rows to its disks in parts of about 64 MB (spark.sql.adaptive.
        # advisoryPartitionSizeInBytes), few rows in one part, and they are fetched part after part:
        # collected at once, a million findings would have to fit into the memory of Spark's driver.
        rows = self._spark.sql(f"SELECT /*+ REBALANCE */ * FROM (\n{sql}\n) AS q")
        yield from rows.toLocalIterator()


@contextmanager
def on_spark(
    tables: Collection[str], root: str, master: str | None, conf: Mapping[str, str]
) -> Iterator[Spark]:
    """The engine over Parquet files, as `nats-dissect spark` writes them. The session of this program is used
    if it has one, else one is started. Raises DissectError, also for Spark's errors that leave the block.
    """
    with session(master, conf) as spark, over_views(spark, tables, root) as engine:
        yield engine


@contextmanager
def over_views(spark: SparkSession, tables: Collection[str], root: str) -> Iterator[Spark]:
    """The engine over the tables in a folder, which are temporary views of the session meanwhile."""
    there = [table for table in sorted(tables) if _view(spark, table, f"{absolute(root)}/{table}")]
    try:
        yield Spark(spark, there)
    finally:
        for table in there:
            spark.catalog.dropTempView(table)


def _view(spark: SparkSession, table: str, path: str) -> bool:
    """Makes the files of a table a view; False if there is no such folder."""
    from pyspark.errors import AnalysisException

    from ...spark.types import spark_schema

    assert table in TABLES
    try:  # with the schema, because a table may be empty
        rows = spark.read.schema(spark_schema(table)).parquet(path)
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return False
        raise
    rows.createOrReplaceTempView(table)
    return True
