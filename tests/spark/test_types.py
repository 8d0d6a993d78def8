"""Spark's schema of every table is that of its Arrow batches, meanings included."""

from __future__ import annotations

from inspect import signature

import pytest

from dissect.nats.output.arrow.records import schema
from dissect.nats.schema.declaration import Type
from dissect.nats.tables import TABLES

types = pytest.importorskip("dissect.nats.spark.types", exc_type=ImportError)


@pytest.mark.parametrize("table", TABLES)
def test_spark_and_arrow_say_the_same_of_a_table(table: str) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    made = types.spark_schema(table)
    # With Spark 4.0, times are always UTC.
    zoned = "timezone" in signature(to_arrow_schema).parameters
    arrow = to_arrow_schema(made, timezone="UTC") if zoned else to_arrow_schema(made)
    assert arrow.equals(schema(table))
    comments = {field.name: field.metadata["comment"] for field in made}
    assert comments == {column.name: column.meaning for column in TABLES[table].columns}


def test_some_columns_in_the_order_given() -> None:
    made = types.spark_schema("frames", ["subject", "op"])
    assert made.fieldNames() == ["subject", "op"]
    assert [field.nullable for field in made] == [True, False]


def test_every_kind_of_column_has_its_type() -> None:
    found = {
        column.type: types.spark_schema(table)[column.name].dataType.simpleString()
        for table in TABLES
        for column in TABLES[table].columns
    }
    assert found == {
        Type.TEXT: "string",
        Type.INTEGER: "bigint",
        Type.BOOLEAN: "boolean",
        Type.TIME: "timestamp",
        Type.TEXTS: "array<string>",
        Type.COUNTS: "map<string,bigint>",
        Type.HEADERS: "map<string,array<string>>",
    }
