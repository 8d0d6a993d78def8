"""Runs the queries of rules with DuckDB: over the rows of captures, or over Parquet files."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING

from ...errors import QueryError
from ...output.arrow.records import BATCH_ROWS
from ...output.duckdb import (
    ALL,
    SQL_TYPES,
    Columns,
    Loadable,
    connect,
    create,
    create_tables,
    library,
    limits_of,
    load,
)
from ...output.table_folder import RemoteTables
from ...storage import is_uri
from ...tables import TABLES
from ...temporary import temporary_folder
from ..folders import columns_lacking, table_files, table_paths
from ..sql.dialect import Dialect
from ..sql.query import Answers, Query, Row

if TYPE_CHECKING:
    import duckdb


class DuckDb:
    """Queries over the tables of a database; `tables` are their names. `lacking` are the columns of tables in
    which they have no values, because an earlier version wrote these."""

    dialect = Dialect.DUCKDB
    list_size = "len"

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        tables: Collection[str],
        lacking: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        self._connection = connection
        self.tables = frozenset(tables)
        self.lacking = lacking

    def answers(self, queries: Sequence[Query]) -> Answers:
        """Yields each query with its rows. Raises QueryError."""
        for query in queries:
            yield query, self.rows(query.sql)

    def rows(self, sql: str) -> Iterator[Row]:
        """The rows of a query. Raises QueryError."""
        try:
            found = self._execute(sql)
            while some := found.fetchmany(BATCH_ROWS):
                yield from some
        except library().Error as error:
            raise QueryError(sql, str(error)) from None

    def named(self, sql: str) -> list[dict[str, object]]:
        """The rows of a query that has few, by column. Raises QueryError."""
        try:
            found = self._execute(sql)
            names = [column[0] for column in found.description]
            return [dict(zip(names, row)) for row in found.fetchall()]
        except library().Error as error:
            raise QueryError(sql, str(error)) from None

    def _execute(self, sql: str) -> duckdb.DuckDBPyConnection:
        # `connection.sql` would plan the query twice, which takes longer than running it over a small
        # capture.
        return self._connection.execute(sql)


@contextmanager
def database(
    tables: Collection[str], columns: Columns = ALL
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database on disk with these tables, which are empty and have these columns. It is in a folder that is
    removed after the block."""
    with temporary_folder() as folder:
        path = os.path.join(folder, "tables.duckdb")
        with closing(create(library(), path, limits_of(folder))) as connection:
            create_tables(connection, sorted(tables), columns)
            yield connection


@contextmanager
def over_records(
    tables: Collection[str],
    source: Callable[[Collection[str]], Generator[Loadable, None, None]],
    columns: Columns = ALL,
) -> Iterator[DuckDb]:
    """The engine over the rows of these tables, with these columns, stored on disk."""
    with database(tables, columns) as connection:
        with closing(source(sorted(tables))) as records:
            load(connection, records, columns)
        yield DuckDb(connection, tables)


@contextmanager
def over_folder(tables: Collection[str], root: str, lenient: bool = False) -> Iterator[DuckDb]:
    """The engine over Parquet files: a folder per table, as `nats-dissect spark` writes it, or a file. Files
    of a URI are first copied to a temporary folder. If `lenient`, queries may name tables that are missing:
    these have no rows."""
    with temporary_folder() as folder:
        if is_uri(root):
            there = RemoteTables(root)
            root = os.path.join(folder, "tables")
            there.fetch(sorted(tables), root)
        # `allowed_directories` can only be set while external access is still enabled.
        limits = limits_of(folder) | {"enable_external_access": "true"}
        with closing(connect(library(), ":memory:", limits)) as connection:
            connection.execute(f"SET allowed_directories = ['{_quoted(os.path.abspath(root))}']")
            connection.execute("SET enable_external_access = false")
            with _readable(root):
                paths = table_paths(root, sorted(tables))
            views = {table: _view(connection, table, path) for table, path in paths.items()}
            lacking = {table: names for table, names in views.items() if names}
            if lenient:
                create_tables(connection, sorted({*tables} - paths.keys()))
            yield DuckDb(connection, paths, lacking)


@contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = f"{error.filename} cannot be read: {error.strerror}"
        raise QueryError(path, reason) from None


def _view(connection: duckdb.DuckDBPyConnection, table: str, path: str) -> list[str]:
    """Creates a view over the files of a table. Returns the columns that these do not have, and that have no
    values in the view. Raises QueryError if the files are of another table, or cannot be read."""
    with _readable(path):
        files = [os.path.abspath(file) for file in table_files(path)]
    if not files:
        create_tables(connection, [table])
        return []
    listed = ", ".join(f"'{_quoted(file)}'" for file in files)
    read = f"read_parquet([{listed}], hive_partitioning = false, union_by_name = true)"
    try:
        names = connection.execute(f"DESCRIBE SELECT * FROM {read}").fetchall()
        lacking = columns_lacking(table, {name for name, *_ in names})
        columns = ", ".join(
            (
                f"NULL::{SQL_TYPES[column.type]} AS {column.name}"
                if column.name in lacking
                else f"r.{column.name}"
            )
            for column in TABLES[table].columns
        )
        connection.execute(f"CREATE VIEW {table} AS SELECT {columns} FROM {read} AS r")
    except (library().Error, ValueError) as error:
        raise QueryError(path, f"{path} is not the table {table!r}: {error}") from None
    return lacking


def _quoted(path: str) -> str:
    return path.replace("'", "''")
