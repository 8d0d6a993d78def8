"""Alerts in the Elastic Common Schema."""

from __future__ import annotations

import io
import json

from dissect.nats.audit.output.ecs import write_ecs
from dissect.nats.audit.output.report import Report
from dissect.nats.output.writer import Layout

from tests.support.audit import detection_text, finding, rules


def test_an_alert_has_the_fields_of_the_elastic_common_schema() -> None:
    more = "tags: [attack.t1110]\ndescription: D.\nreferences: ['https://a.b']\n"
    known = rules(detection_text("  s: {op: x}\n  condition: s", more=more))
    output = io.StringIO()
    one = finding(rule="rule-1", ts_ns=5, fields='{"user": "alice"}', suppressed="known")
    write_ecs(output, Report([one], {}, known, Layout()))
    alert = json.loads(output.getvalue())
    assert alert["@timestamp"] == "1970-01-01T00:00:00.000000005Z"
    assert alert["event"]["kind"] == "alert" and alert["event"]["severity"] == 4
    assert alert["rule"]["reference"] == "https://a.b"
    assert alert["threat"]["technique"] == [{"id": "T1110"}]
    assert alert["nats"]["fields"] == {"user": "alice"}
    assert alert["nats"]["suppressed"] == "known"
