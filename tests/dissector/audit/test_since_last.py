"""Each finding is shown once, however often an audit runs while the tables grow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from dissect.nats.audit.findings.finding import Finding
from dissect.nats.audit.since_last import SinceLast
from dissect.nats.capture.time_range import TimeRange
from dissect.nats.cli import cli
from dissect.nats.errors import RuleError
from dissect.nats.output.day_files import DAY_NS
from dissect.nats.types import NEVER_NS

from tests.support.archives import parts_of, put

FOUND = Finding(
    rule="no-responders",
    title="Nobody answers",
    level="medium",
    harm="failing",
    ts_ns=7,
    session="s",
    number=3,
    subject="orders",
    count=1,
    fields="{}",
    capture=None,
    packet=None,
    follow=None,
    false_positives=[],
    remedy=None,
)


def new(path: Path, *findings: Finding) -> list[Finding]:
    since = SinceLast(str(path))
    found = list(since.new(findings))
    since.save()
    return found


def test_a_finding_is_new_once(tmp_path: Path) -> None:
    other = replace(FOUND, number=4)
    assert new(tmp_path / "seen", FOUND, FOUND) == [FOUND]
    assert new(tmp_path / "seen", replace(FOUND, count=9), other) == [other]  # a burst went on
    assert new(tmp_path / "seen", FOUND, other) == []
    assert [path.name for path in tmp_path.iterdir()] == ["seen"]


def test_what_is_not_saved_is_shown_again(tmp_path: Path) -> None:
    assert list(SinceLast(str(tmp_path / "seen")).new([FOUND])) == [FOUND]
    assert new(tmp_path / "seen", FOUND) == [FOUND]


@pytest.mark.parametrize("text", ["", "[]", '{"format": 2, "batch": 1, "findings": []}'])
def test_another_file_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "seen").write_text(text)
    with pytest.raises(RuleError, match="is no file of --since-last"):
        SinceLast(str(tmp_path / "seen"))


def test_an_archive_is_audited_from_the_day_before_new_rows(tmp_path: Path) -> None:
    def between(*names: str) -> TimeRange:
        for name in names:
            (tmp_path / "frames" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "frames" / name).touch()
        since = SinceLast(str(tmp_path / "seen"))
        found = since.between(str(tmp_path))
        since.save()
        return found

    assert between("date=1970-01-03/05-000000001.parquet") == TimeRange()
    assert between() == TimeRange(NEVER_NS)
    added = "date=1970-01-04/05-000000002.parquet", "date=1970-01-05/05-000000002.parquet"
    assert between(*added) == TimeRange(2 * DAY_NS)
    assert between("date=1970-01-02/05-000000003.parquet") == TimeRange(0)
    assert between("date=1970-01-09/part-00000-000.parquet") == TimeRange(NEVER_NS)


def run(arguments: Sequence[str]) -> list[dict[str, object]]:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code in (0, 1), result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_findings_of_an_archive_are_written_once(tmp_path: Path) -> None:
    captures, out, seen = (str(tmp_path / name) for name in ("captures", "out", "seen"))
    audit = ["audit", "--tables", out, "--format", "jsonl"]
    found = []
    for number, name in enumerate(("auth-2.15.1", "orders-2.15.1")):
        put(tmp_path / "captures", parts_of(name, 1), number)
        run(["archive", captures, "--out", out, "--finish"])
        found.append(run([*audit, "--since-last", seen]))
        assert run([*audit, "--since-last", seen]) == []
    assert all(found)

    def ordered(findings: list[dict[str, object]]) -> list[str]:
        return sorted(json.dumps(one, sort_keys=True) for one in findings)

    assert ordered([*found[0], *found[1]]) == ordered(run(audit))
    refused = CliRunner().invoke(cli, [*audit, "--since-last", seen, "--limit", "1"])
    assert refused.exit_code == 2 and "--limit does not go with --since-last" in refused.output
