"""Compiles rules to SQL over the tables, for DuckDB or Spark SQL.

A detection is one SELECT over the rows of its table; each row that matches is a finding. `correlations` makes
the SQL of rules about several rows, which may be findings of other correlations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from ...schema.declaration import Type
from ...tables import TABLES
from ..sigma.rules import Correlation, Detection, Rule
from .conditions import condition_sql, used_fields
from .correlations import (
    Events,
    RowsClause,
    Within,
    correlation_query,
    needs_all,
    read_name,
    referenced,
)
from .dialect import Dialect
from .fields import TENANT, Field
from .matching import Matcher
from .query import ROW, Query, QuerySource, TableRead
from .subjects import may_have_wildcards

_SUBJECTS = (
    "subject key bucket name stream channel service server_name user client_name anomaly originator error"
).split()
"""Columns that say what a row is about: the first one that a table has is the subject of its findings."""
_IDENTITY = frozenset(("session", "number", "ts_ns", "time"))


_DEEPEST = 8
"""The longest allowed chain of correlations: each one is a subquery of the one that refers to it."""

Variables = Mapping[str, Sequence[str]]


def compiled(
    rules: Mapping[str, Detection | Correlation],
    names: Iterable[str],
    dialect: Dialect,
    variables: Variables = MappingProxyType({}),
) -> list[Query]:
    """The queries of some of the rules, which may refer to all of them. `variables` are the values of
    placeholders (`%name%`) by name. Raises RuleError."""
    compiler = _Compiler(rules, dialect, variables)
    found = []
    for name in names:
        _check_chain(rules[name], rules)
        found.append(compiler.query(rules[name]))
    return found


def reporting(rules: Mapping[str, Detection | Correlation]) -> list[str]:
    """The names of the rules whose rows are findings. Those of a rule that a correlation refers to are not,
    unless the correlation says `generate: true`."""
    silent = {
        one.name
        for rule in rules.values()
        if isinstance(rule, Correlation) and not rule.parsed_rule.generate
        for one in referenced(rule, rules)
    }
    for name in silent:
        _check_chain(rules[name], rules)  # rules that refer to each other would all be silent
    return [name for name in rules if name not in silent]


def _check_chain(
    rule: Detection | Correlation,
    rules: Mapping[str, Detection | Correlation],
    above: tuple[str, ...] = (),
) -> None:
    """Refuses correlations that refer to themselves, directly or not, or form too long a chain. `above` are
    the ids of the correlations that lead to this one."""
    if isinstance(rule, Correlation):
        if rule.id in above:
            raise rule.error("the correlation refers to itself", "correlation", "rules")
        if len(above) == _DEEPEST:
            reason = f"more than {_DEEPEST} correlations that refer to one another"
            raise rule.error(reason, "correlation", "rules")
        for each in referenced(rule, rules):
            _check_chain(each, rules, (*above, rule.id))


class _Compiler:
    """Compiles rules that may refer to each other."""

    def __init__(
        self,
        rules: Mapping[str, Detection | Correlation],
        dialect: Dialect,
        variables: Variables,
    ) -> None:
        self._rules = rules
        self._dialect = dialect
        self._variables = variables

    def query(
        self, rule: Detection | Correlation, depth: int = 0, within: Sequence[Within] = ()
    ) -> Query:
        """The query of a rule. For `depth` and `within` see `correlation_query`."""
        if isinstance(rule, Detection):
            return self._detection(rule)
        sources = [self._events(each, rule, depth) for each in referenced(rule, self._rules)]
        return correlation_query(rule, sources, self._dialect, depth, within)

    def _detection(self, rule: Detection) -> Query:
        matcher = self._matcher(rule)
        condition = condition_sql(rule, matcher)
        fields = _finding_fields(rule, matcher)
        columns = [
            f"{_time(rule, matcher)} AS ts_ns",
            _own(rule.table, "session", "STRING"),
            _own(rule.table, "number", "BIGINT"),
            f"{_subject(rule, matcher)} AS subject",
            "CAST(1 AS BIGINT) AS count",
            _own(rule.table, "capture", "STRING"),
            _own(rule.table, "packet", "BIGINT"),
            *[f"{field.sql} AS f{place}" for place, field in enumerate(fields, 1)],
        ]
        rows = _rows(rule, matcher, condition)
        text = f"SELECT {', '.join(columns)}\n{rows.text}"
        names = tuple(field.name for field in fields)
        return Query(rule, text, rows.tables, names, {}, rows.unset)

    def _events(
        self, rule: Detection | Correlation, correlation: Correlation, depth: int
    ) -> Events:
        """The rows of a rule as events of a correlation, which is so deep."""
        wildcards = partial(self._has_wildcards, rule, correlation)
        if isinstance(rule, Correlation):
            within = self._within(rule, correlation, depth)
            query = self.query(rule, depth + 1, within)
            return _events_of_findings(query, correlation, wildcards)
        matcher = self._matcher(rule)
        condition = condition_sql(rule, matcher)

        def field(name: str) -> Field:
            alias = _aliased(correlation, rule, name)
            found = matcher.field(alias)
            if found.type not in (Type.TEXT, Type.INTEGER, Type.BOOLEAN):
                raise ValueError(f"{alias!r} has no single value")
            return found

        own = [_own(rule.table, "session", "STRING"), _own(rule.table, "number", "BIGINT")]
        own += [_own(rule.table, "capture", "STRING"), _own(rule.table, "packet", "BIGINT")]
        time = _time(rule, matcher)
        return Events(rule, time, own, field, lambda: _rows(rule, matcher, condition), wildcards)

    def _within(self, rule: Correlation, correlation: Correlation, depth: int) -> list[Within]:
        """The groups of a rule that a correlation can use: those that its rules about rows have, too."""
        found: list[Within] = []
        if not (self._dialect.keeps_steps and needs_all(correlation)):
            return found
        rules = referenced(correlation, self._rules)
        own = list(rule.parsed_rule.group_by or ())
        keys = []
        for place, name in enumerate(correlation.parsed_rule.group_by or (), 1):
            alias = _aliased(correlation, rule, name)
            compared = any(self._has_wildcards(each, correlation, name) for each in rules)
            if alias in own and name != TENANT and not compared:
                keys.append((own.index(alias) + 1, place))
        for place, each in enumerate(rules, 1):
            if keys and isinstance(each, Detection):
                found.append(Within(read_name(depth, place), keys))
        return found

    def _has_wildcards(
        self, rule: Detection | Correlation, correlation: Correlation, name: str
    ) -> bool:
        """Whether a field that a correlation groups by has subjects with wildcards in a rule."""
        alias = _aliased(correlation, rule, name)
        if isinstance(rule, Detection):
            return may_have_wildcards(rule.table, alias)
        counted = referenced(rule, self._rules)
        return alias in (rule.parsed_rule.group_by or ()) and any(
            self._has_wildcards(each, rule, alias) for each in counted
        )

    def _matcher(self, rule: Detection) -> Matcher:
        return Matcher(rule.table, self._dialect, self._variables)


def _events_of_findings(
    query: Query, correlation: Correlation, wildcards: Callable[[str], bool]
) -> Events:
    """The findings of a correlation as rows for another one. Their fields are the fields that it groups by,
    and `count`."""
    columns = {name: f"f{place}" for place, name in enumerate(query.fields, 1)}

    def field(name: str) -> Field:
        alias = _aliased(correlation, query.rule, name)
        if alias in columns:
            sql = f"{ROW}.{columns[alias]}"
            return Field(alias, f"coalesce({sql}, '')" if alias == TENANT else sql, Type.TEXT)
        if alias == "count":
            return Field(alias, f"{ROW}.count", Type.INTEGER)
        known = ", ".join([*columns, "count"])
        raise ValueError(
            f"findings of {query.rule.name!r} have no field {alias!r}; they have {known}"
        )

    own = [f"{ROW}.{name}" for name in ("session", "number", "capture", "packet")]
    rows = RowsClause(f"FROM (\n{query.text}\n) AS {ROW}\nWHERE TRUE", query.tables, query.unset)
    rule = query.rule
    assert isinstance(rule, Correlation)
    return Events(rule, f"{ROW}.ts_ns", own, field, lambda: rows, wildcards)


def _rows(rule: Detection, matcher: Matcher, condition: str) -> RowsClause:
    """The rows that match a rule, joined with `sessions` if the rule names a field of the session."""
    source = QuerySource(rule.table, "sessions" if matcher.joined else "")
    tables = frozenset(source.aliases.values())
    return RowsClause(TableRead(source, condition).marked, tables, frozenset(matcher.unset))


def _own(table: str, column: str, type_: str) -> str:
    """A column of the table, or NULL if the table lacks it."""
    if any(each.name == column for each in TABLES[table].columns):
        return f"{ROW}.{column} AS {column}"
    return f"CAST(NULL AS {type_}) AS {column}"


def _time(rule: Detection, matcher: Matcher) -> str:
    """The time of a row: the column that the rule names, or that of the table."""
    if rule.time is None:
        return f"{ROW}.{TABLES[rule.table].time}"
    try:
        field = matcher.field(rule.time)
        if field.type is not Type.INTEGER or not rule.time.endswith("_ns"):
            raise ValueError(f"{rule.time!r} is not a time")
    except ValueError as error:
        raise rule.error(str(error), "time") from None
    return field.sql


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


def _finding_fields(rule: Detection, matcher: Matcher) -> list[Field]:
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


def _aliased(correlation: Correlation, rule: Rule, name: str) -> str:
    """The field of `rule` that a name in the correlation stands for: by an alias, or the name itself."""
    for alias in correlation.parsed_rule.aliases:
        if alias.alias == name:
            for reference, column in alias.mapping.items():
                if reference.reference in (rule.name, rule.id):
                    return str(column)
    return name
