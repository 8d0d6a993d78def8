"""Anomaly: a closed list of names for users."""

from __future__ import annotations

import re

from dissect.nats.schema.anomalies import Anomaly


def test_names_are_values_in_lower_case() -> None:
    for anomaly in Anomaly:
        assert anomaly.value == anomaly.name.lower()
        assert re.fullmatch("[a-z][a-z_]+", anomaly.value)


def test_no_two_share_a_name() -> None:
    assert len(Anomaly) == len(Anomaly.__members__)
