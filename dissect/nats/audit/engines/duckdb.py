"""Runs the queries of rules with DuckDB: over the rows of captures, or over Parquet files."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING

from ...capture.time_range import TimeRange
from ...errors import QueryError
from ...output.arrow.records import BATCH_ROWS
from ...output.duckdb import (
    ALL,
    Columns,
    Loadable,
    create,
    create_tables,
    library,
    limits_of,
    load,
)
from ...output.folders import ALWAYS
from ...output.table_views import views
from ...temporary import temporary_folder
from ..copies import COPY_OF, SESSIONS, counted_once
from ..sql.dialect import Dialect
from ..sql.query import Answers, Query, Row

if TYPE_CHECKING:
    import duckdb


class DuckDb:
    """Queries over the tables of a database; `tables` are their names. `lacking` are the columns of tables in
    which they have no values, because an earlier version wrote these. `copies` is the number of sessions
    whose rows are left out, see `audit.copies`."""

    dialect = Dialect.DUCKDB
    list_size = "len"

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        tables: Collection[str],
        lacking: Mapping[str, Sequence[str]] = MappingProxyType({}),
        copies: int = 0,
    ) -> None:
        self._connection = connection
        self.tables = frozenset(tables)
        self.lacking = lacking
        self.copies = copies

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
        is_known = COPY_OF in columns.get(SESSIONS, [COPY_OF])
        yield DuckDb(connection, tables, copies=_left_out(connection, tables) if is_known else 0)


@contextmanager
def over_folder(
    tables: Collection[str], root: str, lenient: bool = False, between: TimeRange = ALWAYS
) -> Iterator[DuckDb]:
    """The engine over the Parquet files in a folder, with the rows in a range of time. If `lenient`, queries
    may name tables that are missing: these have no rows."""
    with views(tables, root, between) as (connection, lacking):
        if lenient:
            create_tables(connection, sorted({*tables} - lacking.keys()))
        some = {table: names for table, names in lacking.items() if names}
        yield DuckDb(connection, lacking, some, _left_out(connection, lacking))


def _left_out(connection: duckdb.DuckDBPyConnection, tables: Collection[str]) -> int:
    """Hides the rows of sessions that show a connection again; returns the number of these."""
    wanted = counted_once(tables)
    if not wanted:
        return 0
    sql = f"SELECT session FROM {SESSIONS} WHERE {COPY_OF} IS NOT NULL"
    connection.execute(f"CREATE TEMP TABLE copies AS {sql}")
    ((count, name),) = connection.execute(
        "SELECT count(*), current_database() FROM copies"
    ).fetchall()
    for table in wanted if count else ():  # views that hide those of the same name
        connection.execute(
            f'CREATE TEMP VIEW {table} AS SELECT * FROM "{name}".main.{table}'
            " WHERE session NOT IN (SELECT session FROM copies)"
        )
    return int(count)
