"""Correlations made at random, and what they mean: evaluated window by window in Python, without SQL.

Of each group every window is looked at, and bursts are put together from them: slow, and as the manual says.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from itertools import groupby
from random import Random
from typing import NamedTuple

from dissect.nats.audit.sql.query import COLUMNS, Row
from dissect.nats.schema.records import FrameRecord

from tests.support.audit import detection_text, frame, rule_text

S = 10**9
OPS = ("PUB", "SUB", "MSG")
KINDS = ("event_count", "value_count", "value_sum", "temporal", "temporal_ordered")
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "gte": operator.ge,
    "gt": operator.gt,
    "lt": operator.lt,
    "lte": operator.le,
    "eq": operator.eq,
    "neq": operator.ne,
}


class Event(NamedTuple):
    """A row of one of the rules: `rule` is its place in the list."""

    ts_ns: int
    number: int
    rule: int
    group: tuple[str, ...]
    row: FrameRecord


class Found(NamedTuple):
    """A finding: when, of which group, how many, and the frame that is its evidence."""

    ts_ns: int
    subject: str | None
    largest: int
    number: int


def found_in(rows: Iterable[Row]) -> list[Found]:
    """The findings in the rows of a query."""
    places = [COLUMNS.index(name) for name in ("ts_ns", "subject", "count", "number")]
    return [Found(*(row[place] for place in places)) for row in rows]


def rows(random: Random, count: int) -> list[FrameRecord]:
    """Frames near each other, often at the same time, with few different values."""

    def maybe(values: Iterable[object]) -> object:
        return random.choice([*values, None])

    return [
        frame(
            number,
            ts_ns=random.randrange(60) * S,
            op=random.choice(OPS),
            subject=maybe("ab"),
            reply=maybe("ab"),
            queue=maybe("xyz"),
            payload_bytes=maybe([0, 1, 2, 5]),
        )
        for number in range(1, count + 1)
    ]


class Correlation:
    """One correlation over detections of each operation: `text` is all their YAML."""

    def __init__(self, random: Random, number: int) -> None:
        self.name = f"rule-{number}"
        self.span = random.choice([2, 5, 10])
        self.kind = random.choice(KINDS)
        self.ops = random.sample(OPS, random.choice([1, 2, 3]))
        self.groups = random.choice([[], ["subject"], ["subject", "kind"], ["who"]])
        self.how = random.choice([*COMPARE, "gte", "gt"])
        self.number = random.randint(1, 5)
        if self.kind == "temporal_ordered":
            self.how, self.number = "gte", len(self.ops)
        names = [f"rule-{number + place}" for place in range(1, len(self.ops) + 1)]
        made = [
            detection_text(f"  selection: {{op: {op}}}", number=number + place)
            for place, op in enumerate(self.ops, 1)
        ]
        self.text = "---\n".join([*made, rule_text(self._body(names), number)])

    def _body(self, names: list[str]) -> str:
        lines = ["correlation:", f"  type: {self.kind}", f"  rules: [{', '.join(names)}]"]
        lines += [f"  timespan: {self.span}s"]
        if self.groups:
            lines.append(f"  group-by: [{', '.join(self.groups)}]")
        if "who" in self.groups:  # of the second rule it is another field
            fields = ("subject", "reply", "subject")
            mapped = ", ".join(f"{name}: {field}" for name, field in zip(names, fields))
            lines.append(f"  aliases: {{who: {{{mapped}}}}}")
        if self.kind != "temporal_ordered":
            field = {"value_count": ", field: queue", "value_sum": ", field: payload_bytes"}
            lines.append(f"  condition: {{{self.how}: {self.number}{field.get(self.kind, '')}}}")
        return "\n".join(lines) + "\n"

    def found(self, frames: Iterable[FrameRecord]) -> list[Found]:
        """The findings, in order."""
        events = [event for each in frames for event in self._events(each)]
        made = []
        for _, some in groupby(sorted(events, key=lambda one: one.group), lambda one: one.group):
            made += self._of_group(list(some))
        return sorted(made)

    def _events(self, row: FrameRecord) -> Iterable[Event]:
        if row.op not in self.ops:
            return
        rule = self.ops.index(row.op)
        names = [("reply" if rule == 1 else "subject") if n == "who" else n for n in self.groups]
        group = [getattr(row, name) for name in names]
        value = {"value_count": row.queue, "value_sum": row.payload_bytes}.get(self.kind, 0)
        if None not in (*group, value):
            yield Event(row.ts_ns, row.number, rule, tuple(group), row)

    def _of_group(self, events: list[Event]) -> list[Found]:
        times = sorted({event.ts_ns for event in events})
        counts = {}
        for end in times:
            window = [each for each in events if 0 <= end - each.ts_ns < self.span * S]
            counts[end] = self._count(window, end)
        rising = self.how in ("gte", "gt")
        compare = COMPARE[self.how]
        ends = [end for end in times if not rising or compare(counts[end], self.number)]
        bursts: list[list[int]] = []
        for end in ends:
            if bursts and end - bursts[-1][-1] < self.span * S:
                bursts[-1].append(end)
            else:
                bursts.append([end])
        made = []
        for burst in bursts:
            count = max(counts[end] for end in burst)
            if compare(count, self.number):
                number = min(event.number for event in events if event.ts_ns == burst[0])
                group = ", ".join(events[0].group) or None
                made.append(Found(burst[0], group, count, number))
        return made

    def _count(self, window: list[Event], end: int) -> int:
        if self.kind == "event_count":
            return len(window)
        if self.kind == "value_count":
            return len({event.row.queue for event in window})
        if self.kind == "value_sum":
            return sum(event.row.payload_bytes or 0 for event in window)
        if self.kind == "temporal":
            return len({event.rule for event in window})
        last = len(self.ops) - 1
        if not any(event.rule == last and event.ts_ns == end for event in window):
            return 0
        earliest = 0
        for rule in range(last + 1):  # each as early as it can be
            after = [e.ts_ns for e in window if e.rule == rule and e.ts_ns >= earliest]
            if not after:
                return 0
            earliest = min(after)
        return last + 1
