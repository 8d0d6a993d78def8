"""Recorded incidents: the audit names the cause of each, with evidence."""

from __future__ import annotations

from dissect.nats.audit import audit
from dissect.nats.audit.findings.finding import Finding

from tests.support.paths import INCIDENTS


def findings(incident: str, rule: str) -> list[Finding]:
    """What a rule finds in the capture of an incident."""
    return [one for one in audit(INCIDENTS / f"{incident}.pcap") if one.rule == rule]


def test_a_reader_that_stopped_is_a_slow_consumer_although_it_ended_the_connection() -> None:
    (found,) = findings("stalled", "slow-consumer")
    assert found.subject == "report"
    assert found.values == {
        "client_name": "report",
        "end": "rst",
        "ended_by": "originator",
        "kind": "client",
        "messages_responder": 4,
        "originator": "127.0.0.1:34198",
        "slow_consumer": "stalled",
        "stalled_ns": 3_960_176_000,
    }
