"""The summary: what is wrong in sample captures of which it is known, the worst first."""

from __future__ import annotations

from collections import Counter

import pytest

from dissect.nats.audit import audit
from dissect.nats.capture import CaptureReport
from dissect.nats.pipeline import records
from dissect.nats.questions.ask import tables_read
from dissect.nats.report.answers import QUESTIONS
from dissect.nats.report.findings import Findings
from dissect.nats.report.page.page import SECTIONS
from dissect.nats.report.page.summary import BAD, Problem, facts, problems

from tests.support.audit import finding
from tests.support.paths import CAPTURES, INCIDENTS
from tests.support.report import answers


def of(name: str) -> tuple[list[Problem], dict[str, str]]:
    report = CaptureReport()
    found = answers(records([str(CAPTURES / name)], tables_read(QUESTIONS), report=report))
    return problems(found, Findings(), report), dict(facts(found))


def texts(found: list[Problem]) -> str:
    return "\n".join(item.text for item in found)


def test_errors_of_servers() -> None:
    found, _ = of("auth-2.15.1.pcap")
    assert found[0].level == BAD and "Authorization Violation" in texts(found)
    assert [item.level for item in found] == sorted(item.level for item in found)


def test_slow_consumers_stand_first() -> None:
    found, _ = of("slow-2.15.1.pcap")
    assert found[0].text == "1 client was too slow for what came (report)."
    assert "stopped its sender, for up to 1.91 s" in texts(found)


def test_requests_without_responders() -> None:
    found, cards = of("core-2.15.1.pcap")
    assert "requests had no responders" in texts(found)
    assert "1 session was reset (crashed)." in texts(found)
    assert cards["latency"].startswith("median ") and "client" in cards["sessions"]


def test_losses_and_tls() -> None:
    assert "are missing from the captures" in texts(of("damaged-loss-reorder.pcap")[0])
    assert "could not be decrypted" in texts(of("tls-2.15.1.pcap")[0])


def test_a_capture_in_which_nothing_is_wrong() -> None:
    found, cards = of("gateway-2.15.1.pcap")
    assert [item for item in found if item.level == BAD] == []
    assert int(cards["frames"]) > 0


def test_findings_lead_by_rule_with_names_and_those_of_low_level_are_left_out() -> None:
    worst = [
        finding(level="high", rule="flaps", title="A route that flaps", subject="near, far"),
        *(finding(level="medium", rule="m", title="Late acks", subject=f"c{n}") for n in range(4)),
        finding(level="low", rule="l", title="No credentials"),
    ]
    levels = Counter({"high": 1, "medium": 6, "low": 9})
    found = problems(answers(), Findings(worst, levels, ran=3), CaptureReport())
    assert [(item.label, item.text) for item in found if item.section == "findings"] == [
        ("error", "A route that flaps (near, far)."),
        ("warning", "Late acks (c0, c1, c2, ...)."),
        ("warning", "The audit has 2 findings more, of level medium or worse."),
    ]


def test_what_broke_counts_for_a_level_more_and_comes_first() -> None:
    worst = [
        finding(level="high", rule="p", title="Password", subject="a", harm="exposure"),
        finding(level="medium", rule="s", title="Stopped", subject="b", harm="outage"),
        finding(level="medium", rule="t", title="No TLS", subject="c", harm="exposure"),
        finding(level="low", rule="f", title="Filter", subject="d", harm="outage"),
        finding(level="informational", rule="i", title="Shutdown", subject="e", harm="outage"),
    ]
    levels = Counter({"high": 1, "medium": 2, "low": 1, "informational": 1})
    found = problems(answers(), Findings(worst, levels, ran=3), CaptureReport())
    assert [(item.label, item.text) for item in found if item.section == "findings"] == [
        ("error", "Stopped (b)."),
        ("error", "Password (a)."),
        ("warning", "Filter (d)."),
        ("warning", "No TLS (c)."),
    ]


@pytest.mark.parametrize(
    "incident, cause",
    [
        ("interest", "Requests that do not reach their service (prices.get)."),
        ("left", "Requests after their service left (prices.tea)."),
        ("oversized", "Message larger than the server allows (shop)."),
        ("filter", "Consumer that gets nothing while its stream fills (ORDERS)."),
    ],
)
def test_the_cause_of_an_incident_comes_first(incident: str, cause: str) -> None:
    path = str(INCIDENTS / f"{incident}.pcap")
    worst = list(audit(path))
    found = answers(records([path], tables_read(QUESTIONS)))
    levels = Counter(each.level for each in worst)
    assert problems(found, Findings(worst, levels), None)[0].text == cause


def test_every_problem_leads_to_a_section() -> None:
    known = {section.id for section in SECTIONS} | {"slow"}
    for name in ("auth-2.15.1.pcap", "slow-2.15.1.pcap", "orders-2.15.1.pcap", "http.pcap"):
        assert {item.section for item in of(name)[0]} <= known
