"""Detection Findings of OCSF."""

from __future__ import annotations

import io
import json

from dissect.nats.audit.output.ocsf import write_ocsf
from dissect.nats.audit.output.report import Report
from dissect.nats.output.writer import Layout

from tests.support.audit import detection_text, finding, rules

# https://schema.ocsf.io/1.3.0/classes/detection_finding: what it requires, and the ids that it knows
REQUIRED = (
    "activity_id category_uid class_uid type_uid time severity_id metadata finding_info".split()
)


def test_a_finding_has_what_the_class_requires() -> None:
    more = "tags: [attack.t1110]\ndescription: D.\nreferences: ['https://a.b']\n"
    known = rules(detection_text("  s: {op: x}\n  condition: s", more=more))
    output = io.StringIO()
    findings = [
        finding(rule="rule-1", ts_ns=5_000_000, level="critical", remedy="Do."),
        finding(rule="rule-1", ts_ns=None, session=None, suppressed="known"),
    ]
    write_ocsf(output, Report(findings, {}, known, Layout()))
    one, two = map(json.loads, output.getvalue().splitlines())
    for event in (one, two):
        assert set(REQUIRED) <= event.keys()
        assert (event["class_uid"], event["type_uid"], event["category_uid"]) == (2004, 200401, 2)
        assert event["finding_info"]["uid"] and event["finding_info"]["title"]
        assert event["metadata"]["product"]["vendor_name"] and event["metadata"]["version"]
    assert (one["time"], one["severity_id"], one["status_id"]) == (5, 5, 1)
    assert one["finding_info"]["attacks"] == [{"technique": {"uid": "T1110"}}]
    assert one["remediation"] == {"desc": "Do.", "references": ["https://a.b"]}
    assert (two["time"], two["status_id"], two["status_detail"]) == (0, 3, "known")
