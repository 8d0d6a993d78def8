"""The SQL of rules about several rows: `event_count`, `value_count`, `temporal`, `temporal_ordered`.

A window of the rule's timespan ends with each event (row of a referenced rule) and holds the events of its
group from less than one timespan before. A finding is a burst: windows that fulfil the condition and whose
ends are less than one timespan apart. Its time is that of the event that first fulfilled the condition, its
count the largest in one of its windows:

    event_count         events
    value_count         different values of the field; events without it do not count
    temporal            different rules that matched
    temporal_ordered    rules that matched, each no earlier than the one before it in the list

Events without a time, or without one of the fields to group by, belong to no window. All numbers are exact,
and the SQL takes about the time of sorting the events: a value counts from its event until its next event or
until the window has passed, so the count at a time is the running sum of those beginnings and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sigma.correlations import (
    SigmaCorrelationCondition,
    SigmaCorrelationConditionOperator,
    SigmaCorrelationType,
)

from .fields import Field
from .query import Query
from .rules import Correlation, Detection

_COUNTED = {
    SigmaCorrelationType.EVENT_COUNT: "events",
    SigmaCorrelationType.VALUE_COUNT: "different values",
    SigmaCorrelationType.TEMPORAL: "different matching rules",
    SigmaCorrelationType.TEMPORAL_ORDERED: "matching rules in this order",
}
_OPERATORS = {
    SigmaCorrelationConditionOperator.GTE: ">=",
    SigmaCorrelationConditionOperator.GT: ">",
}
_BOUNDS = {
    SigmaCorrelationConditionOperator.GTE: "at least",
    SigmaCorrelationConditionOperator.GT: "more than",
}
_LAST = (1 << 63) - 1


class Source(NamedTuple):
    """The rows of one referenced rule. `own` are its columns for the evidence, `field` finds a field by the
    name that the correlation uses, and `source` is the FROM, after all fields were found."""

    rule: Detection
    time: str
    own: list[str]
    condition: str
    field: Callable[[str], Field]
    source: Callable[[], tuple[str, frozenset[str]]]


def referenced(rule: Correlation, rules: Mapping[str, Detection | Correlation]) -> list[Detection]:
    """The rules that a correlation counts, in its order. Raises RuleError."""
    ids = {one.id: one for one in rules.values()}
    found = []
    for place, reference in enumerate(rule.parsed_rule.rules or []):
        name = reference.reference
        one = rules.get(name) or ids.get(name)
        if one is None:
            raise rule.error(f"there is no rule {name!r}", "correlation", "rules", place)
        if isinstance(one, Correlation):
            reason = f"{name!r} is a correlation; a correlation of correlations is not supported"
            raise rule.error(reason, "correlation", "rules", place)
        found.append(one)
    if not found:
        raise rule.error("a correlation lists its rules", "correlation")
    return found


def correlation_query(rule: Correlation, sources: Sequence[Source]) -> Query:
    """The query of a correlation. Raises RuleError."""
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
    events = [_events(rule, source, place, groups) for place, source in enumerate(sources, 1)]
    span = rule.parsed_rule.timespan.seconds * 10**9
    holds = _holds(rule, condition, len(sources))
    keys = ["g0", *(f"g{place}" for place in range(1, len(groups) + 1))]
    ordered = kind is SigmaCorrelationType.TEMPORAL_ORDERED
    steps = _ordered(keys, span, len(sources)) if ordered else _counted(rule, keys, span, holds)
    tables = [source.source()[1] for source in sources]
    text = "\nUNION ALL\n".join(events)
    sql = f"WITH events AS (\n{text}\n),\n{steps},\n{_bursts(keys, span)}"
    bound = _BOUNDS[condition.op]
    span_text = rule.parsed_rule.timespan.spec
    counted = f"{bound} {condition.count} {_COUNTED[kind]} within {span_text}"
    return Query(rule, sql, frozenset().union(*tables), groups, {"counted": counted})


def _holds(rule: Correlation, condition: SigmaCorrelationCondition, rules: int) -> str:
    """The condition on the count."""
    if condition.op not in _OPERATORS:
        reason = (
            f"{condition.op.name.lower()!r} is not supported: a window ends with each event, so the first one"
            " would fulfil it; there are gte and gt"
        )
        raise rule.error(reason, "correlation", "condition")
    holds = f"{_OPERATORS[condition.op]} {condition.count}"
    kind = rule.parsed_rule.type
    if kind is SigmaCorrelationType.TEMPORAL_ORDERED and holds != f">= {rules}":
        reason = "temporal_ordered has no condition: all of its rules must match"
        raise rule.error(reason, "correlation", "condition")
    return holds


def _events(rule: Correlation, source: Source, place: int, groups: Sequence[str]) -> str:
    """The rows of one rule, with the group and the value to count."""
    fields = []
    for at, name in enumerate(groups):
        try:
            fields.append(f"CAST({source.field(name).sql} AS STRING)")
        except ValueError as error:
            reason = f"{error} (rule {source.rule.name!r}; `aliases` can name another field)"
            raise rule.error(reason, "correlation", "group-by", at) from None
    value = _value(rule, source, place)
    known = [f"{source.time} IS NOT NULL", *(f"{field} IS NOT NULL" for field in fields)]
    if rule.parsed_rule.type is SigmaCorrelationType.VALUE_COUNT:
        known.append(f"{value} IS NOT NULL")
    columns = [
        # A window that ends after the last possible time would be a number that is too large.
        f"least({source.time}, {_LAST - rule.parsed_rule.timespan.seconds * 10**9}) AS ts_ns",
        *source.own,
        "'' AS g0",
        *(f"{field} AS g{at}" for at, field in enumerate(fields, 1)),
        f"{value} AS value",
    ]
    where = " AND ".join([*known, source.condition])
    return f"SELECT {', '.join(columns)}\n{source.source()[0]}\nWHERE {where}"


def _value(rule: Correlation, source: Source, place: int) -> str:
    if rule.parsed_rule.type is not SigmaCorrelationType.VALUE_COUNT:
        return f"CAST({place} AS STRING)"
    condition = rule.parsed_rule.condition
    assert isinstance(condition, SigmaCorrelationCondition)
    name = condition.fieldref
    try:
        if not isinstance(name, str):
            raise ValueError("value_count counts the values of one field")
        return f"CAST({source.field(name).sql} AS STRING)"
    except ValueError as error:
        raise rule.error(str(error), "correlation", "condition", "field") from None


def _counted(rule: Correlation, keys: Sequence[str], span: int, holds: str) -> str:
    """`hits`: the times of events at which the count fulfils the condition."""
    key = ", ".join(keys)
    following = f"lead(ts_ns) OVER (PARTITION BY {key}, value ORDER BY ts_ns)"
    end = f"least(ts_ns + {span}, coalesce({following}, {_LAST}))"
    if rule.parsed_rule.type is SigmaCorrelationType.EVENT_COUNT:
        end = f"ts_ns + {span}"
    return f"""spans AS (SELECT {key}, ts_ns, {end} AS end_ns FROM events),
