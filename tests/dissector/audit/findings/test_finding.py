"""Findings, from the rows of queries."""

from __future__ import annotations

from dissect.nats.audit.findings.finding import FIELDS, schema
from dissect.nats.audit.sigma.levels import Level

from tests.support.audit import detection_text, findings, frame


def test_a_finding_has_the_values_of_its_row_and_its_rule() -> None:
    more = "level: low\nremedy: Do.\nfalsepositives: [x]\nfields: [subject, headers, status]\n"
    text = detection_text("  selection: {op: PUB}", more=more)
    (finding,) = findings(text, [frame(3, subject='a "b"', headers={"z": ["1"], "a": ["2"]})])
    assert finding.severity is Level.low
    assert finding.fields == '{"headers": {"a": ["2"], "z": ["1"]}, "subject": "a \\"b\\""}'
    assert (finding.remedy, finding.false_positives, finding.suppressed) == ("Do.", ["x"], None)


def test_the_command_that_shows_the_evidence_can_be_pasted_into_a_shell() -> None:
    row = frame(3, capture="a b; rm $(x).pcap")
    (finding,) = findings(detection_text("  selection: {op: PUB}"), [row])
    assert finding.follow == f"nats-dissect follow {row.session} 'a b; rm $(x).pcap'"


def test_a_finding_without_a_session_cannot_be_followed() -> None:
    from dissect.nats.application.servers import ServerRecord

    row = ServerRecord(server_id="S1", first_ns=5, last_ns=6, connections=1, clients=0)
    (finding,) = findings(detection_text("  selection: {server_id: S1}", "servers"), [row])
    assert (finding.session, finding.follow, finding.ts_ns) == (None, None, 5)


def test_the_schema_has_every_field_and_the_time() -> None:
    assert set(schema().names) == {*FIELDS, "time"}


def test_control_characters_in_the_fields_are_escaped_as_json_has_them() -> None:
    text = detection_text("  selection: {op: PUB}", more="level: low\nfields: [subject]\n")
    (finding,) = findings(text, [frame(3, subject="a\x7fb\x9bc")])
    assert finding.fields == '{"subject": "a\\u007fb\\u009bc"}'
