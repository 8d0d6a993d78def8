"""Rules about several rows."""

from __future__ import annotations

import pytest

from dissect.nats.audit.sigma.rules import Correlation
from dissect.nats.audit.sql.correlations import referenced
from dissect.nats.errors import RuleError
from dissect.nats.schema.records import FrameRecord

from tests.support.audit import (
    OLD_PYSIGMA,
    detection_text,
    findings,
    frame,
    rule_text,
    rules,
    session,
)

S = 10**9
OPS = "---\n".join(
    detection_text(f"  selection: {{op: {op}}}", number=number)
    for number, op in enumerate(("PUB", "SUB", "MSG"), 1)
)


def at(*times: float, op: str = "PUB", **columns: object) -> list[FrameRecord]:
    """Frames at these seconds."""
    return [frame(round(time * 10), ts_ns=round(time * S), op=op, **columns) for time in times]


def found(correlation: str, rows: list[FrameRecord]) -> list[tuple[float, int, str | None]]:
    """The time in seconds, the count and the subject of each finding."""
    text = f"{OPS}---\n{rule_text('correlation:' + correlation, 9)}"
    made = [one for one in findings(text, rows) if one.rule == "rule-9"]
    return [((one.ts_ns or 0) / S, one.count, one.subject) for one in made]


COUNT = """
  type: event_count
  rules: [rule-1]
  timespan: 10s
  condition: {gte: 3}
"""


def test_a_window_holds_less_than_a_timespan() -> None:
    assert found(COUNT, at(1, 5, 11)) == []
    assert found(COUNT, at(1, 5, 10.9)) == [(10.9, 3, None)]


def test_a_burst_is_one_finding_with_its_largest_count() -> None:
    rows = at(1, 2, 3, 4, 5) + at(12, 14) + at(60, 61, 62)
    assert found(COUNT, rows) == [(3, 5, None), (62, 3, None)]


def test_events_at_one_time_count_together() -> None:
    rows = [frame(number, ts_ns=S) for number in (1, 2, 3)]
    assert found(COUNT, rows) == [(1, 3, None)]
    text = f"{OPS}---\n{rule_text('correlation:' + COUNT, 9)}"
    (finding,) = [one for one in findings(text, rows) if one.rule == "rule-9"]
    assert finding.number == 1
    assert finding.values == {"counted": "at least 3 events within 10s"}


def test_groups_are_counted_apart_and_rows_without_a_group_not_at_all() -> None:
    rows = at(1, 2, subject="a") + at(3, 4, 5, subject="b") + at(6, 7, 8)
    assert found(f"{COUNT}  group-by: [subject]\n", rows) == [(5, 3, "b")]


def test_the_latest_times_do_not_overflow() -> None:
    last = (1 << 63) - 1
    rows = [frame(number, ts_ns=last) for number in (1, 2, 3)]
    assert [count for _, count, _ in found(COUNT, rows)] == [3]


VALUES = """
  type: value_count
  rules: [rule-1]
  timespan: 10s
  group-by: [kind]
  condition: {field: subject, gte: 3}
"""


def test_different_values_are_counted() -> None:
    rows = [*at(1, 4, subject="a"), *at(2, subject="b"), *at(3), *at(13.5, subject="c")]
    assert found(VALUES, rows) == []
    assert found(VALUES, [*rows, *at(11, subject="d")]) == [(11, 3, "client")]
    assert found(VALUES, [*rows, *at(8, subject="c")]) == [(8, 3, "client")]


SUM = """
  type: value_sum
  rules: [rule-1]
  timespan: 10s
  group-by: [kind]
  condition: {field: payload_bytes, gte: 100}
"""


def test_values_are_summed() -> None:
    rows = [*at(1, payload_bytes=60), *at(11, payload_bytes=60), *at(12)]
    assert found(SUM, rows) == []
    assert found(SUM, [*rows, *at(15, 16, payload_bytes=40)]) == [(15, 140, "client")]
    huge = (1 << 63) - 1
    assert found(SUM, at(1, 2, payload_bytes=huge)) == [(1, huge, "client")]


@pytest.mark.parametrize(
    ("condition", "counts"),
    [
        ("lt: 3", [2, 1]),
        ("lte: 3", [3, 2, 1]),
        ("eq: 3", [3]),
        ("neq: 3", [4, 2, 1]),
        ("gt: 3", [4]),
    ],
)
def test_the_largest_count_of_a_burst_is_compared(condition: str, counts: list[int]) -> None:
    rows = at(1, 2, 3, 4) + at(20, 21, 22) + at(40, 49) + at(60)
    starts = {4: 1.0, 3: 20.0, 2: 40.0, 1: 60.0}
    if condition == "gt: 3":
        starts[4] = 4.0  # the time of the event that first fulfils it
    made = found(COUNT.replace("gte: 3", condition), rows)
    assert made == [(starts[count], count, None) for count in counts]


