"""SQL over the tables, run by DuckDB on Arrow batches: conditions on rows, and whole queries.

    Where("frames", "op = 'PUB' AND payload_bytes > 1024").matching(records)

    with answer("SELECT kind, count(*) FROM sessions GROUP BY 1", source) as (schema, batches): ...

A user's SQL can read the tables and nothing else: no files, no network, no extensions, no variables of this
program, no settings, and only one statement. Wrong SQL raises QueryError, if possible before a capture is
read.

The same text runs on Spark SQL where the two dialects agree: comparisons, LIKE, IN, BETWEEN,
`array_contains`, `map_keys`, `cardinality` of a map and `headers['X']`. They differ in this: DuckDB takes
only single quotes for texts, because double quotes are for names (`"end"` and `"offset"` need them); it
counts lists from 1, Spark from 0; `regexp_matches` is RLIKE in Spark, and `len` of a list is `size`.

Needs DuckDB and pyarrow, the extra `sql`; they are imported with the first call.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import groupby, islice
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ..errors import QueryError, imported, instead
from ..kernel.frame_block import FrameBlock
from ..schema.declaration import Type
from ..schema.records import FrameRecord, Record
from ..tables import TABLE_OF, TABLES
from ..temporary import storing, temporary_folder
from .arrow.records import (
    BATCH_BYTES,
    BATCH_ROWS,
    batch,
    batch_of_block,
    declared,
    schema,
)
from .arrow.types import pyarrow
from .query_signals import interruptible

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

# https://duckdb.org/docs/stable/operations_manual/securing_duckdb/overview
_FENCED = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
}
LOCKED = {"lock_configuration": "true"}
"""Settings after which no query can change a setting."""
_MEMORY = "768MB"  # DuckDB asks for 125 MB a thread; what does not fit goes to the temporary folder
# The limit of a whole query. DuckDB does not count results of scalar functions: `repeat('x', 1600000000)`.
_MOST_BYTES = 1_400_000_000
_THREADS = 4
# A condition gets a few thousand rows at a time and writes no temporary files.
_SMALL = {"threads": "1", "memory_limit": _MEMORY, "temp_directory": ""}

# Rows compressed at once. With the usual 122,880, a capture of 450 MB sometimes took 75 MB more.
_ROW_GROUP = 16_384

_TOO_MUCH = "it takes too much memory"

SQL_TYPES = {
    Type.TEXT: "VARCHAR",
    Type.INTEGER: "BIGINT",
    Type.BOOLEAN: "BOOLEAN",
    Type.TIME: "TIMESTAMPTZ",
    Type.TEXTS: "VARCHAR[]",
    Type.COUNTS: "MAP(VARCHAR, BIGINT)",
    Type.HEADERS: "MAP(VARCHAR, VARCHAR[])",
}
"""The types that DuckDB gives to columns with the types of `arrow_type`."""

Loadable: TypeAlias = "Record | pa.RecordBatch"
"""What `load` takes: a record of any table, a run, a block or a batch of frames."""

Columns = Mapping[str, Sequence[str]]
"""The columns of some tables. A table that is not named has all of its columns."""

ALL: Columns = MappingProxyType({})

RESERVED = {"end", "group", "offset"}
"""Names of columns that are keywords of DuckDB and need double quotes."""

_NO_TABLE = re.compile(r"Table with name (.+?) does not exist!")
_NO_COLUMN = re.compile(r'Referenced column "(.*?)" not found|does not have a column named "(.*?)"')


class Where:
    """A condition on the rows of one table. Raises QueryError if the text is not a condition."""

    def __init__(self, table: str, condition: str) -> None:
        duck = library()
        self._table = table
        self._condition = condition
        # On separate lines, so that a comment in the condition does not end the query.
        self._query = f"SELECT (\n{condition}\n) FROM {table}"
        self._columns = _columns_named(table, condition)
        self._connection = connect(duck, ":memory:", _SMALL | LOCKED)
        try:
            with self._explained():
                self._check()
        except QueryError:
            self.close()
            raise

    def matching(self, records: Sequence[Record]) -> list[Record]:
        """The records for which the condition is true, in their order."""
        if not records:
            return []
        with self._explained():
            self._connection.register(self._table, batch(self._table, records, self._columns))
            answers = self._connection.execute(self._query).fetchall()
        return [record for record, (answer,) in zip(records, answers) if answer]

    def close(self) -> None:
        """Closes the database."""
        self._connection.close()

    def _check(self) -> None:
        connection, condition = self._connection, _text(self._condition)
        if not condition.strip():
            raise QueryError(condition, "an empty text is not a condition")
        one = f"SELECT {condition}"  # a text that closes the brackets early is not a condition
        if len(connection.extract_statements(one)) != 1:
            raise QueryError(condition, "this is not one condition")
        if connection.get_table_names(f"SELECT 1 WHERE (\n{condition}\n)"):
            raise QueryError(condition, "a condition on rows cannot look into tables")
        connection.register(self._table, _nothing(self._table))
        # DuckDB itself refuses aggregates and window functions there.
        connection.execute(f"SELECT 1 FROM {self._table} WHERE (\n{condition}\n)")
        ((_, kind, *_),) = connection.execute(f"DESCRIBE {self._query}").fetchall()
        if kind != "BOOLEAN":
            raise QueryError(
                condition, f"this is not a condition: it gives {kind}, not true or false"
            )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            with bounded():
                yield
        except MemoryError:
            raise QueryError(self._condition, _TOO_MUCH) from None
        except library().Error as error:
            raise _query_error(self._condition, error, [self._table]) from None


class Answer(NamedTuple):
    """The columns of a result, and its rows in batches."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


