"""The values that stages hand on."""

from __future__ import annotations

from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.types import Chunk, Direction, Gap, Oddity


def test_each_direction_has_another() -> None:
    assert Direction.ORIGINATOR.other is Direction.RESPONDER
    assert Direction.RESPONDER.other is Direction.ORIGINATOR


def test_values_of_different_kinds_are_never_equal() -> None:
    values = [
        Chunk(1, 2, "a", 3, b""),
        Gap(1, 2, "a", 3, 4),
        Oddity(1, 2, "a", 3, 4, Anomaly.LOST),
    ]
    for value in values:
        assert [other == value for other in values].count(True) == 1
        assert not hasattr(value, "__dict__")
