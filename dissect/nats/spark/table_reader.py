"""Parquet tables, as `nats-dissect spark` writes them, as DataFrames.

Spark's own reader reads them, if Spark has the file system of a URI. PySpark has none for S3, where jobs
write without it, through pyarrow; then tasks read with pyarrow, too: all columns, and all rows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from ..errors import CaptureError, MissingLibrary
from ..output.arrow.records import schema
from ..output.arrow.types import pyarrow
from ..output.table_folder import RemoteTables, local_rule
from ..storage import elsewhere, is_uri
from .launch.worker_storage import share_storage
from .tasks.arrow_tasks import Batches
from .types import spark_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_ROWS = 4096


class FoundTable(NamedTuple):
    """The rows of a table with all of its columns, and the names of those that any of its files has."""

    rows: DataFrame
    names: set[str]


def read_table(spark: SparkSession, root: str, table: str) -> FoundTable | None:
    """A table in a folder; None if there is neither a folder nor a file of it. Raises DissectError, and
    Spark's errors."""
    if not is_uri(root):
        return _by_spark(spark, root, table, _local_files(root, table))
    known = _for_hadoop(spark, root)
    share_storage(spark)
    try:
        files = RemoteTables(root).files(table)
    except (CaptureError, MissingLibrary):
        if known is None:
            raise
        return _by_spark(spark, known, table)  # hdfs:// without Hadoop's library for pyarrow
    if files is None:
        return None
    if known is not None:
        return _by_spark(spark, known, table, files)
    uris = [f"{root.rstrip('/')}/{name}" for name in files]
    tasks = max(1, min(len(uris), 4 * spark.sparkContext.defaultParallelism))
    numbers = spark.range(0, len(uris), 1, tasks)
    rows = numbers.mapInArrow(partial(_rows, table, uris), spark_schema(table))
    names = set(chain.from_iterable(map(_names, uris[:1] + uris[-1:])))  # the oldest and the newest
    return FoundTable(rows, names or {*rows.columns})


def _local_files(root: str, table: str) -> list[str] | None:
    """The files of a table in a folder of this machine, if others in it are not data; None for all."""
    is_data = local_rule(root)
    found = [
        os.path.relpath(os.path.join(folder, name), root)
        for folder, _, names in os.walk(f"{root}/{table}")
        for name in names
        if name.endswith(".parquet")
    ]
    data = [name for name in found if is_data(name)]
    return None if data == found else data


def _by_spark(
    spark: SparkSession, root: str, table: str, files: Sequence[str] | None = None
) -> FoundTable | None:
    """A table read by Spark's own reader: these files of it, or all."""
    from pyspark.errors import AnalysisException

    if files is not None:
        if not files:
            rows = spark.createDataFrame([], spark_schema(table))
            return FoundTable(rows, {*rows.columns})
        return _read(spark, table, *(f"{root}/{name}" for name in files))
    for path in (f"{root}/{table}", f"{root}/{table}.parquet"):
        try:
            return _read(spark, table, path)
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
    return None


def _read(spark: SparkSession, table: str, *paths: str) -> FoundTable:
    from pyspark.errors import AnalysisException

    rows = spark.read.schema(spark_schema(table)).parquet(*paths)
    try:
        own = spark.read.option("mergeSchema", "true").parquet(*paths)
    except AnalysisException as error:  # the table is empty
        if error.getCondition() != "UNABLE_TO_INFER_SCHEMA":
            raise
        return FoundTable(rows, {*rows.columns})
    return FoundTable(rows, {*own.columns} - {"date"})  # the name of the folders


def _for_hadoop(spark: SparkSession, root: str) -> str | None:
    """The URI with a scheme that Spark's Hadoop knows; None if it knows none."""
    from py4j.protocol import Py4JJavaError

    scheme, _, rest = root.partition(":")
    context = spark.sparkContext
    assert context._jvm
    classes = context._jvm.org.apache.hadoop.fs.FileSystem
    for name in (scheme, "s3a") if scheme == "s3" else (scheme,):
        try:
            classes.getFileSystemClass(name, context._jsc.hadoopConfiguration())
        except Py4JJavaError:
            continue
        return f"{name}:{rest}".rstrip("/")
    return None


def _names(uri: str) -> list[str]:
    """The columns of a file."""
    system, path = elsewhere(uri)
    with system.open_input_file(path) as source:
        names: list[str] = import_module("pyarrow.parquet").read_schema(source).names
    return names


def _rows(table: str, uris: Sequence[str], batches: Batches) -> Batches:
    """The rows of the files with these numbers. Columns that a file lacks have no values."""
    for numbers in batches:
        for number in numbers.column(0).to_pylist():
            system, path = elsewhere(uris[number])
            with system.open_input_file(path) as source:
                parquet = import_module("pyarrow.parquet").ParquetFile(source)
                for rows in parquet.iter_batches(_ROWS):
                    yield _declared(table, rows)


def _declared(table: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    declared = schema(table)
    columns = [
        (
            rows.column(field.name).cast(field.type)
            if field.name in rows.schema.names
            else pyarrow().nulls(len(rows), field.type)
        )
        for field in declared
    ]
    return pyarrow().RecordBatch.from_arrays(columns, schema=declared)
