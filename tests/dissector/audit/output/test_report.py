"""Facts of findings that several formats say."""

from __future__ import annotations

from dissect.nats.audit.output.report import fingerprint, message, techniques

from tests.support.audit import detection_text, finding, rules


def test_a_fingerprint_is_that_of_the_finding_and_not_of_the_run() -> None:
    assert fingerprint(finding()) == fingerprint(finding(title="Other", suppressed="x"))
    others = [finding(rule="b"), finding(ts_ns=6), finding(number=2), finding(subject="\ud800")]
    assert len({fingerprint(one) for one in [finding(), *others]}) == 5


def test_a_message_names_the_subject_and_the_count() -> None:
    assert message(finding()) == "A"
    assert message(finding(subject="alice", count=3)) == "A: alice (3 times)"


def test_techniques_are_those_of_attack() -> None:
    text = detection_text(
        "  s: {op: x}\n  condition: s", more="tags: [attack.t1110.003, attack.impact, x.t1]\n"
    )
    assert techniques(rules(text)["rule-1"]) == ["T1110.003"]