def test_one_rule_without_the_other() -> None:
    rows = [*at(1), *at(2, op="SUB"), *at(30), *at(50, op="SUB")]
    condition = TEMPORAL + "  condition: {eq: 1}\n"
    assert found(condition, rows) == [(30, 1, None), (50, 1, None)]


CHAIN = """{ops}---
title: Bursts
id: 00000000-0000-4000-8000-000000000008
name: rule-8
correlation:
  type: event_count
  rules: [rule-1]
  group-by: [subject, kind]
  timespan: 5s
  condition: {{gte: 2}}
---
{head}correlation:
  type: value_count
  rules: [rule-8]
  group-by: [who]
  aliases: {{who: {{rule-8: kind}}}}
  timespan: 10s
  condition: {{gte: 2, field: {field}}}
"""


def test_findings_of_a_correlation_are_counted() -> None:
    text = CHAIN.format(ops=OPS, head=rule_text("", 9), field="subject")
    rows = at(1, 2, subject="a") + at(4, 6, subject="b") + at(7, subject="c")
    (one,) = [one for one in findings(text, rows) if one.rule == "rule-9"]
    assert (one.ts_ns, one.number, one.count, one.subject) == (6 * S, 60, 2, "client")
    assert "rule-8" not in {each.rule for each in findings(text, rows)}
    sums = text.replace("value_count", "value_sum").replace("field: subject", "field: count")
    assert [one.count for one in findings(sums, rows) if one.rule == "rule-9"] == [4]
    with pytest.raises(RuleError, match="'rule-8' have no field 'queue'; they have subject, kind"):
        findings(text.replace("field: subject", "field: queue"), rows)


def test_correlations_do_not_stand_upon_one_another_without_end() -> None:
    body = "correlation: {{type: event_count, rules: [rule-{}], timespan: 5s, condition: {{gte: 1}}}}\n"
    chain = [rule_text(body.format(number - 1), number) for number in range(4, 13)]
    with pytest.raises(RuleError, match="more than 8 correlations"):
        findings("---\n".join([OPS, *chain]), [])


TEMPORAL = """
  type: temporal
  rules: [rule-1, rule-2]
  timespan: 10s
"""


def test_rules_that_match_near_each_other() -> None:
    assert found(TEMPORAL, at(1) + at(12, op="SUB")) == []
    assert found(TEMPORAL, at(8) + at(2, op="SUB")) == [(8, 2, None)]


ORDERED = """
  type: temporal_ordered
  rules: [rule-1, rule-2, rule-3]
  timespan: 10s
"""


def test_rules_that_match_in_order() -> None:
    rows = [*at(1), *at(2, op="SUB"), *at(3, op="MSG")]
    assert found(ORDERED, rows) == [(3, 3, None)]
    assert found(ORDERED, [*at(1), *at(3, op="SUB"), *at(2, op="MSG")]) == []
    assert found(ORDERED, [*at(1), *at(2, op="SUB"), *at(11, op="MSG")]) == []
    assert found(ORDERED, [*at(1, 5), *at(6, op="SUB"), *at(14, op="MSG")]) == [(14, 3, None)]
    assert found(ORDERED, [*at(1), *at(2, op="SUB"), *at(5), *at(11.5, op="MSG")]) == []


def test_a_rule_that_follows_itself_has_to_match_again_later() -> None:
    again = ORDERED.replace("rule-3", "rule-2")
    rows = [*at(1), *at(2, op="SUB")]
    assert found(again, rows) == []
    assert found(again, [*rows, *at(2, op="SUB")]) == []
    assert found(again, [*rows, *at(3, op="SUB")]) == [(3, 3, None)]
    assert found(again, [*at(2.5), *at(2, 3, op="SUB")]) == []


def test_findings_are_the_same_however_many_rows_have_no_partner() -> None:
    """Groups that one rule does not match are left out, also before the findings of another are counted."""
    text = CHAIN.format(ops=OPS, head=rule_text("", 9), field="subject")
    head = text[: text.index("correlation:\n  type: value_count")]
    body = TEMPORAL.replace("rule-1, rule-2", "rule-8, rule-2") + "  group-by: [subject]\n"
    rows = [*at(1, 2, 3, subject="a"), *at(4, op="SUB", subject="a"), *at(5, op="SUB", subject="c")]
    rows += [row for n in range(50) for row in at(n, n, subject=f"b{n}")]
    made = [one for one in findings(f"{head}correlation:{body}", rows) if one.rule == "rule-9"]
    assert [(one.ts_ns, one.count, one.subject) for one in made] == [(4 * S, 2, "a")]


