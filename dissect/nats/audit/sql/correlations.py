"""The SQL of rules about several rows: `event_count`, `value_count`, `value_sum`, `temporal`,
`temporal_ordered`.

Events are the rows of referenced rules and the findings of referenced correlations. A window ends with each
event, and holds the events of its group that are less than one timespan older. Each window has a count:

    event_count         events
    value_count         different values of the field; events without it do not count
    value_sum           sum of the field, an integer; events without it do not count
    temporal            different rules that matched
    temporal_ordered    rules that matched, each no earlier than the one before it in the list

With `gte` and `gt`, a finding is a burst of windows that meet the condition and whose ends are less than one
timespan apart; its time is the end of the first one. With `lt`, `lte`, `eq` and `neq`, every burst of events
is judged as a whole, because its first window would nearly always meet `lt`: a finding is a burst whose
largest count meets the condition; its time is that of its first event. The count of a finding is the largest
count of its windows. A finding of `temporal_ordered` shows the correlation's `fields` of its first event.

Events without a time, or without one of the fields to group by, belong to no window. All numbers are exact,
and the SQL takes about as long as sorting the events: an event counts from its time until one timespan later,
a value until its next event at most, so the count at a time is the running sum of these beginnings and ends.

Where all rules have to match, events of groups that another rule has no event of are left out before
anything is sorted, also inside a correlation that is counted: usually, many events of one rule stand beside
few of another.

If a correlation groups by a field that has subjects with wildcards in one table (`subscriptions.subject`), an
event of another table belongs to the group of each subscription that its subject matches, see `subjects`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sigma.correlations import (
    SigmaCorrelationCondition,
    SigmaCorrelationConditionOperator,
    SigmaCorrelationType,
)

from ...schema.declaration import Type
from ..sigma.rules import Correlation, Detection
from .dialect import Dialect
from .fields import TENANT, Field
from .query import Query
from .subjects import matches

_COUNTED = {
    SigmaCorrelationType.EVENT_COUNT: "event{s}",
    SigmaCorrelationType.VALUE_COUNT: "different value{s}",
    SigmaCorrelationType.VALUE_SUM: "in all",
    SigmaCorrelationType.TEMPORAL: "different matching rule{s}",
    SigmaCorrelationType.TEMPORAL_ORDERED: "matching rules in this order",
}
_OPERATORS = {
    SigmaCorrelationConditionOperator.GTE: (">=", "at least"),
    SigmaCorrelationConditionOperator.GT: (">", "more than"),
    SigmaCorrelationConditionOperator.LT: ("<", "less than"),
    SigmaCorrelationConditionOperator.LTE: ("<=", "at most"),
    SigmaCorrelationConditionOperator.EQ: ("=", "exactly"),
    SigmaCorrelationConditionOperator.NEQ: ("<>", "other than"),
}
_RISING = {SigmaCorrelationConditionOperator.GTE, SigmaCorrelationConditionOperator.GT}
_OF_VALUES = {SigmaCorrelationType.VALUE_COUNT, SigmaCorrelationType.VALUE_SUM}
_LAST = (1 << 63) - 1


class Events(NamedTuple):
    """The events of one referenced rule. `own` are the columns for the evidence, `field` finds a field by the
    name that the correlation uses, `rows` makes the SQL of the rows once all fields are found, and
    `has_wildcards` tells whether a field has subjects that subscriptions have.
    """

    rule: Detection | Correlation
    time: str
    own: list[str]
    field: Callable[[str], Field]
    rows: Callable[[], RowsClause]
    has_wildcards: Callable[[str], bool]


class Within(NamedTuple):
    """A restriction to groups that a table has: pairs of the places of equal keys, here and in the table."""

    table: str
    keys: list[tuple[int, int]]


class RowsClause(NamedTuple):
    """FROM and WHERE clauses as a part of `Query.text`, the tables that they read, and the rule's
    placeholders that have no values."""

    text: str
    tables: frozenset[str]
    unset: frozenset[str]


def referenced(
    rule: Correlation, rules: Mapping[str, Detection | Correlation]
) -> list[Detection | Correlation]:
    """The rules that a correlation counts, in its order. Raises RuleError."""
    ids = {one.id: one for one in rules.values()}
    found = []
    for place, reference in enumerate(rule.parsed_rule.rules or []):
        name = reference.reference
        one = rules.get(name) or ids.get(name)
        if one is None:
            raise rule.error(f"there is no rule {name!r}", "correlation", "rules", place)
        found.append(one)
    if not found:
        raise rule.error("a correlation lists its rules", "correlation")
    return found


def correlation_query(
    rule: Correlation,
    sources: Sequence[Events],
    dialect: Dialect,
    depth: int,
    within: Sequence[Within],
) -> Query:
    """The query of a correlation. `depth` is the number of correlations that count its findings; only groups
    that all of `within` have are of interest. Raises RuleError."""
    kind = rule.parsed_rule.type
    if kind not in _COUNTED:
        reason = f"the correlation {kind.name.lower()!r} is not supported"
        raise rule.error(reason, "correlation", "type")
    condition = rule.parsed_rule.condition
    if not isinstance(condition, SigmaCorrelationCondition):
        reason = (
            "a condition of names and operators is not supported; temporal rules count all rules"
        )
        raise rule.error(reason, "correlation", "condition")
    groups = tuple(rule.parsed_rule.group_by or ())
    shown = rule.fields if kind is SigmaCorrelationType.TEMPORAL_ORDERED else ()
    span = rule.parsed_rule.timespan.seconds * 10**9
    holds, bound = _holds(rule, condition, len(sources))
    keys = ["g0", *(f"g{place}" for place in range(1, len(groups) + 1))]
    places = list(range(1, len(sources) + 1))
    if kind is SigmaCorrelationType.TEMPORAL_ORDERED:
        read = {source.rule.name: source for source in sources}  # a rule may stand there twice
        places = [[*read].index(source.rule.name) + 1 for source in sources]
        sources = list(read.values())
    steps = _read(rule, sources, groups, shown, dialect, depth, within)
    rising = condition.op in _RISING
    if kind is SigmaCorrelationType.TEMPORAL_ORDERED:
        steps += _ordered(keys, span, places)
    else:
        steps.append(_counted(kind, keys, span, holds if rising else ""))
    named = [key for key, name in zip(keys[1:], groups) if name != TENANT]
    bursts = _bursts(keys, named, span, "" if rising else f" HAVING max(count) {holds}", len(shown))
    whole = [source.rows() for source in sources]
    return Query(
        rule,
        "WITH " + ",\n".join([*steps, bursts]),
        frozenset().union(*(each.tables for each in whole)),
        (*groups, *shown),
        {"counted": f"{bound} within {rule.parsed_rule.timespan.spec}"},
        frozenset().union(*(each.unset for each in whole)),
    )


def needs_all(rule: Correlation) -> bool:
    """Whether a group must have events of all of the correlation's rules to make a finding."""
    kind, condition = rule.parsed_rule.type, rule.parsed_rule.condition
    if kind is SigmaCorrelationType.TEMPORAL_ORDERED:
        return True
    if kind is not SigmaCorrelationType.TEMPORAL:
        return False
    least = {SigmaCorrelationConditionOperator.GTE: 0, SigmaCorrelationConditionOperator.GT: 1}
    if not isinstance(condition, SigmaCorrelationCondition) or condition.op not in least:
        return False
    return bool(condition.count + least[condition.op] == len(rule.parsed_rule.rules or ()))


