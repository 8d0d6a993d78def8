"""Findings: the rows of an audit, made from the rows of the rules' queries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from shlex import quote
from typing import TYPE_CHECKING, cast

from ...output.arrow.types import pyarrow
from ...schema.records import printable_json
from ..sigma.levels import Level
from ..sql.query import Query, Row

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(slots=True, kw_only=True)
class Finding:
    """One finding.

    `rule` is the rule's name, `level` and `harm` how bad it is (`Level`, `Harm`), `ts_ns` nanoseconds since
    the epoch. `session` and `number` name the frame that is the evidence, `capture` and `packet` its place,
    if the table has these columns. `subject` is the subject of the finding, `count` the number of rows that
    it summarizes, `fields` a JSON object. `follow` is a command that shows the evidence. `suppressed` is the
    reason of the suppression that applies.
    """

    rule: str
    title: str
    level: str
    harm: str
    ts_ns: int | None
    session: str | None
    number: int | None
    subject: str | None
    count: int
    fields: str
    capture: str | None
    packet: int | None
    follow: str | None
    false_positives: list[str]
    remedy: str | None
    suppressed: str | None = None

    @property
    def severity(self) -> Level:
        """The level as a number."""
        return Level[self.level]

    @property
    def values(self) -> dict[str, object]:
        """`fields` as values."""
        return cast("dict[str, object]", json.loads(self.fields))


FIELDS = tuple(field.name for field in fields(Finding))


def schema() -> pa.Schema:
    """The columns of findings in Arrow; `time` is `ts_ns` as a time."""
    arrow = pyarrow()
    columns = []
    for name in FIELDS:
        type_ = arrow.int64() if name in ("ts_ns", "number", "count", "packet") else arrow.string()
        columns.append((name, arrow.list_(type_) if name == "false_positives" else type_))
        if name == "ts_ns":
            columns.append(("time", arrow.timestamp("us", "UTC")))
    return arrow.schema(columns)


def findings_of(query: Query, rows: Iterable[Row]) -> Iterator[Finding]:
    """Makes findings from rows of a query."""
    rule = query.rule
    for ts_ns, session, number, subject, count, capture, packet, *values in rows:
        shown = {
            name: value for name, value in zip(query.fields, values) if value not in (None, [], {})
        }
        yield Finding(
            rule=rule.name,
            title=rule.title,
            level=rule.level.name,
            harm=rule.harm.name,
            ts_ns=ts_ns,
            session=session,
            number=number,
            subject=subject,
            count=count,
            fields=printable_json(
                json.dumps(shown | query.facts, ensure_ascii=False, sort_keys=True)
            ),
            capture=capture,
            packet=packet,
            follow=None if session is None else _follow(session, capture),
            false_positives=list(rule.false_positives),
            remedy=rule.remedy or None,
        )


def _follow(session: str, capture: str | None) -> str:
    """The command that shows a session. It is quoted for a shell, because a file may have any name."""
    return f"nats-dissect follow {quote(session)} {'CAPTURE...' if capture is None else quote(capture)}"