@contextmanager
def answer(
    query: str,
    source: Callable[[Collection[str]], Generator[Loadable, None, None]],
    order: Callable[[Sequence[str]], tuple[str, bool]] | None = None,
) -> Iterator[Answer]:
    """Runs a query over the tables. `source` is called with the tables that the query names, and returns
    their records; it is also called with no table, to report captures that cannot be read. `order` gets the
    columns of the result, and returns the column to sort by and whether to sort descending.

    The tables are stored in a database in a temporary folder, which is removed after the block in any case.
    """
    duck = library()
    with temporary_folder() as folder, explained(query):
        path = os.path.join(folder, "tables.duckdb")
        limits = limits_of(folder)
        with closing(create(duck, path, limits)) as connection:
            create_tables(connection, TABLES)
            named, query = checked(connection, query, order)
            with closing(source(named)) as records:
                load(connection, records)
        with closing(connect(duck, path, limits | LOCKED, read_only=True)) as connection:
            with answered(connection, query) as found:
                yield found


def checked(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    order: Callable[[Sequence[str]], tuple[str, bool]] | None,
) -> tuple[list[str], str]:
    """The tables that a query names, and the query in the order that `order` chooses. Raises QueryError, and
    DuckDB's errors."""
    duck = library()
    with bounded():  # constant expressions are evaluated here
        named = _tables_named(duck, connection, query)
        if order:
            first, descending = order(connection.sql(query).columns)
            query = _sorted(duck, query, first, descending)
    return named, query