def _read(
    rule: Correlation,
    sources: Sequence[Events],
    groups: Sequence[str],
    shown: Sequence[str],
    dialect: Dialect,
    depth: int,
    within: Sequence[Within],
) -> list[str]:
    """`events`, and the common table expressions that it is made of."""
    keys = ["g0", *(f"g{place}" for place in range(1, len(groups) + 1))]
    own = ["ts_ns", "session", "number", "capture", "packet", "value"]
    columns = [*keys, *own, *(f"x{place}" for place in range(1, len(shown) + 1))]
    names = [read_name(depth, place) for place in range(1, len(sources) + 1)]
    reads = {}
    for place, (name, source) in enumerate(zip(names, sources), 1):
        rows = _events(rule, source, place, groups, shown)
        for table, pairs in within:
            same = " AND ".join(f"e.g{mine} = o.g{other}" for mine, other in pairs)
            rows = f"SELECT e.* FROM (\n{rows}\n) AS e SEMI JOIN {table} AS o ON {same}"
        reads[f"{name} AS (\n{rows}\n)"] = isinstance(source.rule, Correlation)
    steps = sorted(reads, key=reads.__getitem__)  # correlations last: they name the others
    for at, group in enumerate(groups, 1):
        are_patterns = [source.has_wildcards(group) for source in sources]
        if any(are_patterns) and not all(are_patterns):
            steps += _matched(f"g{at}", names, are_patterns, columns, dialect)
    certain = [key for key, group in zip(keys, ("", *groups)) if group != TENANT]
    selects = [f"SELECT {', '.join(columns)} FROM {name}" for name in names]
    if dialect.keeps_steps and needs_all(rule) and len(names) > 1:
        others = " ".join(
            _that_has(name, f"o{place}", certain) for place, name in enumerate(names[1:], 2)
        )
        first = f"first{depth}"
        steps.append(f"{first} AS (SELECT e.* FROM {names[0]} AS e {others})")
        selects = [f"SELECT * FROM {first}"]
        selects += [
            f"SELECT e.* FROM {name} AS e {_that_has(first, 'o', certain)}" for name in names[1:]
        ]
    union = "\nUNION ALL\n".join(selects)
    if TENANT not in groups:
        return [*steps, f"events AS (\n{union}\n)"]
    steps.append(f"near{depth} AS (\n{union}\n)")
    tenant = keys[1 + groups.index(TENANT)]
    return [*steps, _tenants(f"near{depth}", tenant, certain, columns)]


