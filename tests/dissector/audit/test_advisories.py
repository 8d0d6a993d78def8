"""The rules about versions, held against the advisories of the NATS project.

`nats_advisories.csv` lists those about nats-server: `from_before` are the affected versions, each range from
its first version to the first one after it that is mended. Left out is 2026-01, about the version of Go.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

from dissect.nats.audit.sigma.rule_files import load_rules
from dissect.nats.audit.sigma.rules import Detection

ADVISORIES = Path(__file__).with_name("nats_advisories.csv")
Version = tuple[int, ...]

# Releases and their neighbours, some that never were.
VERSIONS = [
    f"{major}.{minor}.{patch}{suffix}"
    for major, minors in ((0, (6, 9)), (1, (0, 4)), (2, range(18)))
    for minor in minors
    for patch in range(32)
    for suffix in ("", "-RC.1")
]


def version(text: str) -> Version:
    return tuple(int(part) for part in text.partition("-")[0].split("."))


def affected(text: str, ranges: str) -> bool:
    """Whether a version is in one of these ranges; a candidate for a release counts as the release."""
    return any(
        version(first) <= version(text) < version(mended)
        for first, _, mended in (each.partition("-") for each in ranges.split())
    )


def pattern(rule: str) -> re.Pattern[str]:
    """The regular expression of a rule about versions."""
    detection = load_rules()[rule]
    assert isinstance(detection, Detection)
    (item,) = detection.detections["selection"].detection_items
    return re.compile(item.value[0].regexp.to_plain_regex())  # type: ignore[union-attr]  # it has one


def advisories() -> list[dict[str, str]]:
    with ADVISORIES.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_affected_version_and_no_other() -> None:
    found = pattern("server-with-advisories")
    ranges = " ".join(each["from_before"] for each in advisories())
    for text in VERSIONS:
        assert bool(found.match(text)) == affected(text, ranges), text


def test_each_advisory_has_its_source() -> None:
    for each in advisories():
        assert each["url"] == f"https://advisories.nats.io/CVE/{each['advisory']}.txt"
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", each["date"])
        assert re.search(r"CVE-\d{4}-\d{4,}|GHSA(-\w{4}){3}", each["ids"])
