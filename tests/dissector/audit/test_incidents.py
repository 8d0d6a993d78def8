"""Recorded incidents: the audit names the cause of each, with evidence."""

from __future__ import annotations

import re

import pytest

from dissect.nats.audit import audit
from dissect.nats.audit.findings.finding import Finding

from tests.support.paths import INCIDENTS, ROOT


def findings(incident: str, rule: str) -> list[Finding]:
    """What a rule finds in the capture of an incident."""
    return [one for one in audit(INCIDENTS / f"{incident}.pcap") if one.rule == rule]


# All findings of each capture, in order. What failed comes before how the server is set up.
FOUND = {
    "stalled": """medium slow-consumer report
        low anonymous-client 127.0.0.1:4222""",
    "poison": """medium late-acks packer
        medium messages-given-up packer
        low anonymous-client 127.0.0.1:4222""",
    "flapping": """high link-flapping route, near, far
        medium interest-lost prices.get
        medium no-responders prices.get
        medium server-link-without-credentials route, 127.0.0.1:6221
        medium server-link-without-tls route, 127.0.0.1, 127.0.0.1:6221
        low anonymous-client 127.0.0.1:4223
        low anonymous-client 127.0.0.1:4222""",
    "left": """medium service-left prices.tea
        medium no-responders prices.tea
        low service-left-unanswered prices.tea
        low unanswered-requests prices.tea
        low anonymous-client 127.0.0.1:4222""",
    "loop": """high leafnode-loop south
        high leafnode-loop south
        high anonymous-leafnode east
        high anonymous-leafnode south
        high anonymous-leafnode south
        medium server-link-without-tls leafnode, 127.0.0.1, 127.0.0.1:7422
        medium server-link-without-tls leafnode, 127.0.0.1, 127.0.0.1:7423""",
    "interest": """high password-in-clear 127.0.0.1, 127.0.0.1:4222
        high server-password-in-clear leafnode, 127.0.0.1, 127.0.0.1:7422
        medium interest-missing prices.get
        medium no-responders prices.get
        medium server-link-without-tls leafnode, 127.0.0.1, 127.0.0.1:7422
        low anonymous-client 127.0.0.1:4223""",
    "twice": """medium answered-by-several-groups invoices.create
        low anonymous-client 127.0.0.1:4222""",
    "oversized": """medium payload-too-large shop
        medium payload-too-large shop
        medium payload-too-large shop
        medium payload-too-large shop
        low anonymous-client 127.0.0.1:4222""",
    "expired": """high expired-credentials-retried UCXQNI7DFELRJZHTK3AZZGYVZUMVD3DOMZRKU556A5KH6KETQM2B3P76
        high repeated-authentication-failures 127.0.0.1
        medium credentials-expired UCXQNI7DFELRJZHTK3AZZGYVZUMVD3DOMZRKU556A5KH6KETQM2B3P76
        medium credentials-expired UCXQNI7DFELRJZHTK3AZZGYVZUMVD3DOMZRKU556A5KH6KETQM2B3P76
        low authentication-failure 127.0.0.1
        low authentication-failure 127.0.0.1
        low authentication-failure 127.0.0.1
        low authentication-failure 127.0.0.1
        low jwt-in-clear 127.0.0.1, 127.0.0.1:4222""",
    "storm": """medium reconnect-storm 127.0.0.1:4222
        low anonymous-client 127.0.0.1:4222""",
    "duplicates": """high message-id-reused ORDERS
        low anonymous-client 127.0.0.1:4222""",
    "foreign": """high acks-without-effect ORDERS, depot
        high password-in-clear 127.0.0.1, 127.0.0.1:4222""",
    "stuck": """medium consumer-never-acknowledged ORDERS, packer, 0b7ec86dbce18079
        low anonymous-client 127.0.0.1:4222""",
    "filter": """low consumer-without-messages ORDERS
        low anonymous-client 127.0.0.1:4222""",
    "quorum": """high stream-lost orders.new
        high stream-without-leader ORDERS
        high stream-without-leader ORDERS
        medium no-responders orders.new
        low anonymous-client 127.0.0.1:4222""",
}


@pytest.mark.parametrize("incident", FOUND)
def test_the_findings_are_these_in_this_order(incident: str) -> None:
    found = [
        f"{one.level} {one.rule} {one.subject}" for one in audit(INCIDENTS / f"{incident}.pcap")
    ]
    assert found == [line.strip() for line in FOUND[incident].splitlines()]


def test_each_capture_has_its_line_on_the_page_with_what_names_the_cause() -> None:
    page = (ROOT / "docs" / "incidents.md").read_text(encoding="utf-8")
    lines = {
        line.split("|")[3].strip(" `"): line for line in page.splitlines() if line.count("|") == 6
    }
    recorded = {path.stem for path in INCIDENTS.glob("*.pcap")}
    assert recorded == FOUND.keys() == lines.keys() - {"capture", "---"}
    for incident in recorded:
        named = set(re.findall(r"\(audit-rules\.md#([\w-]+)\)", lines[incident]))
        assert named and named <= set(FOUND[incident].split()), incident


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