def _that_has(table: str, alias: str, keys: Sequence[str]) -> str:
    """Keeps the events `e` whose keys a table has, too."""
    same = " AND ".join(f"e.{key} = {alias}.{key}" for key in keys)
    return f"SEMI JOIN {table} AS {alias} ON {same}"


def _tenants(near: str, key: str, certain: Sequence[str], columns: Sequence[str]) -> str:
    """`events`: those of the table `near`. If the account of one is unknown, it is that of the events with
    which it shares all other keys, if they have only one."""
    least, most = (
        f"{function}(nullif({key}, '')) OVER (PARTITION BY {', '.join(certain)})"
        for function in ("min", "max")
    )
    known = f"CASE WHEN {key} <> '' THEN {key} WHEN {least} = {most} THEN {least} ELSE '' END"
    chosen = ", ".join(f"{known} AS {key}" if name == key else name for name in columns)
    return f"events AS (SELECT {chosen} FROM {near})"


def read_name(depth: int, place: int) -> str:
    """The name of the table with the events of one rule: no correlation inside has one of this name."""
    return f"read{depth}_{place}"


def _matched(
    key: str,
    names: list[str],
    are_patterns: Sequence[bool],
    columns: Sequence[str],
    dialect: Dialect,
) -> list[str]:
    """Puts the events of tables whose `key` is a subject into the groups of the subscriptions that match it.
    The names of these tables change."""
    split: dict[bool, list[str]] = {True: [], False: []}
    for name, is_pattern in zip(names, are_patterns):
        split[is_pattern].append(name)
    found, steps = matches(key, split[False], split[True], dialect)
    chosen = ", ".join(f"m.pattern AS {key}" if name == key else f"e.{name}" for name in columns)
    for place, (name, is_pattern) in enumerate(zip(names, are_patterns)):
        if not is_pattern:
            names[place] = f"{name}_{key}"
            join = f"FROM {name} AS e JOIN {found} AS m ON m.subject = e.{key}"
            steps.append(f"{names[place]} AS (SELECT {chosen} {join})")
    return steps


def _holds(rule: Correlation, condition: SigmaCorrelationCondition, rules: int) -> tuple[str, str]:
    """The condition on the count, in SQL and in words."""
    kind = rule.parsed_rule.type
    sign, words = _OPERATORS[condition.op]
    if not isinstance(condition.count, int):
        raise rule.error("a condition compares with an integer", "correlation", "condition")
    if kind is SigmaCorrelationType.TEMPORAL_ORDERED and (sign, condition.count) != (">=", rules):
        reason = "temporal_ordered has no condition: all of its rules must match"
        raise rule.error(reason, "correlation", "condition")
    counted = _COUNTED[kind].format(s="" if condition.count == 1 else "s")
    return f"{sign} {condition.count}", f"{words} {condition.count} {counted}"


