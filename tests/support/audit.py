"""Rules and rows of tests, and the findings that they make."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from importlib import metadata
from itertools import count
from typing import TYPE_CHECKING

from dissect.nats.audit.engines.duckdb import DuckDb
from dissect.nats.audit.findings.finding import Finding, findings_of
from dissect.nats.audit.findings.store import Store
from dissect.nats.audit.run import queries_of, run, tables_of
from dissect.nats.audit.sigma.filters import applied
from dissect.nats.audit.sigma.rule_files import load_rules
from dissect.nats.audit.sigma.rules import Correlation, Detection, parsed
from dissect.nats.audit.sigma.yaml_lines import documents
from dissect.nats.audit.sql.compiler import compiled
from dissect.nats.audit.sql.dialect import Dialect
from dissect.nats.output.duckdb import connect, create_tables, library, load
from dissect.nats.schema.records import FrameRecord, Record, SessionRecord

if TYPE_CHECKING:
    import duckdb

# pySigma 2 needs Python 3.11. Version 1 says some faults in other words.
OLD_PYSIGMA = int(metadata.version("pysigma").partition(".")[0]) < 2

_NUMBERS = count()

SESSION = "00000000000000aa"
_HEAD = """title: A title
id: 00000000-0000-4000-8000-{number:012}
name: rule-{number}
"""


def frame(number: int = 1, **columns: object) -> FrameRecord:
    """A row of `frames`: a PUB, but for what the caller says."""
    values: dict[str, object] = {
        "session": SESSION,
        "number": number,
        "ts_ns": number * 10**9,
        "packet": number,
        "capture": "a.pcap",
        "sender": "originator",
        "kind": "client",
        "op": "PUB",
        "total_bytes": 10,
        "offset": 0,
    }
    return FrameRecord(**(values | columns))  # type: ignore[arg-type]  # columns of any type


def session(**columns: object) -> SessionRecord:
    """A row of `sessions`: that of `frame`, but for what the caller says."""
    values: dict[str, object] = {
        "session": SESSION,
        "capture": "a.pcap",
        "kind": "client",
        "transport": "tcp",
        "originator": "10.0.0.7:50000",
        "responder": "10.0.0.1:4222",
        "first_ns": 10**9,
        "last_ns": 2 * 10**9,
        "start": "handshake",
        "end": "fin",
    }
    return SessionRecord(**(values | columns))  # type: ignore[arg-type]  # columns of any type


def rule_text(body: str, number: int = 1) -> str:
    """A document with a rule: the keys that every rule has, then `body`."""
    return _HEAD.format(number=number) + body


def detection_text(detection: str, table: str = "frames", more: str = "", number: int = 1) -> str:
    """A rule with a detection, indented by two; without a condition it is `selection`."""
    source = f"logsource: {{product: nats, category: {table}}}\n"
    condition = "" if "condition:" in detection else "  condition: selection\n"
    return rule_text(f"{more}{source}detection:\n{detection.rstrip()}\n{condition}", number)


def rules(text: str) -> dict[str, Detection | Correlation]:
    """The rules in a text, by name."""
    made = [parsed(document, "test.yml") for document in documents(text)]
    return applied({rule.name: rule for rule in made})


def findings(text: str, rows: Iterable[Record]) -> list[Finding]:
    """What the rules in a text find in some rows, with DuckDB."""

    queries = queries_of(rules(text), Dialect.DUCKDB)
    with in_memory(rows, tables_of(queries) | {"frames", "sessions"}) as engine:
        with _schema() as connection:
            kept = Store(connection)
            run(queries, engine, kept)
            return list(kept.findings())


def compiled_findings(rule: str, rows: Iterable[Record]) -> list[Finding]:
    """What a rule of the package finds in some rows."""
    (query,) = compiled(load_rules(), [rule], Dialect.DUCKDB)
    with in_memory(rows, query.tables) as engine:
        return list(findings_of(query, engine.rows(query.sql)))


@contextmanager
def in_memory(rows: Iterable[Record], tables: Collection[str]) -> Iterator[DuckDb]:
    """The engine over some rows, without files, which take most of the time of a small test."""
    with _schema() as connection:
        create_tables(connection, tables)
        load(connection, rows)
        yield DuckDb(connection, tables)


@contextmanager
def _schema() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to a schema of its own. All are in one database, because to make one takes twice as long
    as what a test does with it."""
    name = f"of_test_{next(_NUMBERS)}"
    with closing(_database().cursor()) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        connection.execute(f"USE {name}")
        yield connection
        connection.execute("USE main")
        connection.execute(f"DROP SCHEMA {name} CASCADE")


@cache
def _database() -> duckdb.DuckDBPyConnection:
    return connect(library(), ":memory:", {})


def matched(detection: str, *rows: Record, table: str = "frames") -> list[int]:
    """The numbers of the frames that match a detection (`selection: {...}`, indented by two)."""
    found = findings(detection_text(f"  {detection}", table), rows)
    return [finding.number or 0 for finding in found]


def finding(**values: object) -> Finding:
    """A finding of rule `a`, with other values where a test names them."""
    known: dict[str, object] = {
        "rule": "a",
        "title": "A",
        "level": "high",
        "harm": "exposure",
        "ts_ns": 5,
        "session": "s",
        "number": 1,
        "subject": None,
        "count": 1,
        "fields": "{}",
        "capture": None,
        "packet": None,
        "follow": None,
        "false_positives": ["x"],
        "remedy": None,
    }
    return Finding(**(known | values))  # type: ignore[arg-type]  # values of any type