def ordered(time: str = "session.last_ns", fields: str = "subject, session.user") -> str:
    """A PUB whose session ended, then a SUB; the time of the PUB is the end of its session."""
    correlation = ORDERED.replace(", rule-3", "")
    return "---\n".join(
        [
            detection_text("  selection: {op: PUB}", more=f"time: {time}\n", number=1),
            detection_text("  selection: {op: SUB}", number=2),
            rule_text(f"correlation:{correlation}fields: [{fields}]\n", 9),
        ]
    )


def test_a_rule_names_the_time_of_its_rows_and_an_order_shows_how_it_began() -> None:
    ended = [
        session(last_ns=8 * 10**9, user="alice"),
        session(session="00000000000000bb", last_ns=9 * 10**9, user="bob"),
    ]
    rows = [
        *ended,
        frame(1, subject="a"),
        frame(2, subject="b", session="00000000000000bb"),
        frame(12, op="SUB", subject="c"),
    ]
    (finding,) = findings(ordered(), rows)
    assert finding.ts_ns == 12 * 10**9
    assert (finding.values["subject"], finding.values["session.user"]) == ("b", "bob")
    assert findings(ordered(), [*ended, frame(1), frame(7, op="SUB")]) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (ordered(time="subject"), "'subject' is not a time"),
        (ordered(time="number"), "'number' is not a time"),
        (ordered(time="nothing_ns"), "no column 'nothing_ns'"),
        (ordered(fields="nothing"), "no column 'nothing'"),
    ],
)
def test_a_time_or_field_that_a_rule_cannot_have_is_refused(text: str, reason: str) -> None:
    with pytest.raises(RuleError, match=reason):
        findings(text, [])


def test_an_alias_names_a_field_of_each_table() -> None:
    text = "---\n".join(
        [
            detection_text("  selection: {op: PUB}", number=1),
            detection_text("  selection: {user: '*'}", "sessions", number=2),
            rule_text(
                "correlation:\n  type: temporal\n  rules: [rule-1, rule-2]\n  timespan: 1m\n"
                "  group-by: [who]\n  aliases: {who: {rule-1: reply, rule-2: user}}\n",
                3,
            ),
        ]
    )
    rows = [frame(1, reply="alice"), frame(2, reply="bob"), session(user="alice")]
    (finding,) = findings(text, rows)
    assert (finding.rule, finding.subject, finding.values["who"]) == ("rule-3", "alice", "alice")


@pytest.mark.parametrize(
    ("correlation", "reason"),
    [
        (VALUES.replace("value_count", "value_avg"), "'value_avg' is not"),
        (SUM.replace("payload_bytes", "subject"), "'subject' is text, and has no sum"),
        pytest.param(
            *(COUNT.replace("gte: 3", "gte: 2.5"), "compares with an integer"),
            marks=pytest.mark.skipif(OLD_PYSIGMA, reason="pySigma 1 cuts 2.5 to 2 by itself"),
        ),
        (COUNT.replace("rule-1", "nobody"), "there is no rule 'nobody'"),
        (COUNT.replace("rule-1", "rule-9"), "the correlation refers to itself"),
        (COUNT + "  group-by: [nobody]\n", "(rule 'rule-1'; `aliases` can"),
        (COUNT + "  group-by: [queues]\n", "'queues' has no single value"),
        (VALUES.replace("field: subject", "field: nobody"), "frames has no column 'nobody'"),
        (VALUES.replace("subject", "[subject, reply]"), "values of one field"),
        (TEMPORAL + "  condition: one and not two\n", "rule"),
        (ORDERED + "  condition: {gte: 2}\n", "temporal_ordered has no condition"),
        (COUNT.replace("10s", "10x"), "Timespan '10x' is invalid"),
    ],
)
def test_what_is_not_supported_is_refused(correlation: str, reason: str) -> None:
    with pytest.raises(RuleError) as raised:
        found(correlation, [])
    assert reason in str(raised.value)


def test_a_rule_is_referred_to_by_name_or_id() -> None:
    text = f"{OPS}---\n{rule_text('correlation:' + COUNT, 9)}"
    made = rules(text.replace("[rule-1]", "[00000000-0000-4000-8000-000000000002]"))
    rule = made["rule-9"]
    assert isinstance(rule, Correlation)
    assert [one.name for one in referenced(rule, made)] == ["rule-2"]
