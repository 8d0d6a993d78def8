"""Recorded incidents: the audit names the cause of each, with evidence."""

from __future__ import annotations

import pytest

from dissect.nats.audit import audit
from dissect.nats.audit.findings.finding import Finding

from tests.support.paths import INCIDENTS


def findings(incident: str, rule: str) -> list[Finding]:
    """What a rule finds in the capture of an incident."""
    return [one for one in audit(INCIDENTS / f"{incident}.pcap") if one.rule == rule]


@pytest.mark.parametrize(
    "incident, rule",
    [
        ("stalled", "slow-consumer"),
        ("poison", "late-acks"),
        ("flapping", "link-flapping"),
        ("left", "no-responders"),
    ],
)
def test_what_failed_comes_before_how_the_server_is_set_up(incident: str, rule: str) -> None:
    found = [one.rule for one in audit(INCIDENTS / f"{incident}.pcap")]
    assert found[0] == rule
    assert found.index(rule) < found.index("anonymous-client")


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


def test_a_message_that_no_attempt_completed_is_named_by_its_sequence() -> None:
    (found,) = findings("poison", "messages-given-up")
    assert found.subject == "packer"
    assert found.values["given_up"] == ["2"]
    assert (found.values["max_deliver"], found.values["session.client_name"]) == (3, "packer")


def test_an_ack_after_ack_wait_is_late() -> None:
    (found,) = findings("poison", "late-acks")
    shown = found.values
    assert (shown["consumer"], shown["late_acks"], shown["ack_wait_ns"]) == ("packer", 1, 10**9)
    assert shown["session.client_name"] == "packer"


def test_a_route_that_breaks_again_and_again_is_named_once() -> None:
    (found,) = findings("flapping", "link-flapping")
    assert (found.subject, found.count) == ("route, near, far", 5)


def test_requests_find_nobody_because_a_link_was_lost() -> None:
    (found,) = findings("flapping", "interest-lost")
    shown = found.values
    assert found.subject == "prices.get"
    assert (shown["session.kind"], shown["session.server_name"]) == ("route", "near")
    assert (shown["session.remote_name"], shown["session.end"]) == ("far", "rst")
    assert found.ts_ns is not None
    assert 0 < found.ts_ns - int(str(shown["session.last_ns"])) < 10 * 10**9
    assert not findings("left", "interest-lost")


@pytest.mark.parametrize("rule", ["service-left", "service-left-unanswered"])
def test_a_service_that_left_is_named_with_its_end(rule: str) -> None:
    (found,) = findings("left", rule)
    shown = found.values
    assert (found.subject, shown["session.client_name"]) == ("prices.tea", "pricing")
    assert (shown["session.end"], shown["session.ended_by"]) == ("rst", "originator")
    assert found.ts_ns is not None
    assert 0 < found.ts_ns - int(str(shown["session.last_ns"])) < 10**9
    assert not findings("flapping", rule)
