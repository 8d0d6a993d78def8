"""Compiles rules to SQL over the tables, for DuckDB or Spark SQL.

A detection is one SELECT over the rows of its table; each row that matches is a finding. `correlations` has
the SQL of rules about several rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..records import Type
from ..tables import TABLES
from .conditions import condition_sql, used_fields
from .correlations import Source, correlation_query, referenced
from .fields import ROW, SESSION, Field
from .matching import Matcher
from .query import Query
from .rules import Correlation, Detection
from .sql_text import Dialect

_SUBJECTS = (
    "subject key bucket name stream channel service server_name user client_name anomaly originator error"
).split()
"""The columns that tell what a row is about; the first that a table has is the subject of its findings."""
_IDENTITY = frozenset(("session", "number", "ts_ns", "time"))


def compiled(
    rules: Mapping[str, Detection | Correlation], names: Iterable[str], dialect: Dialect
) -> list[Query]:
    """The queries of some of the rules, which may refer to all of them. Raises RuleError."""
    found = []
    for name in names:
        rule = rules[name]
        if isinstance(rule, Correlation):
            sources = [_source(each, rule, dialect) for each in referenced(rule, rules)]
            found.append(correlation_query(rule, sources))
        else:
            found.append(_detection_query(rule, dialect))
    return found


def reporting(rules: Mapping[str, Detection | Correlation]) -> list[str]:
    """The names of the rules that make findings of their own: a rule to which a correlation refers does not,
    unless the correlation says `generate: true`."""
    silent = {
        one.name
        for rule in rules.values()
        if isinstance(rule, Correlation) and not rule.parsed_rule.generate
        for one in referenced(rule, rules)
    }
    return [name for name in rules if name not in silent]


def _from(rule: Detection, matcher: Matcher) -> tuple[str, frozenset[str]]:
    """The rows of a rule's table, and the tables that they come from."""
    if not matcher.joined:
        return f"FROM {rule.table} AS {ROW}", frozenset([rule.table])
    join = f"LEFT JOIN sessions AS {SESSION} ON {SESSION}.session = {ROW}.session"
    return f"FROM {rule.table} AS {ROW} {join}", frozenset([rule.table, "sessions"])


def _detection_query(rule: Detection, dialect: Dialect) -> Query:
    matcher = Matcher(rule.table, dialect)
    condition = condition_sql(rule, matcher)
    fields = _shown(rule, matcher)
    columns = [
        f"{ROW}.{TABLES[rule.table].time} AS ts_ns",
        _own(rule.table, "session", "STRING"),
        _own(rule.table, "number", "BIGINT"),
        f"{_subject(rule, matcher)} AS subject",
        "CAST(1 AS BIGINT) AS count",
        _own(rule.table, "capture", "STRING"),
        _own(rule.table, "packet", "BIGINT"),
        *[f"{field.sql} AS f{place}" for place, field in enumerate(fields, 1)],
    ]
    source, tables = _from(rule, matcher)
    sql = f"SELECT {', '.join(columns)}\n{source}\nWHERE {condition}"
    return Query(rule, sql, tables, tuple(field.name for field in fields), {})


def _own(table: str, column: str, type_: str) -> str:
    """A column that not every table has."""
    if any(each.name == column for each in TABLES[table].columns):
        return f"{ROW}.{column} AS {column}"
    return f"CAST(NULL AS {type_}) AS {column}"


def _subject(rule: Detection, matcher: Matcher) -> str:
    columns = {column.name: column.type for column in TABLES[rule.table].columns}
    name = rule.subject or next(name for name in [*_SUBJECTS, *columns] if name in columns)
    try:
        field = matcher.field(name)
    except ValueError as error:
        raise rule.error(str(error), "subject") from None
    if field.type not in (Type.TEXT, Type.INTEGER, Type.BOOLEAN):
        raise rule.error(f"{name!r} has no single value", "subject")
    return f"CAST({field.sql} AS STRING)"


def _shown(rule: Detection, matcher: Matcher) -> list[Field]:
    """The fields that a finding shows: those that the rule lists, or those that it tests."""
    found = []
    for place, name in enumerate(rule.fields or used_fields(rule)):
        try:
            field = matcher.field(name)
        except ValueError as error:
            raise rule.error(str(error), "fields", place) from None
        if field.name not in _IDENTITY:
            found.append(field)
    return found


def _source(rule: Detection, correlation: Correlation, dialect: Dialect) -> Source:
    """The rows that a detection gives to a correlation."""
    matcher = Matcher(rule.table, dialect)
    condition = condition_sql(rule, matcher)

    def field(name: str) -> Field:
        alias = _aliased(correlation, rule, name)
        found = matcher.field(alias)
        if found.type not in (Type.TEXT, Type.INTEGER, Type.BOOLEAN):
            raise ValueError(f"{alias!r} has no single value")
        return found

    own = [_own(rule.table, "session", "STRING"), _own(rule.table, "number", "BIGINT")]
    own += [_own(rule.table, "capture", "STRING"), _own(rule.table, "packet", "BIGINT")]
    time = f"{ROW}.{TABLES[rule.table].time}"
    return Source(rule, time, own, condition, field, lambda: _from(rule, matcher))


def _aliased(correlation: Correlation, rule: Detection, name: str) -> str:
    """The field of a rule's table that an alias of the correlation stands for there."""
    for alias in correlation.parsed_rule.aliases:
        if alias.alias == name:
            for reference, column in alias.mapping.items():
                if reference.reference in (rule.name, rule.id):
                    return str(column)
    return name