def _events(
    rule: Correlation, source: Events, place: int, groups: Sequence[str], shown: Sequence[str]
) -> str:
    """The rows of one rule, with the group and the value to count. `shown` are fields of the first rule."""
    fields = _texts(rule, source, groups, "correlation", "group-by")
    facts = (
        _texts(rule, source, shown, "fields")
        if place == 1
        else ["CAST(NULL AS STRING)"] * len(shown)
    )
    value = _value(rule, source, place)
    known = [f"{source.time} IS NOT NULL", *(f"{field} IS NOT NULL" for field in fields)]
    if rule.parsed_rule.type in _OF_VALUES:
        known.append(f"{value} IS NOT NULL")
    columns = [
        "'' AS g0",
        *(f"{field} AS g{at}" for at, field in enumerate(fields, 1)),
        # Adding the timespan to a later time would overflow 64 bits.
        f"least({source.time}, {_LAST - rule.parsed_rule.timespan.seconds * 10**9}) AS ts_ns",
        *source.own,
        f"{value} AS value",
        *(f"{fact} AS x{at}" for at, fact in enumerate(facts, 1)),
    ]
    return " AND ".join([f"SELECT {', '.join(columns)}\n{source.rows().text}", *known])


def _texts(rule: Correlation, source: Events, names: Sequence[str], *path: str) -> list[str]:
    """Fields as text. `path` is the place of their names in the rule."""
    found = []
    for at, name in enumerate(names):
        try:
            found.append(f"CAST({source.field(name).sql} AS STRING)")
        except ValueError as error:
            reason = f"{error} (rule {source.rule.name!r}; `aliases` can name another field)"
            raise rule.error(reason, *path, at) from None
    return found


def _value(rule: Correlation, source: Events, place: int) -> str:
    kind = rule.parsed_rule.type
    if kind not in _OF_VALUES:
        return f"CAST({place} AS STRING)"
    condition = rule.parsed_rule.condition
    assert isinstance(condition, SigmaCorrelationCondition)
    name = condition.fieldref
    try:
        if not isinstance(name, str):
            raise ValueError(f"{kind.name.lower()} is about the values of one field")
        field = source.field(name)
        if kind is SigmaCorrelationType.VALUE_COUNT:
            return f"CAST({field.sql} AS STRING)"
        if field.type is not Type.INTEGER:
            raise ValueError(f"{name!r} is {field.type.value}, and has no sum")
        return f"CAST({field.sql} AS DECIMAL(38, 0))"  # a sum of 64-bit integers does not overflow
    except ValueError as error:
        raise rule.error(str(error), "correlation", "condition", "field") from None


def _counted(kind: SigmaCorrelationType, keys: Sequence[str], span: int, holds: str) -> str:
    """`hits`: the times of the events whose count meets the condition; of all events without one."""
    key = ", ".join(keys)
    end, change = f"ts_ns + {span}", "1"
    if kind is SigmaCorrelationType.VALUE_SUM:
        change = "value"
    elif kind is not SigmaCorrelationType.EVENT_COUNT:
        following = f"lead(ts_ns) OVER (PARTITION BY {key}, value ORDER BY ts_ns)"
        end = f"least(ts_ns + {span}, coalesce({following}, {_LAST}))"
    where = f" AND count {holds}" if holds else ""
    return f"""spans AS (SELECT {key}, ts_ns, {end} AS end_ns, {change} AS change FROM events),
changes AS (
SELECT {key}, ts_ns, change, 1 AS begins FROM spans
UNION ALL
SELECT {key}, end_ns AS ts_ns, -change AS change, 0 AS begins FROM spans
),
moments AS (
SELECT {key}, ts_ns, sum(change) AS change, sum(begins) AS begins FROM changes GROUP BY {key}, ts_ns
),
counts AS (
SELECT {key}, ts_ns, begins, sum(change) OVER (PARTITION BY {key} ORDER BY ts_ns) AS count FROM moments
),
hits AS (SELECT {key}, ts_ns, count FROM counts WHERE begins > 0{where})"""


