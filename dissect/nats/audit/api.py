"""The Python function: findings of captures, as objects.

from dissect.nats.audit import audit

for finding in audit("capture.pcap", rules=["my-rules/"]):
    print(finding.level, finding.rule, finding.subject)
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Mapping, Sequence

from ..capture import CaptureReport
from ..capture.files import Path, Paths, capture_names
from ..capture.report import check_report
from ..options import Options, changed_options
from ..output.duckdb import Loadable
from .engines.duckdb import over_records
from .findings.finding import Finding
from .findings.store import store
from .loading import loaded_records
from .run import check_variables, columns_of, queries_of, run
from .sigma.rule_files import load_rules
from .sql.dialect import Dialect
from .sql.query import Query


def audit(
    paths: Paths,
    rules: Path | Collection[Path],
    options: Options | None,
    report: CaptureReport | None,
    variables: Mapping[str, Sequence[str]],
    changes: Mapping[str, object],
) -> Generator[Finding, None, None]:
    """See `dissect.nats.audit.audit`."""
    names = capture_names(paths)
    options = changed_options("audit", Options() if options is None else options, changes)
    check_report(report)
    known = load_rules(_rule_paths(rules))
    values = _values(variables)
    queries = queries_of(known, Dialect.DUCKDB, values)
    check_variables(known, values)
    return _findings(queries, names, options, CaptureReport() if report is None else report)


def _rule_paths(rules: object) -> list[str]:
    """The folders and files of rules. Raises TypeError if these are no paths."""
    paths = [rules] if isinstance(rules, (str, bytes, os.PathLike)) else rules
    if not isinstance(paths, Collection):
        raise TypeError(f"rules must be paths of rules, not {rules!r}")
    return [os.fsdecode(path) for path in paths]


def _values(variables: object) -> dict[str, list[str]]:
    """The values of placeholders as lists. Raises TypeError for other types."""
    if not isinstance(variables, Mapping):
        raise TypeError(f"variables must be a dict of values, not {variables!r}")
    found = {}
    for name, values in variables.items():
        texts = [values] if isinstance(values, str) else values
        is_list = isinstance(texts, Collection) and not isinstance(texts, bytes)
        if not is_list or not all(isinstance(text, str) for text in texts):
            raise TypeError(f"the values of variable {name!r} must be texts, not {values!r}")
        found[name] = list(texts)
    return found


def _findings(
    queries: list[Query], paths: list[str], options: Options, report: CaptureReport
) -> Generator[Finding, None, None]:
    columns = columns_of(queries)

    def source(tables: Collection[str]) -> Generator[Loadable, None, None]:
        return loaded_records(paths, tables, options, report, columns=columns)

    with over_records(columns, source, columns) as engine, store() as kept:
        run(queries, engine, kept)
        yield from kept.findings()
