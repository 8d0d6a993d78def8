"""The findings of an audit in their order: by level and harm, the worst first, then by rule, time and place.

They are stored in a database in a temporary folder, so memory does not grow with their number.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from ...output.arrow.records import BATCH_ROWS
from ...output.arrow.types import pyarrow
from ...output.duckdb import create, library, limits_of, storing_tables
from ...temporary import temporary_folder
from ..sigma.levels import Harm, Level
from .finding import FIELDS, Finding, schema

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

SORTABLE = {name: name for name in FIELDS if name != "false_positives"} | {
    "time": "ts_ns",
    "level": "severity",
    "harm": "harm_rank",
}
"""The columns by which findings can be sorted, each with the column of the store that has its order."""

_WORST_FIRST = "severity DESC, harm_rank DESC"
# Findings that agree in all of these columns are equal.
_ORDER = f"{_WORST_FIRST}, rule, ts_ns, session, number, subject, count, fields, capture, packet"


class Store:
    """Stores findings, and returns them in order. `counts` has the number of unsuppressed findings per level,
    `suppressed` the number of suppressed findings, and `by_rule` the number of all findings per rule.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self.counts: Counter[Level] = Counter()
        self.suppressed = 0
        self.by_rule: Counter[str] = Counter()
        connection.register("rows", schema().empty_table())
        with storing_tables():
            connection.execute(
                "CREATE TABLE findings AS SELECT *, 0 AS severity, 0 AS harm_rank FROM rows"
            )
        connection.unregister("rows")

    def add(self, findings: Iterable[Finding]) -> None:
        """Adds findings."""
        source = iter(findings)
        while some := list(islice(source, BATCH_ROWS)):
            for finding in some:
                self.by_rule[finding.rule] += 1
                if finding.suppressed is None:
                    self.counts[finding.severity] += 1
                else:
                    self.suppressed += 1
            self._connection.register("rows", batch(some))
            numbers = f"{_number('level', Level)}, {_number('harm', Harm)}"
            with storing_tables():
                self._connection.execute(f"INSERT INTO findings SELECT *, {numbers} FROM rows")
            self._connection.unregister("rows")

    def batches(
        self, sort: str | None = None, descending: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """All findings in order, as Arrow record batches. `sort`, a value of SORTABLE, is the first sort key;
        absent values come last."""
        names = ", ".join(schema().names)
        first = f"{sort} {'DESC' if descending else 'ASC'} NULLS LAST, " if sort else ""
        query = f"SELECT {names} FROM findings ORDER BY {first}{_ORDER}"
        reader = self._connection.sql(query).to_arrow_reader(BATCH_ROWS)
        for part in reader:
            yield part.cast(schema())

    def findings(self, sort: str | None = None, descending: bool = False) -> Iterator[Finding]:
        """All findings, in the order of `batches`."""
        for part in self.batches(sort, descending):
            columns = [part.column(name).to_pylist() for name in FIELDS]
            for values in zip(*columns):
                yield Finding(**dict(zip(FIELDS, values)))


@contextmanager
def store() -> Iterator[Store]:
    """A store that is removed after the block."""
    with temporary_folder() as folder:
        path = os.path.join(folder, "findings.duckdb")
        with closing(create(library(), path, limits_of(folder))) as connection:
            yield Store(connection)


def _number(column: str, names: type[Level] | type[Harm]) -> str:
    """The SQL of a name as its number."""
    numbers = " ".join(f"WHEN '{each.name}' THEN {each.value}" for each in names)
    return f"CASE {column} {numbers} END"


def batch(findings: list[Finding]) -> pa.RecordBatch:
    """Findings as an Arrow record batch."""
    arrow = pyarrow()
    columns = {name: [getattr(one, name) for one in findings] for name in FIELDS}
    times = [None if ts_ns is None else ts_ns // 1000 for ts_ns in columns["ts_ns"]]
    arrays = [
        arrow.array(times if column.name == "time" else columns[column.name], column.type)
        for column in schema()
    ]
    return arrow.RecordBatch.from_arrays(arrays, schema=schema())
