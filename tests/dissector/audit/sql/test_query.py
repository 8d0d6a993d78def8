"""The columns of queries."""

from __future__ import annotations

from dissect.nats.audit.findings.finding import FIELDS
from dissect.nats.audit.sql.query import COLUMNS


def test_a_finding_has_every_column_of_a_query() -> None:
    assert set(COLUMNS) <= set(FIELDS)
