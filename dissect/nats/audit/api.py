"""The Python function: findings of captures, as objects.

from dissect.nats.audit import audit

for finding in audit("capture.pcap", rules=["my-rules/"]):
    print(finding.level, finding.rule, finding.subject)
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Mapping, Sequence
from functools import partial

from ..capture import CaptureReport
from ..capture.files import Path, Paths, capture_names
from ..options import Options, check_options
from ..schema.records import Record
from .engines.duckdb import over_records
from .findings.finding import Finding
from .findings.store import store
from .loading import loaded_records
from .run import queries_of, run, tables_of
from .sigma.rule_files import load_rules
from .sql.dialect import Dialect
from .sql.query import Query


def audit(
    paths: Paths,
    rules: Path | Collection[Path],
    options: Options | None,
    report: CaptureReport | None,
    variables: Mapping[str, Sequence[str]],
) -> Generator[Finding, None, None]:
    """See `dissect.nats.audit.audit`."""
    names = capture_names(paths)
    options = Options() if options is None else options
    check_options(options)
    if isinstance(rules, (str, bytes, os.PathLike)):
        rules = [rules]
    variables = {
        name: [values] if isinstance(values, str) else values for name, values in variables.items()
    }
    known = load_rules([os.fsdecode(path) for path in rules])
    queries = queries_of(known, Dialect.DUCKDB, variables)
    return _findings(queries, names, options, CaptureReport() if report is None else report)


def _findings(
    queries: list[Query], paths: list[str], options: Options, report: CaptureReport
) -> Generator[Finding, None, None]:
    source = partial(_source, paths, options, report)
    with over_records(tables_of(queries), source) as engine, store() as kept:
        run(queries, engine, kept)
        yield from kept.findings()


def _source(
    paths: list[str], options: Options, report: CaptureReport, tables: Collection[str]
) -> Generator[Record, None, None]:
    return loaded_records(paths, tables, options, report)