def _ordered(keys: Sequence[str], span: int, places: Sequence[int]) -> list[str]:
    """`hits`: the times at which the last rule matched, after all others in their order, within the span.
    `places` are those of the rules among the events; if a rule follows itself, it has to match again later.

    `began1`, `began2` ... are the latest starts of chains that reach the first rule, the second one ..., at a
    time at which these match.
    """
    key = ", ".join(keys)
    matched = ", ".join(
        f"max(CASE WHEN value = '{place}' THEN ts_ns END) AS at{place}"
        for place in sorted({*places})
    )
    steps = [
        f"moments AS (SELECT {key}, ts_ns, {matched} FROM events GROUP BY {key}, ts_ns)",
        f"step1 AS (SELECT *, at{places[0]} AS began1 FROM moments)",
    ]
    for step, (before, place) in enumerate(zip(places, places[1:]), 2):
        end = "1 PRECEDING" if place == before else "CURRENT ROW"
        frame = f"ORDER BY ts_ns ROWS BETWEEN UNBOUNDED PRECEDING AND {end}"
        began = f"max(began{step - 1}) OVER (PARTITION BY {key} {frame})"
        steps.append(
            f"step{step} AS (SELECT *, CASE WHEN at{place} IS NOT NULL THEN {began} END AS began{step}"
            f" FROM step{step - 1})"
        )
    last = len(places)
    hits = (
        f"hits AS (SELECT {key}, ts_ns, {last} AS count, began{last} AS began FROM step{last}"
        f" WHERE ts_ns - began{last} < {span})"
    )
    return [*steps, hits]


def _bursts(keys: Sequence[str], named: Sequence[str], span: int, having: str, facts: int) -> str:
    """The findings: bursts of hits that are less than a span apart, each with its first event as evidence,
    and `facts` fields of the event with which the first hit began. The subject is that of the keys `named`.
    """
    key = ", ".join(keys)
    before = f"lag(ts_ns) OVER (PARTITION BY {key} ORDER BY ts_ns)"
    of_burst = ", ".join(f"b.{name}" for name in (*keys, "ts_ns"))
    same = " AND ".join(f"e.{name} = b.{name}" for name in keys)
    subject = f"concat_ws(', ', {', '.join(f'b.{name}' for name in named)})" if named else "NULL"
    columns = ("session", "number", "packet", "capture")
    order = ", ".join(f"e.{name} NULLS LAST" for name in columns)  # the engines' own orders differ
    place = f"row_number() OVER (PARTITION BY {of_burst} ORDER BY {order}) AS place"
    names = [f"nullif(b.{name}, '')" if name not in named else f"b.{name}" for name in keys[1:]]
    names += [f"x.x{place}" for place in range(1, facts + 1)]
    shown = "".join(f", {name} AS f{place}" for place, name in enumerate(names, 1))
    began, least, first, beginning = "", "", "", ""
    if facts:
        began, least = ", began", ", min(began) AS began"
        values = "".join(f", e.x{place}" for place in range(1, facts + 1))
        first = f""",
beginnings AS (
SELECT {of_burst}{values}, {place}
FROM bursts AS b JOIN events AS e ON e.ts_ns = b.began AND e.value = '1' AND {same}
)"""
        same_first = " AND ".join(f"x.{name} = b.{name}" for name in (*keys, "ts_ns"))
        beginning = f"\nJOIN beginnings AS x ON x.place = 1 AND {same_first}"
    return f"""gaps AS (
SELECT {key}, ts_ns, count{began}, CASE WHEN ts_ns - {before} < {span} THEN 0 ELSE 1 END AS begins FROM hits
),
numbered AS (
SELECT {key}, ts_ns, count{began}, sum(begins) OVER (PARTITION BY {key} ORDER BY ts_ns) AS burst FROM gaps
),
bursts AS (
SELECT {key}, min(ts_ns) AS ts_ns, max(count) AS count{least} FROM numbered GROUP BY {key}, burst{having}
),
evidence AS (
SELECT {of_burst}, b.count, e.session, e.number, e.capture, e.packet, {place}
FROM bursts AS b JOIN events AS e ON e.ts_ns = b.ts_ns AND {same}
){first}
SELECT b.ts_ns AS ts_ns, b.session AS session, b.number AS number, CAST({subject} AS STRING) AS subject,
CAST(greatest(least(b.count, {_LAST}), -{_LAST}) AS BIGINT) AS count,
b.capture AS capture, b.packet AS packet{shown}
FROM evidence AS b{beginning}
WHERE b.place = 1"""
