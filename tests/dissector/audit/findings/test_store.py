"""The order of findings."""

from __future__ import annotations

from random import Random

import pytest

from dissect.nats.audit.findings.store import SORTABLE, batch, store
from dissect.nats.audit.sigma.levels import Level

from tests.support.audit import finding

ORDERED = [
    finding(level="critical", rule="z", ts_ns=9),
    finding(rule="a", ts_ns=1),
    finding(rule="a", ts_ns=2, session="A"),
    finding(rule="a", ts_ns=2, session="a", number=1, subject="x"),
    finding(rule="a", ts_ns=2, session="a", number=2, suppressed="known"),
    finding(rule="a", ts_ns=2, session=None),
    finding(rule="a", ts_ns=None),
    finding(rule="b", ts_ns=0),
    finding(level="informational"),
]


def test_the_order_does_not_depend_on_the_order_of_adding() -> None:
    for seed in range(5):
        mixed = ORDERED.copy()
        Random(seed).shuffle(mixed)
        with store() as kept:
            kept.add(mixed[:4])
            kept.add(mixed[4:])
            assert list(kept.findings()) == ORDERED


@pytest.mark.parametrize(
    ("column", "descending", "places"),
    [
        ("ts_ns", False, [7, 1, 2, 3, 4, 5, 8, 0, 6]),
        ("time", True, [0, 8, 2, 3, 4, 5, 1, 7, 6]),
        ("level", False, [8, 1, 2, 3, 4, 5, 6, 7, 0]),
        ("level", True, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ("suppressed", True, [4, 0, 1, 2, 3, 5, 6, 7, 8]),
    ],
)
def test_the_order_of_a_column(column: str, descending: bool, places: list[int]) -> None:
    with store() as kept:
        kept.add(ORDERED[::-1])
        found = list(kept.findings(SORTABLE[column], descending))
    assert found == [ORDERED[place] for place in places]


def test_within_a_level_what_broke_comes_first() -> None:
    ordered = [
        finding(level="high", harm="practice"),
        finding(harm="loss", level="medium", rule="z"),
        finding(harm="outage", level="medium", rule="y"),
        finding(harm="symptom", level="medium", rule="x"),
        finding(harm="exposure", level="medium", rule="a"),
        finding(harm="loss", level="low"),
    ]
    with store() as kept:
        kept.add(ordered[::-1])
        assert list(kept.findings()) == ordered
        worst = next(kept.findings(SORTABLE["harm"], True))
        assert worst.harm == "loss"


def test_counts_leave_out_what_is_suppressed() -> None:
    with store() as kept:
        kept.add(ORDERED)
        assert kept.counts == {Level.critical: 1, Level.high: 6, Level.informational: 1}
        assert kept.suppressed == 1
        assert kept.by_rule == {"z": 1, "a": 7, "b": 1}


def test_a_batch_has_the_time() -> None:
    rows = batch([finding(ts_ns=1_500_000_999), finding(ts_ns=None)])
    assert rows.column("time").cast("int64").to_pylist() == [1_500_000, None]
    assert batch([]).num_rows == 0
