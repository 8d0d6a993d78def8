"""Runs the queries of rules with Spark SQL, over Parquet tables of any size.

The cluster finds and counts the rows that rules match. The findings come to this process rule by rule, in
partitions of bounded size, however many there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING

from ...capture.time_range import TimeRange
from ...errors import QueryError
from ...output.folders import ALWAYS, columns_lacking, condition
from ...spark.options.settings import absolute
from ...spark.submit import session
from ...tables import TABLES
from ..copies import COPY_OF, SESSIONS, counted_once
from ..sql.dialect import Dialect
from ..sql.query import Answers, Query, Row
from .shared_reads import SharedReads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Spark:
    """Queries over the tables in a folder; `tables` are the names of those that exist. For `lacking`
    and `copies` see `DuckDb`."""

    dialect = Dialect.SPARK
    list_size = "size"

    def __init__(
        self,
        spark: SparkSession,
        tables: Collection[str],
        lacking: Mapping[str, Sequence[str]] = MappingProxyType({}),
        copies: int = 0,
    ) -> None:
        self._spark = spark
        self.tables = frozenset(tables)
        self.lacking = lacking
        self.copies = copies

    def answers(self, queries: Sequence[Query]) -> Answers:
        """Yields each query with its rows. Sources that several queries read are read once: the rows that any
        of them matches are stored on Spark's disks. Raises SparkError."""
        from pyspark import StorageLevel

        shared = SharedReads(queries)
        with ExitStack() as stack:
            for name, sql in shared.views():
                rows = self._spark.sql(sql).persist(StorageLevel.DISK_ONLY)
                stack.callback(rows.unpersist)
                rows.createOrReplaceTempView(name)
                stack.callback(self._spark.catalog.dropTempView, name)
            for query in queries:
                yield query, self.rows(query.sql_with(shared.clauses))

    def rows(self, sql: str) -> Iterator[Row]:
        """The rows of a query. Raises SparkError."""
        # Because of REBALANCE, Spark writes the rows to its disks in partitions of about 64 MB
        # (spark.sql.adaptive.advisoryPartitionSizeInBytes; few rows fit into one), and the partitions are
        # fetched one by one. If they were collected at once, a million findings would have to fit into
        # the memory of Spark's driver.
        rows = self._spark.sql(f"SELECT /*+ REBALANCE */ * FROM (\n{sql}\n) AS q")
        yield from rows.toLocalIterator()

    def named(self, sql: str) -> list[dict[str, object]]:
        """The rows of a query that has few, by column. Raises SparkError."""
        return [row.asDict() for row in self._spark.sql(sql).collect()]


@contextmanager
def on_spark(
    tables: Collection[str],
    root: str,
    master: str | None,
    conf: Mapping[str, str],
    between: TimeRange = ALWAYS,
) -> Iterator[Spark]:
    """The engine over Parquet files, as `nats-dissect spark` writes them. Uses this program's SparkSession,
    or starts one. Raises DissectError, also for Spark's errors that leave the block."""
    with session(master, conf) as spark, over_views(spark, tables, root, between) as engine:
        yield engine


@contextmanager
def over_views(
    spark: SparkSession, tables: Collection[str], root: str, between: TimeRange = ALWAYS
) -> Iterator[Spark]:
    """The engine over the tables in a folder. During the block, they are temporary views of the session."""
    there: dict[str, list[str]] = {}
    with ExitStack() as views:
        for table in sorted(tables):
            found = _view(spark, table, absolute(root), between)
            if found is not None:
                there[table] = found
                views.callback(spark.catalog.dropTempView, table)
        lacking = {table: columns for table, columns in there.items() if columns}
        yield Spark(spark, there, lacking, _left_out(spark, there))


def _left_out(spark: SparkSession, tables: Collection[str]) -> int:
    """Hides the rows of sessions that show a connection again; returns the number of these."""
    wanted = counted_once(tables)
    if not wanted:
        return 0
    copies = spark.table(SESSIONS).where(f"{COPY_OF} IS NOT NULL").select("session")
    count = copies.count()
    for table, rows in {table: spark.table(table) for table in wanted if count}.items():
        rows.join(copies, "session", "left_anti").createOrReplaceTempView(table)
    return count


def _view(spark: SparkSession, table: str, root: str, between: TimeRange) -> list[str] | None:
    """Creates a view over the files of a table, and returns the columns that these do not have; None if there
    is neither a folder nor a file of it. Raises QueryError if the files are of another table."""
    from ...spark.table_reader import read_table

    assert table in TABLES
    found = read_table(spark, root, table)
    if found is None:
        return None
    try:
        lacking = columns_lacking(table, found.names)
    except ValueError as error:
        raise QueryError(root, f"{root}/{table} is not the table {table!r}: {error}") from None
    found.rows.where(condition(table, between)).createOrReplaceTempView(table)
    return lacking
