"""The columns of a table in Spark's types, with their meanings as comments. Needs the extra `spark`."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ..schema.declaration import Type
from ..tables import TABLES

_TEXTS = ArrayType(StringType(), containsNull=False)
_TYPES: dict[Type, DataType] = {
    Type.TEXT: StringType(),
    Type.INTEGER: LongType(),
    Type.BOOLEAN: BooleanType(),
    Type.TIME: TimestampType(),
    Type.TEXTS: _TEXTS,
    Type.COUNTS: MapType(StringType(), LongType(), valueContainsNull=False),
    Type.HEADERS: MapType(StringType(), _TEXTS, valueContainsNull=False),
}


def spark_schema(table: str, columns: Sequence[str] | None = None) -> StructType:
    """The Spark schema of a table, or of the listed columns in their order."""
    known = {column.name: column for column in TABLES[table].columns}
    return StructType(
        [
            StructField(
                column.name, _TYPES[column.type], column.optional, {"comment": column.meaning}
            )
            for column in map(known.__getitem__, known if columns is None else columns)
        ]
    )