changes AS (
SELECT {key}, ts_ns, 1 AS change, 1 AS begins FROM spans
UNION ALL
SELECT {key}, end_ns AS ts_ns, -1 AS change, 0 AS begins FROM spans
),
moments AS (
SELECT {key}, ts_ns, sum(change) AS change, sum(begins) AS begins FROM changes GROUP BY {key}, ts_ns
),
counts AS (
SELECT {key}, ts_ns, begins, sum(change) OVER (PARTITION BY {key} ORDER BY ts_ns) AS count FROM moments
),
hits AS (SELECT {key}, ts_ns, count FROM counts WHERE begins > 0 AND count {holds})"""


def _ordered(keys: Sequence[str], span: int, rules: int) -> str:
    """`hits`: the times at which the last rule matched, after all others in their order within the span.

    `began` is the latest time at which a chain began that has reached the event.
    """
    key = ", ".join(keys)
    steps = [
        f"step1 AS (SELECT {key}, ts_ns, value, CASE WHEN value = '1' THEN ts_ns END AS began FROM events)"
    ]
    for step in range(2, rules + 1):
        before = f"max(CASE WHEN value = '{step - 1}' THEN began END)"
        began = f"{before} OVER (PARTITION BY {key} ORDER BY ts_ns)"
        steps.append(
            f"step{step} AS (SELECT {key}, ts_ns, value,"
            f" CASE WHEN value = '{step}' THEN {began} ELSE began END AS began FROM step{step - 1})"
        )
    hits = (
        f"hits AS (SELECT {key}, ts_ns, {rules} AS count FROM step{rules}"
        f" WHERE value = '{rules}' AND ts_ns - began < {span} GROUP BY {key}, ts_ns)"
    )
    return ",\n".join([*steps, hits])


def _bursts(keys: Sequence[str], span: int) -> str:
    """The findings: hits that are less than a span apart, with the event that was the first of them."""
    key = ", ".join(keys)
    before = f"lag(ts_ns) OVER (PARTITION BY {key} ORDER BY ts_ns)"
    same = " AND ".join(f"e.{name} = b.{name}" for name in keys)
    subject = (
        f"concat_ws(', ', {', '.join(f'b.{name}' for name in keys[1:])})" if keys[1:] else "NULL"
    )
    columns = ("session", "number", "packet", "capture")
    order = ", ".join(f"{name} NULLS LAST" for name in columns)  # the engines' own orders differ
    shown = "".join(f", b.{name} AS f{place}" for place, name in enumerate(keys[1:], 1))
    return f"""gaps AS (
SELECT {key}, ts_ns, count, CASE WHEN ts_ns - {before} < {span} THEN 0 ELSE 1 END AS begins FROM hits
),
numbered AS (
SELECT {key}, ts_ns, count, sum(begins) OVER (PARTITION BY {key} ORDER BY ts_ns) AS burst FROM gaps
),
bursts AS (
SELECT {key}, min(ts_ns) AS ts_ns, max(count) AS count FROM numbered GROUP BY {key}, burst
),
evidence AS (
SELECT {key}, ts_ns, session, number, capture, packet,
row_number() OVER (PARTITION BY {key}, ts_ns ORDER BY {order}) AS place FROM events
)
SELECT b.ts_ns AS ts_ns, e.session AS session, e.number AS number, CAST({subject} AS STRING) AS subject,
CAST(b.count AS BIGINT) AS count, e.capture AS capture, e.packet AS packet{shown}
FROM bursts AS b JOIN evidence AS e ON e.ts_ns = b.ts_ns AND {same}
WHERE e.place = 1"""
