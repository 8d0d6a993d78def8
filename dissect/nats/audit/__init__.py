"""Audits: rules in Sigma's format over the tables, with DuckDB or on Spark, and their findings.

A rule file (`rules/GROUP/NAME.yml` for those of the package) is YAML with one rule, or several as documents:

    title: Password in clear                      required
    id: 6e1c7a5e-...                              required, a UUID
    name: password-in-clear                       the short name: `--explain`, suppressions, findings' `rule`
    level: high                                   informational, low, medium, high, critical (default medium)
    description: ...                              what it means
    references: [https://...]
    tags: [attack.t1040]
    falsepositives: [...]                         what else could look like this
    remedy: ...                                   what to do; our addition to Sigma
    logsource: {product: nats, category: TABLE}   one of our tables
    detection: {selection: {...}, condition: selection}
    fields: [user, originator]                    shown with a finding; by default the fields it tests
    subject: user                                 the field that is the finding's subject; our addition

A correlation has `correlation` instead of `logsource` and `detection`, and a filter has `filter` instead of
`detection`. `sql.fields` explains fields, `sql.matching` values, `sql.correlations` correlations, and
`sigma.filters` filters. Unsupported Sigma features are refused by name and line.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..capture import CaptureReport
    from ..capture.files import Path, Paths
    from ..options import Options
    from .findings.finding import Finding

__all__ = ["audit"]


def audit(
    paths: Paths,
    rules: Path | Collection[Path] = (),
    options: Options | None = None,
    report: CaptureReport | None = None,
    variables: Mapping[str, Sequence[str]] = MappingProxyType({}),
    **changes: object,
) -> Generator[Finding, None, None]:
    """The findings in captures, the worst first. `rules` are folders or files of rules that extend or replace
    the package's rules. `variables` are the values of placeholders: `{"known_clusters": ["east"]}`; a rule
    with a placeholder that has no value does not run. One path, or one value, needs no list. `changes` are
    single `options` by name. The captures are read completely, and `report` is updated meanwhile, before the
    first finding is returned.

    Raises RuleError for an invalid rule, MissingLibrary without the extra `audit`, TypeError for arguments of
    a wrong type, and ValueError if there are no `paths`, or if no rule has the placeholder of a variable; and
    when the first finding is asked for, CaptureError for an input that is not a capture.
    """
    from .libraries import check_libraries

    check_libraries()
    from . import api

    return api.audit(paths, rules, options, report, variables, changes)
