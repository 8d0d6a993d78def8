"""The Python function: findings of captures, as objects.

from dissect.nats.audit import audit

for finding in audit("capture.pcap", rules=["my-rules/"]):
    print(finding.level, finding.rule, finding.subject)
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterable
from functools import partial

from ..capture import CaptureReport
from ..options import Options
from ..schema.records import Record
from .engines.duckdb import over_records
from .findings.finding import Finding
from .findings.store import store
from .loading import loaded_records
from .run import queries_of, run, tables_of
from .sigma.rule_files import load_rules
from .sql.compiler import Variables
from .sql.dialect import Dialect

Path = str | os.PathLike[str]


def audit(
    paths: Path | Iterable[Path],
    rules: Path | Collection[Path],
    options: Options | None,
    report: CaptureReport | None,
    variables: Variables,
) -> Generator[Finding, None, None]:
    """See `dissect.nats.audit.audit`."""
    names = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    rules = [rules] if isinstance(rules, (str, os.PathLike)) else rules
    known = load_rules([os.fspath(path) for path in rules])
    variables = {
        name: [values] if isinstance(values, str) else values for name, values in variables.items()
    }
    queries = queries_of(known, Dialect.DUCKDB, variables)
    source = partial(
        _source,
        [os.fspath(name) for name in names],
        Options() if options is None else options,
        CaptureReport() if report is None else report,
    )
    with over_records(tables_of(queries), source) as engine, store() as kept:
        run(queries, engine, kept)
        yield from kept.findings()


def _source(
    paths: list[str], options: Options, report: CaptureReport, tables: Collection[str]
) -> Generator[Record, None, None]:
    return loaded_records(paths, tables, options, report)