@contextmanager
def answered(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[Answer]:
    """Runs a query."""
    with bounded(), interruptible(connection):
        reader = pyarrow().RecordBatchReader.from_stream(connection.sql(query))
        yield Answer(reader.schema, _batches(query, reader))


@contextmanager
def explained(query: str) -> Iterator[None]:
    """A block whose errors of DuckDB become QueryError."""
    try:
        yield
    except MemoryError:
        raise QueryError(query, _TOO_MUCH) from None
    except library().Error as error:
        raise _query_error(query, error, sorted(_words(query) & TABLES.keys())) from None


def limits_of(folder: str) -> dict[str, str]:
    """Settings for a database whose temporary files are in `folder`: memory and threads."""
    return {
        "memory_limit": _MEMORY,
        "threads": str(min(_THREADS, os.cpu_count() or 1)),
        "temp_directory": os.path.join(folder, "spilled"),
    }


def create_tables(
    connection: duckdb.DuckDBPyConnection, tables: Iterable[str], columns: Columns = ALL
) -> None:
    """Creates empty tables with these columns."""
    # One transaction, because each commit waits for the disk. One text, because that takes a quarter of the
    # time of copying each table's Arrow schema: 9 ms instead of 39 for all tables.
    with storing_tables():
        connection.begin()
        connection.execute("".join(_creation(table, columns.get(table)) for table in tables))
        connection.commit()


@contextmanager
def storing_tables() -> Iterator[None]:
    """A block that writes a database. Raises StoreError, or QueryError if that takes too much memory."""
    duck = library()
    try:
        with storing((duck.IOException, duck.TransactionException, duck.FatalException)):
            yield
    except duck.OutOfMemoryException as error:
        raise _query_error("", error, []) from None


def _creation(table: str, names: Sequence[str] | None) -> str:
    columns = (f'"{column.name}" {SQL_TYPES[column.type]}' for column in declared(table, names))
    return f"CREATE TABLE {table} ({', '.join(columns)});"


@contextmanager
def bounded() -> Iterator[None]:
    """Limits the memory of the process to `_MOST_BYTES` more than now, during the block. Only on Linux, where
    the system reports the memory of the process."""
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            taken = int(file.read().split()[5]) * resource.getpagesize()
    except (ImportError, OSError):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = taken + _MOST_BYTES
    if min((limit for limit in (soft, hard) if limit >= 0), default=most) >= most:
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _batches(query: str, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    try:
        yield from reader
    except (pyarrow().ArrowException, OSError) as error:  # DuckDB's errors, as pyarrow raises them
        raise _query_error(query, error, []) from None


def library() -> ModuleType:
    """The module duckdb. Raises MissingLibrary if it is not installed."""
    return imported("duckdb", "sql")


def connect(
    duck: ModuleType, path: str, limits: dict[str, str], read_only: bool = False
) -> duckdb.DuckDBPyConnection:
    """A connection with these settings that can access nothing but the database."""
    connection: duckdb.DuckDBPyConnection = duck.connect(
        path, read_only=read_only, config=_FENCED | limits
    )
    return connection


def create(duck: ModuleType, path: str, limits: dict[str, str]) -> duckdb.DuckDBPyConnection:
    """A connection with these settings to a new database at `path`, which can access nothing else."""
    # Only ATTACH takes the size of row groups, and it needs access to files.
    config = _FENCED | limits | {"enable_external_access": "true"}
    place = path.replace("'", "''")
    with storing_tables():
        connection: duckdb.DuckDBPyConnection = duck.connect(":memory:", config=config)
        connection.execute(f"ATTACH '{place}' AS stored (ROW_GROUP_SIZE {_ROW_GROUP})")
        connection.execute("USE stored")
        connection.execute("SET enable_external_access = false")
    return connection


def _text(query: str) -> str:
    """Returns the query. Raises QueryError for a text that DuckDB cannot read."""
    if "\0" in query or not query.isascii() and query.encode("utf-8", "replace").decode() != query:
        raise QueryError(query, "this is not text in UTF-8")
    return query


def _nothing(table: str) -> pa.Table:
    return schema(table).empty_table()


def _tables_named(duck: ModuleType, connection: duckdb.DuckDBPyConnection, query: str) -> list[str]:
    """The tables that a query reads. Raises QueryError if it is not exactly one query."""
    statements = connection.extract_statements(_text(query))
    if len(statements) != 1:
        raise QueryError(query, f"one query is wanted, not {len(statements)}")
    if statements[0].type.name != "SELECT":
        raise QueryError(
            query, "only queries are answered: SELECT, WITH, FROM, DESCRIBE, SUMMARIZE"
        )
    connection.execute(f"EXPLAIN {query}")
    try:
        named = {name.lower() for name in connection.get_table_names(query)}
    except duck.Error:  # it does not know the columns of the tables, and fails at USING
        named = _words(query)
    return sorted(named & TABLES.keys())


def load(
    connection: duckdb.DuckDBPyConnection, records: Iterable[Loadable], columns: Columns = ALL
) -> None:
    """Stores records of several tables in the database, in batches of limited size. Frames may also come as
    blocks, or as record batches with these columns."""
    waiting: dict[type[Record], list[Record]] = {row: [] for row in TABLE_OF}
    waiting_bytes = 0

    def insert(row: type[Record]) -> None:
        nonlocal waiting_bytes
        rows, waiting[row] = waiting[row], []
        table = TABLE_OF[row].name
        store(table, batch(table, rows, columns.get(table)))
        if table == "frames":
            waiting_bytes = 0

    def store(table: str, rows: pa.RecordBatch) -> None:
        connection.register("rows", rows)
        with storing_tables():
            connection.execute(f"INSERT INTO {table} FROM rows")
        connection.unregister("rows")

    for row, group in groupby(records, type):
        if row not in waiting:
            if waiting[FrameRecord]:
                insert(FrameRecord)
            for frames in group:
                if isinstance(frames, FrameBlock):
                    store("frames", batch_of_block(frames, columns.get("frames")))
                else:
                    store("frames", frames)
            continue
        if row is not FrameRecord:
            while some := list(islice(group, BATCH_ROWS - len(waiting[row]))):
                waiting[row] += some
                if len(waiting[row]) >= BATCH_ROWS:
                    insert(row)
            continue
        for record in group:
            waiting[row].append(record)
            waiting_bytes += _held_bytes(record)
            if len(waiting[row]) >= BATCH_ROWS or waiting_bytes >= BATCH_BYTES:
                insert(row)
    for row, left in waiting.items():
        if left:
            insert(row)


def _held_bytes(record: Record) -> int:
    """The size of the headers and payloads that the row of a frame holds in memory."""
    assert isinstance(record, FrameRecord)
    return (record.header_bytes or 0) + len(record.payload or "")


def columns_named(table: str, texts: Iterable[str]) -> list[str]:
    """The columns of a table that some SQL may use, judged by its words (an unnecessary column only costs
    time); at least one."""
    words = set().union(*map(_words, texts))
    names = [column.name for column in TABLES[table].columns]
    return [name for name in names if name in words] or names[:1]


def _sorted(duck: ModuleType, query: str, column: str, descending: bool) -> str:
    """A query for the same rows, sorted by a column, absent values last."""
    text = query.encode()  # tokens have byte offsets
    ends = [at for at, _ in duck.tokenize(query) if text[at : at + 1] == b";"]
    whole = text[: ends[0] if ends else None].decode()
    name = column.replace('"', '""')
    way = "DESC" if descending else "ASC"
    return f'SELECT * FROM (\n{whole}\n) ORDER BY "{name}" {way} NULLS LAST'


def _columns_named(table: str, condition: str) -> list[str] | None:
    """The columns that a condition may use; None means all columns."""
    words = _words(condition)
    if table in words or "columns" in words:  # the whole row, or columns chosen by a pattern
        return None
    return columns_named(table, [condition])


def _words(text: str) -> set[str]:
    return {word.lower() for word in re.findall(r"\w+", text)}


def _query_error(query: str, error: Exception, tables: Sequence[str]) -> QueryError:
    """DuckDB's error on one line; for an unknown column, with the columns that exist."""
    reason = str(error).partition("\n\nLINE ")[0].partition("\n\nPossible solutions")[0]
    unknown = _NO_COLUMN.search(reason)
    if no_table := _NO_TABLE.search(reason):
        reason = f"there is no table {no_table[1]!r}; the tables are {', '.join(TABLES)}"
    elif unknown:
        name = unknown[1] or unknown[2]
        reason = f"there is no column {name!r}"
        if re.search(rf'"{re.escape(name)}"|=\s*{re.escape(name)}\b', query):
            reason += f" (a text is written in single quotes: '{name}')"
        known = {table: [column.name for column in TABLES[table].columns] for table in tables}
        reason += instead(name, **known)
    elif reason.startswith("Parser Error"):
        for name in sorted(RESERVED & _words(query)):
            reason += f'; the column is written "{name}", in double quotes'
    return QueryError(query, reason)
