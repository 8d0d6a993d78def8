"""SQL over the Parquet files in a folder of tables, run by DuckDB: each table is a view over its files.

A query can read these files and nothing else. Files that lack a column have no values in it, as those that
an earlier version has written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ..capture.time_range import TimeRange
from ..errors import QueryError
from ..storage import is_uri
from ..tables import TABLES
from ..temporary import temporary_folder
from .duckdb import (
    LOCKED,
    SQL_TYPES,
    Answer,
    answered,
    checked,
    connect,
    create_tables,
    explained,
    library,
    limits_of,
)
from .folders import (
    ALWAYS,
    columns_lacking,
    condition,
    lacking_text,
    may_be_in,
    table_files,
    table_paths,
)
from .sink import say
from .table_folder import RemoteTables

if TYPE_CHECKING:
    import duckdb


@contextmanager
def views(
    tables: Collection[str], root: str, between: TimeRange = ALWAYS
) -> Iterator[tuple[duckdb.DuckDBPyConnection, dict[str, list[str]]]]:
    """A connection with a view for each of these tables that is there, and the columns that each of these
    lacks. Files of a URI are first copied to a temporary folder. Raises QueryError for files that cannot be
    read."""
    with temporary_folder() as folder:
        if is_uri(root):
            there = RemoteTables(root)
            root = os.path.join(folder, "tables")
            there.fetch(sorted(tables), root, partial(may_be_in, between=between))
        files = _files(tables, root, between)
        # `allowed_paths` can only be set while external access is still enabled.
        limits = limits_of(folder) | {"enable_external_access": "true"}
        with closing(connect(library(), ":memory:", limits)) as connection:
            paths = [path for some in files.values() for path in some]
            if paths:
                connection.execute(f"SET allowed_paths = [{_listed(paths)}]")
            connection.execute("SET enable_external_access = false")
            yield connection, {
                table: _view(connection, table, os.path.join(root, table), some, between)
                for table, some in files.items()
            }


@contextmanager
def answer_of_folder(
    query: str,
    root: str,
    between: TimeRange = ALWAYS,
    order: Callable[[Sequence[str]], tuple[str, bool]] | None = None,
) -> Iterator[Answer]:
    """Runs a query of a user over the tables in a folder, as `duckdb.answer` does over captures. Tables that
    are missing have no rows, and stderr names those that the query reads."""
    with explained(query), views(TABLES, root, between) as (connection, lacking):
        create_tables(connection, sorted(TABLES.keys() - lacking.keys()))
        for name, value in LOCKED.items():
            connection.execute(f"SET {name} = {value}")
        named, query = checked(connection, query, order)
        if some := {table: lacking[table] for table in named if lacking.get(table)}:
            say(lacking_text(root, some))
        if missing := sorted({*named} - lacking.keys()):
            say(f"{root}: has no table {', '.join(missing)}, so the query finds no rows of it")
        with answered(connection, query) as answer:
            yield answer


def _files(tables: Collection[str], root: str, between: TimeRange) -> dict[str, list[str]]:
    """The files of the tables that are there."""
    try:
        return {
            table: [os.path.abspath(file) for file in table_files(path, between)]
            for table, path in table_paths(root, sorted(tables)).items()
        }
    except OSError as error:
        reason = f"{error.filename} cannot be read: {error.strerror}"
        raise QueryError(root, reason) from None


def _view(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    path: str,
    files: Sequence[str],
    between: TimeRange,
) -> list[str]:
    """Creates a view over the files of a table. Returns the columns that these do not have, and that have no
    values in the view. Raises QueryError if the files are of another table, or cannot be read."""
    if not files:
        create_tables(connection, [table])
        return []
    read = f"read_parquet([{_listed(files)}], hive_partitioning = false, union_by_name = true)"
    try:
        names = connection.execute(f"DESCRIBE FROM {read}").fetchall()
        lacking = columns_lacking(table, {name for name, *_ in names})
        columns = ", ".join(
            (
                f'NULL::{SQL_TYPES[column.type]} AS "{column.name}"'
                if column.name in lacking
                else f'r."{column.name}"'
            )
            for column in TABLES[table].columns
        )
        rows = f"SELECT {columns} FROM {read} AS r WHERE {condition(table, between)}"
        connection.execute(f"CREATE VIEW {table} AS {rows}")
    except (library().Error, ValueError) as error:
        raise QueryError(path, f"{path} is not the table {table!r}: {error}") from None
    return lacking


def _listed(paths: Sequence[str]) -> str:
    quoted = (path.replace("'", "''") for path in paths)
    return ", ".join(f"'{path}'" for path in quoted)
